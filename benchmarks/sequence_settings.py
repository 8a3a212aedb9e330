"""Settings of sequence models: one change of `general` at a time, by validation alone.

`python -m benchmarks.sequence_settings --data FOLDER --out FILE [--device cuda --workers 15]` trains
what `JOBS` names on the leaderboard's splits and on two with the last item held out, from LEPORID
embeddings, and adds a line to FILE for each run: NDCG@10 on validation of the network alone, and with a
linear part (SLIM) by gain. Jobs named `inner` do so on a split of train and validation, and measure its
last part too: what a rule for the gain would bring later. The test part is never read.
`--collect FILE` puts the lines into benchmarks/records/sequence_settings.json, `--table` prints them.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import multiprocessing
import os
import queue
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.harness import write_record
from leporid.artifacts import read_json

NAME = "sequence_settings"
RECORD = Path(__file__).parent / "records" / f"{NAME}.json"
LAST_ITEM = "{}, last item"
SECONDS = {
    "ml-1m-r3": 110, "beauty": 70, "toys": 70, LAST_ITEM.format("beauty"): 75,
    LAST_ITEM.format("toys"): 75, "anime-5k": 60, "lastfm": 35, "movietweetings-100k": 30,
    "steam-200k": 30, "ml-100k": 25,
}  # fmt: skip
"""About what a run takes where fifteen share a GPU: the longest first, none that ends too late."""
_USERS = 6000
"""Validation users that are asked for each gain, at most; all of them for `inner`."""
_SHORT = [log for log in SECONDS if log.startswith(("beauty", "toys", "movietweetings"))]
_WIDE = {"dim": 128, "hidden": 128}
CHANGES: dict[str, list[tuple[Sequence[str], list[dict[str, Any]]]]] = {
    "sasrec": [
        (
            list(SECONDS),
            [
                {}, {"layers": 2}, {"layers": 1}, {"dropout": 0.5}, {"dropout": 0.35}, _WIDE,
                {"optimizer": "adamw", "weight_decay": 0.1},
            ],
        ),
        (
            _SHORT,
            [
                _WIDE | {"layers": 2}, _WIDE | {"dropout": 0.35},
                _WIDE | {"layers": 2, "dropout": 0.35}, {"dim": 256, "hidden": 256},
                _WIDE | {"heads": 2},
                _WIDE | {"block": "ligr"},
            ],
        ),
        (
            ["ml-100k", "lastfm", "movietweetings-100k", "steam-200k"],
            [{"block": "ligr"}, {"heads": 2}, {"lr": 1e-3}, _WIDE | {"layers": 2}],
        ),
        (["ml-1m-r3", "anime-5k"], [{"dim": 256, "hidden": 256}]),
    ],
    "sasrec_levers": [
        (["ml-100k", "movietweetings-100k"], [{"time_gap": True}]),
        (
            _SHORT,
            [
                _WIDE | {"mixing": 0.7}, _WIDE | {"mixing": 0.3}, _WIDE | {"profile": 10},
                _WIDE | {"label_smoothing": 0.1}, _WIDE | {"item_bias": True},
            ],
        ),
    ],
    "dlr2": [([*_SHORT, "anime-5k"], [{}, {"dim": 128}])],
    "hgn": [
        (
            [log for log in SECONDS if "item" not in log],
            [
                {}, {"history": 3}, {"dim": 128}, {"history": 10}, {"targets": 1},
                {"pooling": "gates"}, {"lr": 3e-3, "batch_size": 1024},
                {"history": 3, "dim": 128}, 
                {"history": 3, "dim": 128, "targets": 1},
            ],
        ),
        (
            ["ml-100k", "lastfm", "movietweetings-100k", "steam-200k"],
            [{"item_bias": True}, {"regularization": 1e-4}, {"lr": 3e-3}, {"lr": 1e-2}],
        ),
    ],
}  # fmt: skip
"""By model, on which logs what is changed."""
INNER = ("sasrec", "dlr2", "hgn")


def splits(data: Path | None) -> dict[str, Any]:
    """What to load, by the name of the log."""
    from leporid.experiments import read_experiment
    from reproduction.specs import GRIDS, LEADERBOARD

    found: dict[str, Any] = {spec.dataset: spec for spec in read_experiment(LEADERBOARD, data)}
    last = read_experiment(GRIDS / "leave-last-out.toml", data)
    return found | {LAST_ITEM.format(spec.dataset): spec for spec in last}


def jobs(args: argparse.Namespace, done: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The runs that are not there yet: inner splits and unchanged recipes first, then by length."""
    logs = sorted(args.logs or SECONDS, key=lambda log: -SECONDS[log])
    wanted = [
        {"log": log, "model": model, "change": {}, "part": "inner", "seed": args.seed}
        for model in INNER
        for log in logs
        if args.inner and (model != "hgn" or "item" not in log)
    ]
    wanted += [
        {"log": log, "model": model, "change": change, "part": "valid", "seed": args.seed}
        for model in args.models
        for on, changes in CHANGES[model]
        for change in changes
        for log in logs
        if log in on
    ]
    for job in wanted:
        if not any(job.items() <= row.items() for row in done):
            yield job


