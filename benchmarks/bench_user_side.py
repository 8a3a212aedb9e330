"""Where the seconds of the whole user side go: neighbours, graph and 64 vectors in Anime's shape.

    python -m benchmarks user_side
    python -m benchmarks.bench_user_side --old FOLDER [--rounds 2]

FOLDER is a checkout of another version. The matrix is written once, and each version reads it in
a process of its own, in turns; a row has the run with the least total of a version. The residual
is that of the matrix in float64, the same in both versions.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

ROOT = Path(__file__).parents[1]
K, DIM, ALPHA, TOL = 1000, 64, 0.5, 1e-6
STAGES = {"directed_neighbours": "neighbours s", "symmetrise": "graph s"}
"""Functions that `knn_graph` calls, in every version."""


def measure(path: Path) -> dict[str, Any]:
    """Seconds of each stage with the version that is imported, the better of two calls."""
    from leporid import knn_graph
    from leporid.embeddings import laplacian_eigenpairs
    from leporid.graph import knn

    X = sparse.csr_array(sparse.load_npz(path))
    how: dict[str, Any] = {"alpha": ALPHA, "tol": TOL, "device": "cpu"}
    laplacian_eigenpairs(knn_graph(X[:3000], k=100), DIM, **how)  # compiles
    spent: dict[str, float] = {}

    def watched(name: str, stage: str) -> Any:
        function = getattr(knn, name)

        def call(*arguments: Any, **options: Any) -> Any:
            began = time.perf_counter()
            result = function(*arguments, **options)
            spent[stage] = time.perf_counter() - began
            return result

        return call

    for name, stage in STAGES.items():
        setattr(knn, name, watched(name, stage))
    rows = []
    for _ in range(2):
        graph = knn_graph(X, k=K)
        began = time.perf_counter()
        pairs = laplacian_eigenpairs(graph, DIM, **how)
        spent["eigenvectors s"] = time.perf_counter() - began
        rows.append({**spent, "together s": sum(spent.values()), "products": pairs.iterations})
    best = min(rows, key=lambda row: float(row["together s"]))
    return {**best, "edges": graph.n_edges, "residual": residual(graph, pairs)}


def residual(graph: Any, pairs: Any) -> float:
    """max ||A q - mu q|| with A = D_reg^-1/2 W D_reg^-1/2 in float64, by scipy."""
    from leporid.embeddings import laplacian_operator

    scale = np.asarray(laplacian_operator(graph, ALPHA).scale, np.float64)[:, None]
    q = np.asarray(pairs.vectors, np.float64)
    q /= np.linalg.norm(q, axis=0)
    product = scale * (graph.csr().astype(np.float64) @ (scale * q))
    return float(np.linalg.norm(product - q * pairs.values, axis=0).max())


def run(old: Path | None = None, rounds: int = 2) -> None:
    """The rows of each version, and the record."""
    from benchmarks.bench_eigenvectors import ANIME, interactions
    from benchmarks.harness import write_record
    from benchmarks.two_versions import version

    sources = [ROOT] if old is None else [old.resolve(), ROOT]
    found: dict[Path, list[dict[str, Any]]] = {source: [] for source in sources}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "interactions.npz"
        sparse.save_npz(path, interactions("anime-shaped"), compressed=False)
        for _ in range(rounds):
            for source in sources:
                environment = {**os.environ, "PYTHONPATH": f"{source / 'src'}:{ROOT}"}
                command = [sys.executable, "-W", "ignore", __file__, "--matrix", str(path)]
                done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
                found[source].append(json.loads(done.stdout))
                print(version(source), found[source][-1], flush=True)
    rows = [
        {"version": version(source), **min(runs, key=lambda row: float(row["together s"]))}
        for source, runs in found.items()
    ]
    about = {"data": "synthetic, Anime's shape, one matrix", **ANIME, "rounds": rounds}
    write_record("user_side", rows, {**about, "k": K, "dim": DIM, "tol": TOL})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--old", type=Path)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--matrix", type=Path)
    options = parser.parse_args()
    if options.matrix:
        print(json.dumps(measure(options.matrix)))
    else:
        run(options.old, options.rounds)
