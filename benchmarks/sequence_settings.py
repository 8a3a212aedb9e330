"""Settings of sequence models: one change of the recipe `general` at a time, by validation alone.

`python -m benchmarks.sequence_settings --data FOLDER --out FILE [--device cuda --workers 15]`
trains `CHANGES` on the leaderboard's splits and on two with the last item held out, from LEPORID
embeddings. Each run adds a line to FILE: NDCG@10 on validation of the network alone, and with a
linear part (SLIM) by gain. Runs with `--inner` are on a split of train and validation, and measure
its last part too: what a rule for the gain brings later. The test part is never read. `--collect
FILE` puts the lines into results/sequence-settings.json, whose runs are not repeated.
`reproduction.sequence_tables` shows them.
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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from leporid.foundation import read_json, write_json

RECORD = Path(__file__).parents[1] / "results" / "sequence-settings.json"
LAST_ITEM = ", last item"
SECONDS = {
    "ml-1m-r3": 110, "beauty": 70, "toys": 70, f"beauty{LAST_ITEM}": 75, f"toys{LAST_ITEM}": 75,
    "anime-5k": 60, "lastfm": 35, "movietweetings-100k": 30, "steam-200k": 30, "ml-100k": 25,
}  # fmt: skip
"""About what a run takes where fifteen share a GPU: the longest first, none that ends too late."""
_USERS = 6000
"""Validation users that are asked for each gain, at most; all of them for `--inner`."""
_SOME = 2000
"""Those that the rule `auto` of the record asked: the smallest gain that is level with the best."""
_SHORT = [log for log in SECONDS if log.startswith(("beauty", "toys", "movietweetings"))]
_SMALL = ["ml-100k", "lastfm", "movietweetings-100k", "steam-200k"]
_NO_ITEM = [log for log in SECONDS if not log.endswith(LAST_ITEM)]
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
                _WIDE | {"heads": 2}, _WIDE | {"block": "ligr"},
            ],
        ),
        (_SMALL, [{"block": "ligr"}, {"heads": 2}, {"lr": 1e-3}, _WIDE | {"layers": 2}]),
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
    "dlr2": [([*_SHORT, "steam-200k", "anime-5k"], [{}, {"dim": 128}])],
    "hgn": [
        (
            _NO_ITEM,
            [
                {}, {"max_history": 3}, {"dim": 128}, {"max_history": 10}, {"targets": 1},
                {"pooling": "gates"}, {"lr": 3e-3, "batch_size": 1024},
                {"max_history": 3, "dim": 128}, {"max_history": 3, "dim": 128, "targets": 1},
            ],
        ),
        (_SMALL, [{"item_bias": True}, {"regularization": 1e-4}, {"lr": 3e-3}, {"lr": 1e-2}]),
    ],
}  # fmt: skip
"""By model, on which logs what is changed; `sasrec_levers` is in `benchmarks.sequence_levers`."""
INNER = ("sasrec", "dlr2", "hgn")


def splits(data: Path | None) -> dict[str, Any]:
    """What to load, by the name of the log."""
    from leporid.runs import read_experiment
    from reproduction.specs import GRIDS, LEADERBOARD

    found: dict[str, Any] = {spec.dataset: spec for spec in read_experiment(LEADERBOARD, data)}
    last = read_experiment(GRIDS / "leave-last-out.toml", data)
    return found | {spec.dataset + LAST_ITEM: spec for spec in last}


def jobs(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The runs that the record has not: inner splits first, then change by change."""
    from reproduction.old_records import present_settings

    stored = read_json(RECORD)["runs"] if RECORD.is_file() else []
    done = [run | {"change": present_settings(run["model"], run["change"])} for run in stored]
    logs = [log for log in SECONDS if log in (args.logs or SECONDS)]
    wanted = [
        (log, model, {}, "inner")
        for model in INNER
        for log in logs
        if args.inner and (model != "hgn" or log in _NO_ITEM)
    ]
    wanted += [
        (log, model, change, "valid")
        for model in args.models
        for on, changes in CHANGES[model]
        for change in changes
        for log in logs
        if log in on
    ]
    for values in wanted:
        job = dict(zip(("dataset", "model", "change", "part"), values, strict=True))
        job["seed"] = args.seed
        if not any(job.items() <= run.items() for run in done):
            yield job


