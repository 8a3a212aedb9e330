"""SASRec on ML-100K: seconds of training until validation is at 99% of its best, against peers.

The same size everywhere (`SETTINGS`), each library with its own defaults for the rest, from
random weights; and ours from LEPORID, whose seconds count. Peers' weights are copied while they
train and ranked afterwards, by their own code; our evaluator judges all lists. Time spent on
validation counts nowhere.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from benchmarks.harness import RECORDS, write_record
from benchmarks.peers.environment import run_in
from leporid import load, temporal_split
from leporid.data import Split
from leporid.embeddings import get as get_initializer
from leporid.evaluation import evaluate
from leporid.foundation import write_json
from leporid.models import Callback, FitContext
from leporid.models.neural.sasrec import SASRec
from leporid.ranking import TopK

SETTINGS = {"dim": 64, "layers": 2, "heads": 2, "max_history": 50, "dropout": 0.2}
PEERS = {"RecTools": "rectools", "RecBole": "recbole"}
METRIC, ENOUGH = "NDCG@10", 0.99
SECONDS = 240.0
"""Of training, for each peer."""
THREADS = 2

Curve = list[tuple[float, float]]
"""Seconds, and the metric on validation after them."""


class Watch(Callback):
    """Seconds of the start and of training, without validation, and what validation says then."""

    def __init__(self) -> None:
        self.begun, self.points = time.perf_counter(), Curve()

    def step(self, step: int) -> bool:
        self.now = time.perf_counter()
        return False

    def validation(self, row: dict[str, Any]) -> bool:
        self.points.append((self.now - self.begun, row["metric"]))
        self.begun += time.perf_counter() - self.now
        return False


def our_curve(split: Split, init: str, device: str) -> Curve:
    """The recipe `general`, validated every 25 steps."""
    watch = Watch()
    vectors = get_initializer(init)(dim=SETTINGS["dim"]).fit(split.train)
    recipe = SASRec.recipe_settings("general", split.train)
    model = SASRec(**{**recipe, **SETTINGS, "eval_every": 25, "patience": 20, "metric": METRIC})
    model.fit(split, seed=0, init=vectors, device=device, context=FitContext(callbacks=(watch,)))
    return watch.points


def peer_curve(split: Split, peer: str) -> tuple[Curve, str]:
    """A peer's curve, and its version."""
    train = split.train
    users = np.unique(split.valid.user)
    known = Split(train, train.select(np.empty(0, np.int64)), split.valid, "validation")
    with TemporaryDirectory() as name:
        folder = Path(name)
        order = np.argsort(train.time, kind="stable")
        np.save(folder / "train.npy", np.column_stack([train.user, train.item])[order])
        np.save(folder / "users.npy", users)
        script = Path(__file__).parent / "peers" / f"{peer}_sasrec.py"
        arguments = (str(folder), str(SECONDS), json.dumps(SETTINGS))
        done = run_in(peer, script, *arguments, threads=THREADS)
        lists = np.load(folder / "top.npy")
    values = []
    for chosen in lists:
        top = np.full((split.n_users, 10), -1, np.int32)
        top[users] = chosen
        judged = evaluate(TopK(top, np.zeros(top.shape, np.float32)), known, at=(10,))
        values.append(judged.mean()[METRIC])
    return list(zip(done["seconds"], values, strict=True)), done["version"]


def reached(curve: Curve, value: float) -> float | None:
    """Seconds until the metric is at least `value`; None if it never is."""
    return next((seconds for seconds, now in curve if now >= value), None)


def run() -> None:
    """Ours, then each peer; how much sooner ours is where the peer ends."""
    torch.set_num_threads(THREADS)
    split = temporal_split(load("ml-100k"))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    our_curve(split, "random", device)  # compiles what it needs, as the next line does
    get_initializer("leporid")(dim=SETTINGS["dim"]).fit(split.train)
    curves = {
        "leporid, from random": our_curve(split, "random", device),
        "leporid, from LEPORID": our_curve(split, "leporid", device),
    }
    versions = dict.fromkeys(curves, "this one")
    for label, peer in PEERS.items() if device == "cpu" else ():
        curves[label], versions[label] = peer_curve(split, peer)
    ours = curves["leporid, from random"]
    rows = []
    for label, curve in curves.items():
        best = max(value for _, value in curve)
        needed, our_time = reached(curve, ENOUGH * best), reached(ours, ENOUGH * best)
        assert needed is not None
        rows.append(
            {
                "library": label,
                "version": versions[label],
                f"best {METRIC}": best,
                "seconds to 99% of it": needed,
                "leporid from random gets there in": "not at all" if our_time is None else our_time,
                "times faster": "" if our_time is None else needed / our_time,
                "trained for": curve[-1][0],
            }
        )
        print(rows[-1], flush=True)
    notes = [
        "Validation part of ML-100K (70/10/20 by time), all items, judged by our evaluator.",
        f"A peer trains for {SECONDS:.0f} seconds; one that has not reached its best by then is "
        "rated too well. Ours ends by patience, and its seconds count the start.",
        "Every validation of every library is in `records/sasrec/curves.json`.",
        "RecBole trains every prefix of a history as an example of its own; RecTools and ours all "
        "positions of a sequence at once.",
    ]
    how = {**SETTINGS, "threads": THREADS, "device": device}
    name = "sasrec" if device == "cpu" else "sasrec_gpu"
    write_record(name, rows, how, notes)
    rounded = {label: np.round(curve, 4).tolist() for label, curve in curves.items()}
    write_json(RECORDS / name / "curves.json", rounded)


if __name__ == "__main__":
    run()
