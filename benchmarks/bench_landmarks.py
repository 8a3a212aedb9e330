"""What landmarks cost in quality and save in time, on the users of MovieLens-1M.

    python -m benchmarks.bench_landmarks

The exact embedding against landmarks of a half, a quarter and an eighth of the users, with K
shrunk by the same share (what `landmarks=` does) and with K as it was. D = 64, K = 1000.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import leporid
from benchmarks.bench_neighbours import movielens
from benchmarks.bench_scale import angles
from benchmarks.harness import write_record
from leporid.embeddings import estimators

DIM, K = 64, 1000
SHARES = (0.5, 0.25, 0.125)
REPEAT = 3


def fitted(X: sparse.csr_array, landmarks: float | None) -> tuple[dict[str, Any], Any]:
    """The best of some fits, and the estimator."""
    best: dict[str, Any] = {"seconds": float("inf"), "processor s": float("inf")}
    for _ in range(REPEAT):
        began, cpu = time.perf_counter(), time.process_time()
        model = leporid.Leporid(dim=DIM, k=K, landmarks=landmarks, device="cpu").fit(X)
        best["seconds"] = min(best["seconds"], time.perf_counter() - began)
        best["processor s"] = min(best["processor s"], time.process_time() - cpu)
    return best, model


def quality(model: Any, exact: NDArray[np.float32]) -> dict[str, float]:
    """Angles in degrees to the exact space, and how the two kinds of rows compare in size."""
    whole = angles(model.embedding_, exact)
    others = np.setdiff1d(np.arange(len(exact)), model.landmarks_)
    spread = model.embedding_[others].std(axis=0) / model.embedding_[model.landmarks_].std(axis=0)
    return {
        "mean angle": float(whole.mean()),
        "largest angle": float(whole.max()),
        "mean angle, first 16": float(angles(model.embedding_[:, :16], exact[:, :16]).mean()),
        "spread of others / landmarks": float(spread.mean()),
    }


def run() -> None:
    """Measure and write the record."""
    X = movielens()
    if X is None:
        raise SystemExit("set LEPORID_DATA to the folder of ml-1m-r3.parquet")
    leporid.Leporid(dim=8, k=20, landmarks=0.5, device="cpu").fit(X[:800])
    seconds, exact = fitted(X, None)
    rows: list[dict[str, Any]] = [
        {"landmarks": "all", "rows": X.shape[0], "K": exact.graph_.k, **seconds}
    ]
    shrinking = estimators.landmark_neighbours
    for share in SHARES:
        for rule in (shrinking, lambda k, _count, _n: k):
            estimators.landmark_neighbours = rule
            seconds, model = fitted(X, share)
            row = {"landmarks": f"1/{round(1 / share)}", "rows": len(model.landmarks_)}
            rows.append({**row, "K": model.graph_.k, **seconds, **quality(model, exact.embedding_)})
    estimators.landmark_neighbours = shrinking
    write_record(
        "landmarks",
        rows,
        {"data": "ml-1m-r3 users", "dim": DIM, "k": K, "interactions": int(X.nnz)},
        [
            "The first row of each share has K shrunk by the share, as `landmarks=` does; the "
            "second keeps K.",
            "Angles in degrees between the exact space and that of the landmarks, all users. "
            "Seconds: the best of three; processor s is the time the cores spent.",
        ],
    )


if __name__ == "__main__":
    run()
