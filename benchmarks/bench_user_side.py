"""Where the seconds of the whole user side go: neighbours, graph and 64 vectors in Anime's shape.

    python -m benchmarks user_side

The solver's products read every edge once each; what a plain copy of as many bytes takes is the
limit that the memory of a machine sets.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np

from benchmarks.bench_eigenvectors import ALPHA, DIM, TOL, K, interactions
from benchmarks.harness import timed, write_record
from leporid.graph import BLOCK, huge_zeros
from leporid.graph.knn import symmetrise
from leporid.graph.neighbours import directed_neighbours
from leporid.graph.types import Similarity, binary_csr
from leporid.machine import resolve_threads
from leporid.progress import NullProgress
from leporid.spectral import laplacian_eigenpairs
from leporid.spectral.laplacian import laplacian_operator


def stages() -> tuple[list[dict[str, Any]], list[str]]:
    """Each stage, best of two; and what bounds the last one."""
    members, threads = binary_csr(interactions("anime-shaped")), resolve_threads(None)
    own = np.arange(members.n)

    def neighbours() -> Any:
        measure = Similarity("jaccard")
        return directed_neighbours(members, members, K, measure, own, threads, NullProgress())

    found, lists = timed(neighbours, repeat=2)
    joined, graph = timed(lambda: symmetrise(lists, K, "rows", "jaccard", threads), repeat=2)
    how: dict[str, Any] = {"alpha": ALPHA, "tol": TOL, "device": "cpu"}
    solved, pairs = timed(lambda: laplacian_eigenpairs(graph, DIM, **how), repeat=2)
    product = laplacian_operator(graph, ALPHA).product()
    x, scaled, out = (huge_zeros((members.n, BLOCK), np.float32) for _ in range(3))
    x[:] = np.random.default_rng(0).standard_normal(x.shape)
    once, _ = timed(lambda: product(x, scaled, out), repeat=5)
    size = graph.indices.nbytes + graph.weights.nbytes
    into = np.empty(size // 8, np.int64)
    source = np.ones_like(into)
    copied, _ = timed(lambda: np.copyto(into, source), repeat=5)
    all_products = once * pairs.iterations
    rows = [
        {"stage": "neighbours", "seconds": found},
        {"stage": "graph from neighbours", "seconds": joined},
        {"stage": "64 eigenvectors", "seconds": solved},
        {"stage": f"of these, {pairs.iterations} products", "seconds": all_products},
        {"stage": "together", "seconds": found + joined + solved},
    ]
    notes = [
        f"A product reads {size / 1e9:.2f} GB of edges once for {BLOCK} columns and takes "
        f"{1e3 * once:.0f} ms; one thread copies as many bytes in {1e3 * copied:.0f} ms.",
    ]
    return rows, notes


def run() -> None:
    """In a process of its own, so that nothing else is in its caches."""
    subprocess.run([sys.executable, "-m", "benchmarks.bench_user_side"], check=True)


if __name__ == "__main__":
    rows, notes = stages()
    for row in rows:
        print(row)
    about = {"data": "synthetic, Anime's shape", "threads": resolve_threads(None)}
    write_record("user_side", rows, {**about, "k": K, "dim": DIM}, notes)
