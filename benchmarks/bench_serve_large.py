"""Runs with 100,000 items in the service: the first answer, and waits at 500 requests a second."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import leporid
from benchmarks.bench_serve import HISTORY, Server
from benchmarks.harness import write_record
from leporid.data.synthetic import synthesize
from leporid.models import Recommender

SIZES = {"users": 50_000, "items": 100_000, "interactions": 1_000_000}
RATE = 500.0
"""Requests that are due per second."""
CONNECTIONS = 64
ONE_STEP = {"recipe": "general", "steps": 1, "eval_every": 0, "init": "random", "device": "cpu"}
MODELS: dict[str, dict[str, Any]] = {
    "sasrec": ONE_STEP,
    # A validated weight could be 0 after one step: the closed-form part must be in the scores.
    "dlr2": {
        **ONE_STEP,
        "linear_weight": 4.0,
        "linear_penalties": (1.0, 100.0),
        "transitions_weight": 1.0,
    },
}
Bodies = dict[str, list[dict[str, Any]]]


def run(folder: str | Path | None = None, seconds: float = 10.0) -> None:
    """Measure every model and write the record; those in `folder` are not trained again."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as temporary:
        for name, how in MODELS.items():
            place = Path(folder or temporary) / name
            if not (place / "model").exists():
                split = leporid.temporal_split(synthesize(*SIZES.values(), seed=0))
                leporid.train(name, split, **how).save(place / "model")
            about = {"model": name, "recipe": how["recipe"]}
            rows += [{**about, **row} for row in steady(place, seconds)]
    settings = {**SIZES, "rate": RATE, "connections": CONNECTIONS, "seconds": seconds}
    notes = [
        "Synthetic data; one step of training: the time of a score does not depend on how good the "
        "weights are. DLR2 has its closed-form part, with fixed weights.",
        "Milliseconds count from when a request was due; the first answer from the start of the "
        "process. The client runs on the same cores as the server.",
    ]
    write_record("serve_large", rows, {**settings, "training": MODELS}, notes)


def bodies(model: Recommender, n: int = 10) -> Bodies:
    """Requests of one known user each, and of one new history each."""
    rng = np.random.default_rng(0)
    users = rng.integers(len(model.users), size=512)
    histories = [np.unique(row) for row in rng.integers(len(model.items), size=(512, HISTORY))]
    return {
        "known users": [{"users": [model.users.external(int(u))], "n": n} for u in users],
        "new histories": [
            {"histories": [[model.items.external(int(i)) for i in row]], "n": n}
            for row in histories
        ],
    }


def steady(place: Path, seconds: float) -> Iterator[dict[str, Any]]:
    """A row for each kind of request."""
    kinds = bodies(Recommender.load(place / "model"))
    began = time.perf_counter()
    with Server(str(place)) as server:
        asyncio.run(server.load(kinds["known users"], 1, 1, 60))
        first = time.perf_counter() - began
        for kind, asked in kinds.items():
            asyncio.run(server.load(asked, 4, 64, 60))
            due = int(RATE * seconds)
            spent = asyncio.run(server.load(asked, CONNECTIONS, due, 2 * seconds, RATE))
            row = {"users": kind, "first_answer_s": first, "answered": len(spent) / due}
            for percent in (50, 99):
                row[f"p{percent}_ms"] = 1000 * float(np.percentile(spent, percent))
            print(row, flush=True)
            yield row