def one(job: dict[str, Any], specs: dict[str, Any], device: str) -> dict[str, Any]:
    """Train once, then ask the network alone and with a linear part."""
    from leporid import models
    from leporid.data import inner_validation_split
    from leporid.experiments import load_split

    spec = specs[job["log"]]
    split = load_split(spec.source or spec.dataset, spec.core, spec.protocol, spec.min_rating)
    inner = job["part"] == "inner"
    split = inner_validation_split(split) if inner else split
    began = time.perf_counter()
    cls: Any = models.get(job["model"])
    plain = {**cls.config_class().to_dict(), **cls.recipe_settings("general", split.train)}
    if job["change"] and all(plain[key] == value for key, value in job["change"].items()):
        return job | {"same": True}
    asked = {"recipe": "general", "seed": job["seed"], "device": device, "progress": False}
    asked |= {"init_settings": {"cache": True}, "linear_gain": 0.0, "metric": "NDCG@10"}
    fitted: Any = models.train(job["model"], split, "leporid", **{**asked, **job["change"]})
    row = job | {"best_step": fitted.training_summary()["best_step"]}
    row["seconds"] = round(time.perf_counter() - began, 1)
    return row | gains(fitted, split, inner)


def gains(fitted: Any, split: Any, inner: bool) -> dict[str, Any]:
    """NDCG@10 by gain of a linear part, and the gains that rules would take."""
    from leporid.models.shared.linear_part import choose_gain, fit_linear_part
    from leporid.models.shared.profiles import first_level, some_users

    part = fit_linear_part(fitted.score, fitted.config.replace(linear_gain=1.0), split)
    assert part is not None
    values = curve(fitted, part, split, "valid", None if inner else _USERS)
    asked, some = some_users(split)
    known, slim = split.train.sequences(), part.model.config
    both = fitted.score(asked, known), part.scores(known.take(asked))
    row = {
        "valid": means(values),
        "auto": choose_gain(*both, asked, some),
        "level": first_level(values),
        "users": len(values[0.0]),
        "penalties": [slim.l1, slim.l2],
        "window": slim.window,
    }
    return row | ({"later": means(curve(fitted, part, split, "test"))} if inner else {})


def curve(
    fitted: Any, linear: Any, split: Any, part: Any, most: int | None = None
) -> dict[float, Any]:
    """NDCG@10 of each user of a part, by the gain of the linear part."""
    import numpy as np

    from leporid.evaluation import evaluate
    from leporid.models.shared.linear_part import GAINS

    users, histories = np.unique(split.part(part).goals.user), split.known(part).sequences()
    if most and len(users) > most:
        users = np.sort(np.random.default_rng(0).choice(users, most, replace=False))
        split = dataclasses.replace(
            split, valid=split.valid.select(np.isin(split.valid.user, users))
        )
    network, add, values = fitted.score(users, histories), linear.scores(histories.take(users)), {}
    for gain in GAINS:
        both = network + np.float32(gain) * add
        ask: Any = {"at": (10,), "part": part, "metrics": ("NDCG",)}
        table = evaluate(lambda some, _, b=both: b[np.searchsorted(users, some)], split, **ask)
        values[gain] = table.per_user("NDCG@10")
    return values


