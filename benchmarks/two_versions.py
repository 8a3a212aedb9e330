"""Two versions of the package, in turns on one machine: has a redesign made anything slower?

    python -m benchmarks.two_versions --old FOLDER [--rounds 3]
    python -m benchmarks.two_versions --old FOLDER --jobs train:LOG,train:sparse --record trainings

FOLDER is a checkout of the other version. Each job runs in a process of its own, old and new in
turns; a row has the best seconds of each and their ratio. Data is random with a power law,
the same for both. A step is the least time per step between two rows of the training's own
history, so that what comes before and after the loop does not count. `train:LOG` is a whole
training with default settings: the default model on a file or data set from LEPORID embeddings,
until its patience ends it, with the validation NDCG@10 it ends at and the seconds of training to
99% of the network's best; `train:sparse` is a synthetic log with many users and items.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

USERS, ITEMS, ROWS = 6_000, 3_500, 600_000
STEPS = {"dlr2": 600, "sasrec": 300}
SPARSE = 35_600, 18_400, 300_000
"""Users, items and interactions of `train:sparse`."""
TRAINED_USERS = 600
"""Networks are trained on a tenth of the users."""
ROOT = Path(__file__).parents[1]


def log(users: int, items: int, rows: int, groups: int = 1) -> dict[str, Any]:
    """Columns of a log: items by popularity, users at random, times in the order of the rows.

    With several `groups` of users and items, half of the rows stay within a group.
    """
    draws = np.random.default_rng(0)
    shares = 1.0 / (np.arange(items) + 50)
    user = draws.integers(0, users, rows)
    item = draws.choice(items, rows, p=shares / shares.sum())
    own = draws.random(rows) < 0.5
    item = np.where(own, (item - item % groups + user % groups) % items, item)
    return {"user": user, "item": item, "time": np.arange(rows)}


def best_of(times: int, job: Callable[[], Any]) -> float:
    """The least seconds of several calls."""
    found = []
    for _ in range(times):
        begun = time.perf_counter()
        job()
        found.append(time.perf_counter() - begun)
    return min(found)


def measure(name: str) -> float:
    """Seconds of one job with the version that is imported."""
    import leporid

    try:
        from leporid.embeddings import laplacian_eigenpairs
    except ImportError:  # before 0.9
        from leporid.spectral import laplacian_eigenpairs

    if name.startswith("train:"):
        source: Any = name.removeprefix("train:")
        source = log(*SPARSE, groups=200) if source == "sparse" else source
        split = leporid.temporal_split(leporid.load(source))
        began = time.perf_counter()
        how = {"init": "leporid", "recipe": "general", "progress": False}
        model = leporid.train("dlr2", split, **how)
        seconds = time.perf_counter() - began
        valid = leporid.evaluate(model, split, at=(10,), part="valid").mean()["NDCG@10"]
        curve = [row for row in model.history.rows if "metric" in row]
        most = max(row["metric"] for row in curve)
        near = next(row["seconds"] for row in curve if row["metric"] >= 0.99 * most)
        said = {"NDCG@10 on validation": valid, "seconds to 99% of the network's best": near}
        print(json.dumps({**said, **closed_form_part(model, split)}))
        return seconds
    split = leporid.temporal_split(leporid.load(log(USERS, ITEMS, ROWS)))
    X = split.train.csr()
    if name == "neighbours":
        leporid.knn_graph(X[:200], k=20)  # compiles
        return best_of(3, lambda: leporid.knn_graph(X, k=1000))
    if name == "eigenvectors":
        graph = leporid.knn_graph(X, k=1000)
        return best_of(3, lambda: laplacian_eigenpairs(graph, 64, alpha=0.5))
    if name == "evaluation":
        left = np.random.default_rng(1).normal(size=(USERS, 32)).astype(np.float32)
        right = np.random.default_rng(2).normal(size=(32, split.n_items)).astype(np.float32)
        scores = left @ right
        return best_of(5, lambda: leporid.evaluate(lambda users, _: scores[users], split).mean())
    data = split.train.select(split.train.user < TRAINED_USERS)
    split = leporid.temporal_split(
        leporid.load({"user": data.user, "item": data.item, "time": data.time})
    )
    fixed: dict[str, Any] = {
        "steps": STEPS[name],
        "eval_every": 10_000,
        "eval_users": 64,
        "recipe": "general",
        "init": "random",
    }
    for weight in ("linear_gain", "linear_weight", "transitions_weight"):
        if weight in leporid.models.get(name).config_class().to_dict():
            fixed[weight] = 0.0  # the older version has none
    model = leporid.train(name, split, progress=False, **fixed)
    rows = [row for row in model.history.rows if "loss" in row]
    return min(
        (after["seconds"] - before["seconds"]) / (after["step"] - before["step"])
        for before, after in pairwise(rows)
    )


def closed_form_part(model: Any, split: Any) -> dict[str, float]:
    """Seconds of the closed-form part of a model as it comes, fitted and chosen once more.

    Before 0.10 it was a linear part.
    """
    asked: dict[str, Any] = {"linear_weight": "auto", "transitions_weight": "auto"}
    try:
        from leporid.models.neural.closed_form_part import fit_closed_form_part as fit_part
    except ImportError:
        asked = {"linear_gain": "auto"}
        try:
            from leporid.models.neural.linear_part import fit_linear_part as fit_part
        except ImportError:  # the older version has none
            return {}
    model.linear = model.closed_form = None
    again = model.config.replace(linear_penalties=None, **asked)
    return {"seconds of the linear part": best_of(1, lambda: fit_part(model.score, again, split))}


def run(name: str, source: Path, which: str) -> tuple[float, dict[str, float]]:
    """Seconds of one job in a fresh process, and what else it says."""
    environment = {**os.environ, "PYTHONPATH": f"{source / 'src'}:{ROOT}"}
    command = [sys.executable, "-W", "ignore", __file__, "--job", name]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} of the {which} version failed:\n{done.stderr[-2000:]}")
    *others, seconds = (json.loads(line) for line in done.stdout.splitlines())
    return float(seconds), dict(others[0]) if others else {}


def main() -> None:
    """The rows, and the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--old", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", default="neighbours,eigenvectors,evaluation,dlr2,sasrec")
    parser.add_argument("--job")
    parser.add_argument("--record", default="two_versions")
    options = parser.parse_args()
    if options.job:
        print(json.dumps(measure(options.job)))
        return
    from benchmarks.harness import write_record

    rows = []
    for name in options.jobs.split(","):
        found: dict[str, list[float]] = {"old": [], "new": []}
        said: dict[str, float] = {}
        for _ in range(options.rounds):
            for which, source in (("old", options.old), ("new", ROOT)):
                seconds, others = run(name, source.resolve(), which)
                found[which].append(seconds)
                said |= {f"{key}, {which}": value for key, value in others.items()}
        old, new = min(found["old"]), min(found["new"])
        unit = "seconds per step" if name in STEPS else "seconds"
        spread = max(max(times) / min(times) for times in found.values())
        job = "train:" * name.startswith("train:") + Path(name.removeprefix("train:")).stem
        rows.append({"job": job, "unit": unit, "old": old, "new": new, "new / old": new / old})
        rows[-1] |= {"largest / smallest of a version": spread, **said}
        print(rows[-1], flush=True)
    settings = {"old": version(options.old), "new": version(ROOT), "rounds": options.rounds}
    settings |= {"users": USERS, "items": ITEMS, "interactions": ROWS}
    write_record(options.record, rows, settings)


def version(source: Path) -> str:
    text = (source / "src" / "leporid" / "_version.py").read_text(encoding="utf-8")
    return text.split('__version__ = "')[1].split('"')[0]


if __name__ == "__main__":
    main()