def one(job: dict[str, Any], specs: dict[str, Any], device: str) -> dict[str, Any] | None:
    """Train once, ask the network alone and with SLIM beside it; None where nothing changes."""
    from leporid import models
    from leporid.data import inner_validation_split
    from leporid.runs import load_split

    spec = specs[job["dataset"]]
    split = load_split(spec.source or spec.dataset, spec.core, spec.protocol, spec.min_rating)
    inner, began = job["part"] == "inner", time.perf_counter()
    split = inner_validation_split(split) if inner else split
    cls: Any = models.get(job["model"])
    plain = {**cls.config_class().to_dict(), **cls.recipe_settings("general", split.train)}
    if job["change"] and all(plain[key] == value for key, value in job["change"].items()):
        return None
    asked = {"recipe": "general", "seed": job["seed"], "device": device, "progress": False}
    asked |= {"init_settings": {"cache": True}, "metric": "NDCG@10"}
    asked |= {"linear_weight": 0.0, "transitions_weight": 0.0}
    fitted: Any = models.train(job["model"], split, "leporid", **{**asked, **job["change"]})
    changed = {key for _, changes in CHANGES[job["model"]] for c in changes for key in c}
    row = job | {"init": "leporid", "settings": {k: fitted.config.to_dict()[k] for k in changed}}
    row["best_step"] = fitted.training_summary()["best_step"]
    row["seconds"] = round(time.perf_counter() - began, 1)
    return row | gains(fitted, split, inner)


def gains(fitted: Any, split: Any, inner: bool) -> dict[str, Any]:
    """NDCG@10 by the gain of a linear part, and the gains that two rules would take."""
    from leporid.models.closed_form.history_window import first_within_one_standard_error
    from leporid.models.neural.closed_form_part import fit_closed_form_part

    config = fitted.config.replace(linear_weight=1.0)
    part: Any = fit_closed_form_part(fitted.score, config, split)
    [(linear, _)] = part.components
    values = curve(fitted, linear, split, "valid", None if inner else _USERS)
    slim = linear.config
    row = {
        "valid": {"NDCG@10": means(values)["0.0"]},
        "by_gain": means(values),
        "auto": first_within_one_standard_error(curve(fitted, linear, split, "valid", _SOME)),
        "level": first_within_one_standard_error(values),
        "users": len(values[0.0]),
        "penalties": [slim.l1, slim.l2],
        "window": slim.window,
    }
    return row | ({"later": means(curve(fitted, linear, split, "test"))} if inner else {})


def curve(
    fitted: Any, linear: Any, split: Any, part: Any, most: int | None = None
) -> dict[float, Any]:
    """NDCG@10 of each user of a part, by the gain of the linear part."""
    import numpy as np

    from leporid.evaluation import evaluate
    from leporid.models.neural.closed_form_part import LINEAR_WEIGHTS

    users, histories = np.unique(split.part(part).target_events.user), split.known(part).sequences()
    if most and len(users) > most:
        users = np.sort(np.random.default_rng(0).choice(users, most, replace=False))
        own = split.part(part)
        some = {part: own.select(np.isin(own.user, users))}
        split = dataclasses.replace(split, **some)
    network, values = fitted.score(users, histories), {}
    add = linear.score_profile(histories.take(users))
    for gain in LINEAR_WEIGHTS:
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
        if time.time() + 1.15 * SECONDS[job["dataset"]] > until:
            continue
        try:
            out.put(one(job, specs, args.device))
        except Exception as error:  # a setting that fails is a line, not the end of all others
            out.put(job | {"error": repr(error)})


def run(args: argparse.Namespace) -> None:
    """All jobs on some processes; a line of FILE for each, as they end."""
    os.environ.update({"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"})
    until = time.time() + args.seconds
    context = multiprocessing.get_context("spawn")
    tasks, out = context.Queue(), context.Queue()
    for job in jobs(args):
        tasks.put(job)
    how = {"target": work, "args": (tasks, out, args, until)}
    started = [context.Process(**how) for _ in range(args.workers)]
    for process in started:
        process.start()
    with args.out.open("a") as file:
        while any(process.is_alive() for process in started) or not out.empty():
            try:
                row = out.get(timeout=1)
            except queue.Empty:
                if time.time() > until + 20:
                    break
                continue
            if row:
                file.write(json.dumps(row | {"device": args.device}) + "\n")
                file.flush()
                print({key: row.get(key) for key in ("dataset", "model", "change", "error")})
    for process in started:
        process.kill()


def collect(files: list[Path]) -> None:
    """Put the lines of FILES into the record; a run that failed is left out."""
    record = read_json(RECORD)
    for file in files:
        found = [json.loads(line) for line in file.read_text().splitlines()]
        record["runs"] += [row for row in found if "error" not in row]
    write_json(RECORD, record)


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
    chosen = parser.parse_args()
    if chosen.collect:
        collect(chosen.collect)
    if chosen.out:
        run(chosen)
