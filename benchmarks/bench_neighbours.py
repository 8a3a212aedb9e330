"""Neighbours and graph: ours against similaripy and a scipy product, and on a GPU if there is one.

    python -m benchmarks.bench_neighbours

Anime-shaped synthetic data (47,143 users, 6,535 items, the first 70% of 6.1 million interactions)
and, where it is found, MovieLens-1M; K = 1000. Ratios come from one run on one machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import leporid
from benchmarks.harness import timed, write_record
from leporid.foundation import NullProgress, resolve_threads
from leporid.graph.knn import symmetrise
from leporid.graph.neighbours import directed_neighbours
from leporid.graph.types import KnnGraph, Similarity, binary_csr

K = 1000
SCIPY_ROWS = 1500
"""Rows given to scipy; its time is scaled to all rows."""

_FIRST_CALL = """
import time, numpy as np
from leporid.graph.knn import knn_graph
start = time.perf_counter()
knn_graph((np.random.default_rng(0).random((600, 600)) < 0.2).astype(np.float32), 20)
print(time.perf_counter() - start)
"""

_MEMORY = """
import re, sys
from pathlib import Path
from scipy import sparse
from leporid.graph.knn import knn_graph
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
X = sparse.load_npz(sys.argv[1])
before = peak()
graph = knn_graph(X, int(sys.argv[2]))
print(peak(), before)
"""
"""VmHWM, because a child's ru_maxrss starts at its parent's."""


def anime_shaped() -> sparse.csr_array:
    """Training part of the synthetic data, float32[47143, 6535]."""
    data = leporid.synthesize(users=47_143, items=6_535, interactions=6_143_751, seed=0)
    return leporid.temporal_split(data).train.csr()


def movielens() -> sparse.csr_array | None:
    """Training part of MovieLens-1M (ratings of 3 and more), if the file is there."""
    given = os.environ.get("LEPORID_DATA")
    folder = Path(given) if given else Path(__file__).parents[2] / "shared" / "data"
    path = folder / "ml-1m-r3.parquet"
    if not path.is_file():
        return None
    return leporid.temporal_split(leporid.load(path).core(20)).train.csr()


def ours(X: sparse.csr_array, repeat: int = 2) -> tuple[float, float, KnnGraph]:
    """Seconds for the neighbours, seconds for the graph made of them, and the graph."""
    threads, similarity = resolve_threads(None), Similarity("jaccard")
    k = min(K, X.shape[0] - 1)
    best = (float("inf"), float("inf"))
    for _ in range(repeat):
        start = time.perf_counter()
        members = binary_csr(X)
        own = np.arange(members.n)
        found = directed_neighbours(members, members, k, similarity, own, threads, NullProgress())
        middle = time.perf_counter()
        graph = symmetrise(found, k, "rows", similarity.name, threads)
        end = time.perf_counter()
        if end - start < sum(best):
            best = (middle - start, end - middle)
        del found
    return *best, graph


def similaripy_seconds(X: sparse.csr_array) -> float:
    """similaripy's Jaccard top-K of the rows as a CSR matrix, all threads."""
    import similaripy

    matrix = sparse.csr_matrix(X)
    seconds, _ = timed(
        lambda: similaripy.jaccard(matrix, k=K, binary=True, verbose=False, format_output="csr")
    )
    return seconds


