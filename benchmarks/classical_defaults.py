"""Defaults of the classical models: many settings of each on many logs, by validation alone.

`python -m benchmarks.classical_defaults --out FOLDER --data FOLDER` fits the settings of `POOL` on
the logs, in random order until its seconds are over, and writes the validation NDCG@10 of each for
every window. With `--defaults` it fits every model as it comes instead, in one process.
benchmarks/records/classical_defaults.json is what both wrote.
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


def _grid(**values: Any) -> list[dict[str, Any]]:
    return [
        dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())
    ]


_KNN = [
    *_grid(similarity=["jaccard"], k=[50, 400], shrink=[0.0, 5.0, 20.0, 60.0]),
    *_grid(
        similarity=["cosine"], k=[50, 400], shrink=[5.0, 20.0, 60.0], weighting=["none", "tfidf"],
    ),
    *_grid(
        similarity=["tversky"], k=[50, 400], shrink=[20.0, 60.0], tversky_alpha=[0.0, 1.0],
        tversky_beta=[0.6, 1.5],
    ),
    *_grid(
        similarity=["asymmetric_cosine"], k=[100], shrink=[20.0, 100.0],
        asymmetric_alpha=[0.2, 0.7],
    ),
]  # fmt: skip
POOL: dict[str, list[dict[str, Any]]] = {
    "slim": _grid(l2=[3.0, 10.0, 30.0, 100.0, 300.0, 1000.0], l1=[0.1, 0.3, 1.0, 3.0]),
    "ease": _grid(l2=[30.0, 100.0, 200.0, 400.0, 800.0, 1600.0]),
    "itemknn": _KNN,
    "userknn": _KNN[::2],
    "p3alpha": _grid(
        alpha=[0.3, 0.5, 0.7, 0.9, 1.1], top_k=[50, 150, 400], normalize=[False, True],
    ),
    "rp3beta": _grid(
        alpha=[0.4, 0.6, 0.9], beta=[0.1, 0.25, 0.4], top_k=[100, 400], normalize=[False, True]
    ),
    "ials": _grid(
        dim=[128], unobserved_weight=[0.01, 0.05, 0.2, 0.7], l2=[3e-4, 3e-3, 3e-2],
        frequency_exponent=[0.5, 1.0],
    ) + _grid(dim=[64, 256], unobserved_weight=[0.05, 0.2], l2=[3e-3], frequency_exponent=[0.75]),
    "gfcf": _grid(rank=[32, 64, 128, 256], alpha=[0.1, 0.3, 0.6, 1.2]),
    "turbocf": _grid(filter=["linear", "third_order"], alpha=[0.5, 0.8], power=[0.6, 1.0, 1.5]),
}  # fmt: skip


def sampled_split(data: Path, name: str) -> Any:
    """The split of a log with at most `_USERS` users in its validation part."""
    import leporid

    file, core, protocol = LOGS[name]
    log = leporid.load(data / f"{file}.parquet").core(core)
    cut = leporid.random_split if protocol == "random" else leporid.temporal_split
    split = cut(log)
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
        for log, model in itertools.product(LOGS, POOL):
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
    tasks = [(log, model, settings) for model in POOL for settings in POOL[model] for log in LOGS]
    np.random.default_rng(0).shuffle(tasks)
    # The slow ones first, so that no worker begins one when the others are done.
    tasks.sort(
        key=lambda task: -(task[1] in ("ease", "slim") and task[0] in ("beauty", "toys", "tafeng"))
    )
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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=560)
    parser.add_argument("--defaults", action="store_true")
    chosen = parser.parse_args()
    defaults(chosen) if chosen.defaults else run(chosen)
