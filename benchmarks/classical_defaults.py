"""Defaults of the classical models: many settings of each on many logs, by validation alone.

`python -m benchmarks.classical_defaults --out FOLDER --data FOLDER` fits the settings of `POOL` on
the logs, except for those the record has, until its seconds are over, and writes the validation
NDCG@10 of each for every window. With `--defaults` it fits every model as it comes instead, in one
process. With `--collect` it adds what both wrote to benchmarks/records/classical_defaults.json.
`--models` names some of the models.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import queue
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from leporid.foundation import read_json

RECORD = Path(__file__).parent / "records" / "classical_defaults.json"
WINDOWS = (None, 5, 10, 20)
LOGS: dict[str, tuple[str, int, str]] = {
    "beauty": ("beauty", 1, "temporal"),
    "toys": ("toys", 1, "temporal"),
    "lastfm": ("lastfm", 1, "temporal"),
    "movietweetings-100k": ("movietweetings-100k", 10, "temporal"),
    "ml-100k": ("ml-100k", 1, "temporal"),
    "ml-1m-r3": ("ml-1m-r3", 20, "temporal"),
    "tafeng": ("tafeng", 5, "temporal"),
    "anime-5k": ("anime-5k", 20, "random"),
    "steam-200k": ("steam-200k", 5, "random"),
    "lastfm, no order": ("lastfm", 1, "random"),
    "ml-1m-r3, no order": ("ml-1m-r3", 20, "random"),
}
"""File, k-core and split of each log."""
_USERS = 3000
"""Users of the validation part that are evaluated, at most: the same ones for every setting."""


def _settings(names: str, *rows: tuple[Any, ...]) -> list[dict[str, Any]]:
    return [dict(zip(names.split(), row, strict=True)) for row in rows]


_TVERSKY, _COSINE = (
    "similarity k shrink tversky_alpha tversky_beta",
    "similarity k shrink weighting",
)
POOL: dict[str, list[dict[str, Any]]] = {
    "slim": _settings(
        "l1 l2", (1.0, 100.0), (3.0, 1000.0), (1.0, 1000.0), (0.5, 50.0), (1.0, 50.0),
        (0.1, 30.0), (3.0, 30.0), (0.1, 10.0), (3.0, 3.0), (0.1, 3.0), (0.5, 100.0), (0.3, 100.0),
    ),
    "ease": _settings(
        "l2", (30.0,), (60.0,), (100.0,), (200.0,), (300.0,), (400.0,), (600.0,), (800.0,),
        (1600.0,), (3000.0,),
    ),
    "itemknn": [
        *_settings(
            _TVERSKY, ("tversky", 50, 20.0, 0.0, 1.5), ("tversky", 400, 20.0, 1.0, 1.5),
            ("tversky", 400, 20.0, 0.0, 1.5), ("tversky", 50, 20.0, 1.0, 1.5),
            ("tversky", 50, 60.0, 0.0, 1.5), ("tversky", 400, 20.0, 0.0, 0.6),
            ("tversky", 50, 20.0, 0.5, 1.5), ("tversky", 50, 40.0, 0.5, 1.5),
            ("tversky", 50, 40.0, 0.75, 1.5), ("tversky", 50, 40.0, 1.0, 1.5),
            ("tversky", 75, 40.0, 0.5, 1.5), ("tversky", 30, 20.0, 1.0, 1.5),
            ("tversky", 50, 20.0, 1.0, 2.0), ("tversky", 30, 20.0, 1.0, 2.0),
            ("tversky", 50, 30.0, 1.0, 3.0),
        ),
        *_settings(
            _COSINE, ("cosine", 50, 5.0, "tfidf"), ("cosine", 400, 20.0, "tfidf"),
            ("cosine", 50, 5.0, "none"),
        ),
        *_settings("similarity k shrink", ("jaccard", 100, 20.0), ("jaccard", 30, 20.0)),
    ],
    "userknn": [
        *_settings(_TVERSKY, ("tversky", 400, 60.0, 0.0, 0.6), ("tversky", 400, 20.0, 0.0, 0.6)),
        *_settings(_COSINE, ("cosine", 50, 60.0, "none"), ("cosine", 400, 5.0, "none")),
        *_settings(
            "similarity k shrink", ("jaccard", 400, 0.0), ("jaccard", 400, 20.0),
            ("jaccard", 50, 20.0),
        ),
        *_settings("k shrink", (100, 20.0), (100, 5.0)),
        {"similarity": "asymmetric_cosine", "k": 100, "shrink": 20.0, "asymmetric_alpha": 0.2},
    ],
    "p3alpha": _settings(
        "alpha top_k normalize", (0.5, 75, True), (0.5, 50, True), (1.1, 150, True),
        (0.3, 150, True), (0.7, 400, False), (0.7, 50, True), (1.1, 50, False), (0.5, 100, True),
        (1.1, 400, False), (0.3, 150, False), (0.5, 400, True), (0.5, 75, False), (0.3, 50, True),
        (0.5, 30, True), (0.3, 50, False), (0.5, 100, False), (0.5, 50, False), (0.4, 100, True),
        (0.5, 75, "auto"),
    ),
    "rp3beta": _settings(
        "alpha beta top_k normalize", (0.4, 0.4, 400, False), (0.9, 0.4, 400, True),
        (0.4, 0.1, 400, True), (0.4, 0.25, 400, False), (0.6, 0.25, 100, False),
        (0.9, 0.4, 400, False), (0.4, 0.1, 100, True), (0.9, 0.25, 100, True),
        (0.5, 0.25, 100, True), (0.5, 0.15, 100, True), (0.4, 0.25, 100, False),
        (0.4, 0.3, 200, False), (0.5, 0.3, 100, False), (0.4, 0.4, 100, False),
        (0.4, 0.25, 50, False), (0.5, 0.25, 100, False), (0.5, 0.2, 100, True),
        (0.5, 0.2, 100, False), (0.5, 0.25, 75, True), (0.5, 0.2, 100, "auto"),
    ),
    "ials": [
        *_settings("l2", (0.003,), (0.005,), (0.01,), (0.02,), ("auto",)),
        *_settings(
            "dim unobserved_weight l2 frequency_exponent", (128, 0.7, 0.03, 1.0),
            (128, 0.01, 0.003, 0.5), (256, 0.05, 0.003, 0.75), (128, 0.2, 0.003, 0.5),
            (64, 0.05, 0.003, 0.75), (128, 0.05, 0.0003, 0.5), (128, 0.05, 0.003, 1.0),
            (128, 0.7, 0.03, 0.5), (128, 0.7, 0.0003, 1.0), (128, 0.2, 0.0003, 0.5),
        ),
    ],
    "gfcf": _settings(
        "rank alpha", (64, 0.3), (128, 0.3), (64, 0.1), (32, 0.6), (32, 0.3), (64, 1.2),
        (256, 1.2), (256, 0.6), (32, 0.1), (32, 1.2),
    ),
    "turbocf": _settings(
        "filter alpha power", ("linear", 0.8, 1.0), ("third_order", 0.5, 1.0),
        ("third_order", 0.8, 1.0), ("linear", 0.5, 1.0), ("linear", 0.5, 1.5),
        ("linear", 0.5, 0.6), ("linear", 0.8, 0.6), ("linear", 0.8, 1.5),
        ("third_order", 0.5, 1.5), ("third_order", 0.5, 0.6), ("linear", 0.6, 0.6),
        ("linear", 0.6, 0.5), ("linear", 0.5, 0.5), ("linear", 0.5, 0.8), ("linear", 0.7, 0.6),
        ("linear", 0.55, 0.6), ("linear", 0.55, 0.5), ("linear", 0.55, 0.7),
        ("linear", "auto", 0.6),
    ),
}  # fmt: skip
"""Ten settings of each model or more, the same on all logs; what is "auto" or not set (factors and
weight of iALS) follows from the log."""


def split_of(data: Path, file: str, core: int, protocol: str) -> Any:
    """The random or temporal split of a file in DATA, or of a data set of that name."""
    import leporid

    source = data / f"{file}.parquet"
    log = leporid.load(source if source.is_file() else file).core(core)
    return leporid.random_split(log) if protocol == "random" else leporid.temporal_split(log)


def sampled_split(data: Path, name: str) -> Any:
    """The split of a log with at most `_USERS` users in its validation part."""
    split = split_of(data, *LOGS[name])
    users = np.unique(split.valid.user)
    if len(users) > _USERS:
        users = np.random.default_rng(0).choice(users, _USERS, replace=False)
        keep = np.isin(split.valid.user, users)
        split = type(split)(
            split.train, split.valid.select(keep), split.test, protocol=split.protocol
        )
    return split


def _trial(split: Any, model: str, settings: dict[str, Any]) -> dict[str, Any]:
    import leporid

    began = time.perf_counter()
    fitted = leporid.train(model, split, progress=False, **settings)
    seconds = time.perf_counter() - began
    values = {}
    for window in WINDOWS:
        fitted.config = fitted.config.replace(window=window)
        table = leporid.evaluate(fitted, split, at=(10,), part="valid", metrics=("NDCG",))
        values[str(window)] = round(table.mean()["NDCG@10"], 6)
    return {"valid": values, "fit_seconds": round(seconds, 2)}


def defaults(arguments: argparse.Namespace) -> None:
    """Every model as it comes on every log: its validation NDCG@10, window and seconds."""
    import leporid

    arguments.out.mkdir(parents=True, exist_ok=True)
    with (arguments.out / "defaults.jsonl").open("a") as out:
        for log, model in itertools.product(LOGS, arguments.models):
            split = sampled_split(arguments.data, log)
            began = time.perf_counter()
            fitted: Any = leporid.train(model, split, progress=False)
            seconds = round(time.perf_counter() - began, 2)
            table = leporid.evaluate(fitted, split, at=(10,), part="valid", metrics=("NDCG",))
            row = {"log": log, "model": model, "window": fitted.config.window}
            row |= {"valid": round(table.mean()["NDCG@10"], 6), "fit_seconds": seconds}
            out.write(json.dumps(row) + "\n")
            out.flush()


def _work(arguments: argparse.Namespace, worker: int, tasks: Any, end: float) -> None:
    warnings.simplefilter("ignore")
    splits: dict[str, Any] = {}
    with (arguments.out / f"trials-{worker}.jsonl").open("a") as out:
        while time.time() < end:
            try:
                log, model, settings = tasks.get(timeout=2)
            except queue.Empty:
                return
            if log not in splits:
                splits[log] = sampled_split(arguments.data, log)
            row = {"log": log, "model": model, "settings": settings}
            try:
                row |= _trial(splits[log], model, settings)
            except Exception as error:  # said in the record
                row |= {"error": repr(error)}
            out.write(json.dumps(row) + "\n")
            out.flush()


def run(arguments: argparse.Namespace) -> None:
    """Every setting on every log, until the seconds are over."""
    arguments.out.mkdir(parents=True, exist_ok=True)
    known = {_key(trial) for trial in read_json(RECORD)["trials"]}
    tasks = [
        (log, model, settings)
        for model in arguments.models
        for settings in POOL[model]
        for log in LOGS
        if _key({"log": log, "model": model, "settings": settings}) not in known
    ]
    # Log by log, since a worker keeps the split; the rest may be run later.
    tasks.sort(key=lambda task: -list(LOGS).index(task[0]))
    context = multiprocessing.get_context("spawn")
    waiting = context.Queue()
    for task in tasks:
        waiting.put(task)
    waiting.cancel_join_thread()
    end = time.time() + arguments.seconds
    workers = [
        context.Process(target=_work, args=(arguments, number, waiting, end), daemon=True)
        for number in range(arguments.workers)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(max(1.0, end + 25 - time.time()))


def _key(trial: dict[str, Any]) -> tuple[str, str, str]:
    return trial["log"], trial["model"], json.dumps(trial["settings"], sort_keys=True)


def _pair(row: dict[str, Any]) -> tuple[str, str]:
    return row["log"], row["model"]


def collect(arguments: argparse.Namespace) -> None:
    """Add the trials, and the defaults where they were fitted again, to the record."""
    record = read_json(RECORD)
    files = [path.read_text().splitlines() for path in sorted(arguments.out.glob("trials-*.jsonl"))]
    found = [json.loads(line) for lines in files for line in lines]
    trials = {_key(trial): trial for trial in [*record["trials"], *found] if "valid" in trial}
    record["trials"] = [trials[key] for key in sorted(trials)]
    if (arguments.out / "defaults.jsonl").is_file():
        lines = (arguments.out / "defaults.jsonl").read_text().splitlines()
        again = {_pair(row): row for row in map(json.loads, lines)}
        record["rows"] = [again.get(_pair(row), row) for row in record["rows"]]
    for row in record["rows"]:
        own = [t["valid"] for t in record["trials"] if (t["log"], t["model"]) == _pair(row)]
        best = max([row["valid"], *(value for values in own for value in values.values())])
        row["of the best setting tried"] = round(row["valid"] / best, 3)
    RECORD.write_text(json.dumps(record, sort_keys=True) + "\n")  # on one line: it is long
    print(f"{len(trials)} trials, {len(record['rows'])} defaults")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--workers", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=560)
    parser.add_argument("--models", nargs="+", choices=list(POOL), default=list(POOL))
    parser.add_argument("--defaults", action="store_true")
    parser.add_argument("--collect", action="store_true")
    chosen = parser.parse_args()
    (collect if chosen.collect else defaults if chosen.defaults else run)(chosen)