def means(values: dict[float, Any]) -> dict[str, float]:
    return {str(gain): round(float(own.mean()), 6) for gain, own in values.items()}


def work(tasks: Any, out: Any, args: argparse.Namespace, until: float) -> None:
    """One process: job after job while there is time for another."""
    import torch

    from benchmarks.sequence_levers import register_levers

    register_levers()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    specs = splits(args.data)
    while True:
        try:
            job = tasks.get(timeout=1)
        except queue.Empty:
            return
        if time.time() + 1.15 * SECONDS[job["log"]] > until:
            continue
        try:
            out.put(one(job, specs, args.device))
        except Exception as error:  # a setting that fails is a row, not the end of all others
            out.put(job | {"error": repr(error)})


def run(args: argparse.Namespace) -> None:
    """All jobs on some processes; a line of FILE for each, as they end."""
    os.environ.update({"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"})
    until = time.time() + args.seconds
    context = multiprocessing.get_context("spawn")
    tasks, out = context.Queue(), context.Queue()
    done = [*read_json(RECORD)["rows"]] if RECORD.is_file() else []
    for job in jobs(args, done):
        tasks.put(job)
    started = [
        context.Process(target=work, args=(tasks, out, args, until)) for _ in range(args.workers)
    ]
    for process in started:
        process.start()
    failed = 0
    with args.out.open("a") as file:
        while any(process.is_alive() for process in started) or not out.empty():
            try:
                row = out.get(timeout=1)
            except queue.Empty:
                if time.time() > until + 20:
                    break
                continue
            failed = failed + 1 if "error" in row else -1000
            if failed > 9:
                break
            if "same" not in row:
                file.write(json.dumps(row | {"device": args.device}) + "\n")
                file.flush()
                print(
                    round(until - time.time()),
                    row["log"],
                    row["model"],
                    row["change"],
                    row.get("seconds"),
                    row.get("error", ""),
                    flush=True,
                )
    for process in started:
        process.kill()


def collect(files: list[Path]) -> None:
    """Put the lines of FILES into the record; a run that failed is left out."""
    rows = [*read_json(RECORD)["rows"]] if RECORD.is_file() else []
    for file in files:
        found = [json.loads(line) for line in file.read_text().splitlines()]
        rows += [row for row in found if "error" not in row]
    notes = ["NDCG@10 on validation by the gain of the linear part; test is not read."]
    write_record(NAME, rows, {}, notes)


def table(best: bool = False, part: str = "valid") -> str:
    """Gains of the changes in percent, a column per log; then each log as the others choose."""
    values: dict[str, dict[tuple[str, str], list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in read_json(RECORD)["rows"]:
        if row["part"] == part:
            value = max(row["valid"].values()) if best else row["valid"]["0.0"]
            values[row["model"]][_word(row["change"]), row["log"]].append(value)
    lines = []
    for model, found in values.items():
        logs = [log for log in SECONDS if ("-", log) in found]
        words = list(dict.fromkeys(word for word, _ in found))
        base = {log: fmean(found["-", log]) for log in logs}
        gain = {
            key: 100 * (fmean(own) / base[key[1]] - 1)
            for key, own in found.items()
            if key[1] in base
        }
        lines += ["", "| " + " | ".join([model, *logs]) + " |", "|---|" + "---:|" * len(logs)]
        for word in words:
            cells = [f"{gain[word, log]:+.1f}" if (word, log) in gain else "" for log in logs]
            lines.append(f"| {word} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _word(change: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in change.items()) or "-"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--logs", nargs="+")
    parser.add_argument("--models", nargs="+", default=list(CHANGES))
    parser.add_argument("--inner", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--collect", type=Path, nargs="+")
    parser.add_argument("--table", action="store_true")
    chosen = parser.parse_args()
    if chosen.collect:
        collect(chosen.collect)
    if chosen.table:
        print(table(), table(best=True), sep="\n")
    if chosen.out:
        run(chosen)