def scipy_seconds(X: sparse.csr_array) -> float:
    """A sparse product and an argpartition a row, on some rows, scaled to all of them."""
    rows = np.random.default_rng(0).choice(X.shape[0], min(SCIPY_ROWS, X.shape[0]), replace=False)
    degrees = np.diff(X.indptr)
    transposed = X.T.tocsr()
    k = min(K, X.shape[0] - 1)

    def work() -> None:
        for part in np.array_split(np.sort(rows), max(1, len(rows) // 100)):
            shared = (X[part] @ transposed).toarray()
            union = degrees[part, None] + degrees[None, :] - shared
            weights = shared / np.maximum(union, 1)
            np.argpartition(-weights, k, axis=1)

    seconds, _ = timed(work)
    return seconds * X.shape[0] / len(rows)


def first_call_seconds() -> float:
    """The first call of a fresh process with an empty cache: compilation and a tiny graph."""
    with tempfile.TemporaryDirectory() as cache:
        return float(_in_process(_FIRST_CALL, NUMBA_CACHE_DIR=cache)[0])


def peak_memory(X: sparse.csr_array) -> tuple[float, float]:
    """Peak resident MB of a fresh process that makes the graph, and before it started to."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "X.npz"
        sparse.save_npz(path, X, compressed=False)
        peak, before = _in_process(_MEMORY, str(path), str(K))
    return float(peak), float(before)


def gpu_rows(name: str, X: sparse.csr_array, expected: KnnGraph) -> list[dict[str, Any]]:
    """The same on a CUDA device after a warm-up, checked against the CPU's graph."""
    try:
        import torch
    except ImportError:
        return []
    if not torch.cuda.is_available():
        return []
    from leporid.graph.gpu import knn_graph_on

    members = binary_csr(X)
    k = min(K, X.shape[0] - 1)

    def work() -> Any:
        made = knn_graph_on(members, k, "cuda", "rows", NullProgress())
        torch.cuda.synchronize()
        return made

    work()
    torch.cuda.reset_peak_memory_stats()
    seconds, made = timed(work, repeat=3)
    same = (
        np.array_equal(made.indptr, expected.indptr)
        and np.array_equal(made.indices, expected.indices)
        and np.array_equal(made.weights, expected.weights)
    )
    return [
        {
            "data": name,
            "what": f"leporid on {torch.cuda.get_device_name()}, neighbours and graph",
            "seconds": seconds,
            "peak MB": torch.cuda.max_memory_allocated() / 2**20,
            "note": "equal to the CPU's graph" if same else "DIFFERS FROM THE CPU'S GRAPH",
        }
    ]


def _in_process(code: str, *arguments: str, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def run() -> None:
    """Measure everything and write the record."""
    X = anime_shaped()
    cases: dict[str, sparse.csr_array] = {"Anime-shaped users": X}
    real = movielens()
    if real is not None:
        cases["ml-1m-r3 users"] = real
        cases["ml-1m-r3 items"] = sparse.csr_array(real.T)
    rows: list[dict[str, Any]] = []
    first = first_call_seconds()
    ours(X[:600], repeat=1)
    for name, matrix in cases.items():
        neighbours, graph_seconds, graph = ours(matrix)
        peer = similaripy_seconds(matrix)
        product = scipy_seconds(matrix)
        rows += [
            {"data": name, "what": "leporid, neighbours", "seconds": neighbours},
            {"data": name, "what": "leporid, graph from neighbours", "seconds": graph_seconds},
            {
                "data": name,
                "what": "similaripy.jaccard, neighbours",
                "seconds": peer,
                "times ours": peer / neighbours,
            },
            {
                "data": name,
                "what": "scipy product and argpartition, neighbours",
                "seconds": product,
                "times ours": product / neighbours,
                "note": f"{min(SCIPY_ROWS, matrix.shape[0])} rows, scaled",
            },
        ]
        rows += gpu_rows(name, matrix, graph)
        del graph
    peak, before = peak_memory(X)
    rows.append(
        {
            "data": "Anime-shaped users",
            "what": "leporid, whole process",
            "peak MB": peak,
            "note": f"{before:.0f} MB with the data loaded",
        }
    )
    write_record(
        "neighbours",
        rows,
        {"k": K, "users": X.shape[0], "items": X.shape[1], "interactions": int(X.nnz)},
        [
            f"First call in a fresh process with an empty kernel cache: {first:.1f} s; "
            "the compiled kernels are kept on disk, and the figures above are later calls.",
            f"{resolve_threads(None)} threads for leporid, all for similaripy, one for scipy.",
        ],
    )


if __name__ == "__main__":
    run()
