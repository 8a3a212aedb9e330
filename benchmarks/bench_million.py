"""A million users exactly on one GPU: neighbours, graph and 64 eigenvectors, with a check.

python -m benchmarks million
python -m benchmarks.bench_million FOLDER    with `1000000.npz` of `bench_scale data` in it
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks.bench_eigenvectors import has_gpu
from benchmarks.bench_scale import EACH, ITEMS, Stages, make_data
from benchmarks.harness import write_record

USERS, K, DIM = 1_000_000, 100, 64
CHECKED = 200
GOAL = 60.0


def neighbours_of(X: sparse.csr_array, row: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """(columns, similarities) of the K nearest rows, by scipy's product and a full sort."""
    shared = (X @ X[[row]].T).toarray().ravel().astype(np.float64)
    degrees = np.diff(X.indptr)
    shared[row] = 0.0
    similar = (shared / np.maximum(degrees + degrees[row] - shared, 1.0)).astype(np.float32)
    best = np.lexsort((np.arange(len(similar)), -similar))[:K]
    return best, similar[best]


def wrong_rows(X: sparse.csr_array, graph: Any) -> int:
    """How many of some rows lack one of their neighbours in the graph, or weigh it differently."""
    indptr, indices, weights = graph.indptr, graph.indices, graph.weights
    wrong = 0
    for row in np.random.default_rng(0).choice(X.shape[0], CHECKED, replace=False):
        columns, similar = neighbours_of(X, int(row))
        columns, similar = columns[similar > 0], similar[similar > 0]
        here = slice(indptr[row], indptr[row + 1])
        place = np.searchsorted(indices[here], columns).clip(max=indptr[row + 1] - indptr[row] - 1)
        same = (indices[here][place] == columns) & (weights[here][place] == similar)
        wrong += not same.all()
    return wrong


def run(folder: str | None = None) -> None:
    """One fit in a warm process; without a GPU there is nothing to measure."""
    if not has_gpu():
        print("no CUDA device here: nothing measured")
        return
    import torch

    from leporid import Leporid

    with TemporaryDirectory() as made:
        if folder is None:
            make_data(USERS, Path(made))
        X = sparse.csr_array(sparse.load_npz(Path(folder or made) / f"{USERS}.npz"))
    Leporid(dim=DIM, k=K, device="cuda").fit(X[:40_000])
    torch.cuda.reset_peak_memory_stats()
    stages = Stages()
    began = time.perf_counter()
    model = Leporid(dim=DIM, k=K, device="cuda").fit(X, progress=stages)
    stages.close()
    seconds = time.perf_counter() - began
    row: dict[str, Any] = {"users": USERS, "seconds": seconds}
    row |= {f"{name} s": spent for name, spent in stages.seconds.items()}
    row |= {"edges": model.graph_.n_edges, "residual": float(model.residuals_.max())}
    row["peak GPU GB"] = torch.cuda.max_memory_allocated() / 2**30
    wrong = wrong_rows(X, model.graph_)
    settings = {"device": torch.cuda.get_device_name(), "K": K, "dim": DIM, "items": ITEMS}
    notes = [
        f"One fit after a small one; the goal is {GOAL:.0f} s.",
        f"{CHECKED - wrong} of {CHECKED} rows drawn at random have exactly the neighbours and "
        "weights of scipy's product and a full sort.",
    ]
    write_record("million", [row], {**settings, "interactions a user": EACH}, notes)


if __name__ == "__main__":
    run(*sys.argv[1:2])
