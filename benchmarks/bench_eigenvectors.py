"""64 eigenvectors of a user graph: ours against scipy's `eigs` and `eigsh`, in one run."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.harness import peak_memory_mb, timed, write_record
from reproduction.time_cost import explicit_matrix, residual

K, DIM, ALPHA, TOL = 1000, 64, 0.5, 1e-6
ANIME = {"users": 47_143, "items": 6_535, "interactions": 4_300_000}
DATA = Path(os.environ.get("LEPORID_DATA", Path(__file__).parents[2] / "shared" / "data"))


def interactions(name: str) -> sparse.csr_array:
    """The training matrix of a data set: synthetic Anime shape, or ML-1M (ratings >= 3)."""
    if name == "anime-shaped":
        from leporid import synthesize

        return synthesize(**ANIME, seed=0).csr()
    from leporid import load, temporal_split

    return temporal_split(load(DATA / "ml-1m-r3.parquet").core(20)).train.csr()


def compare(name: str) -> list[dict[str, Any]]:
    """Ours and the peers on one graph."""
    from scipy.sparse.linalg import eigs, eigsh

    from leporid import knn_graph
    from leporid.embeddings import laplacian_eigenpairs

    X = interactions(name)
    graph = knn_graph(X, k=K)
    settings: dict[str, Any] = {"alpha": ALPHA, "tol": TOL, "solver": "lanczos", "device": "cpu"}
    first, _ = timed(lambda: laplacian_eigenpairs(graph, DIM, **settings))
    ours, pairs = timed(lambda: laplacian_eigenpairs(graph, DIM, **settings), repeat=2)
    double, single = (explicit_matrix(graph, ALPHA, kind) for kind in (np.float64, np.float32))
    start = np.random.default_rng(0).standard_normal(graph.n)
    start32 = start.astype(np.float32)
    peers = {
        "scipy eigsh float32": lambda: eigsh(single, k=DIM, which="LA", v0=start32),
        "scipy eigsh float32, tol=1e-6": lambda: eigsh(
            single, k=DIM, which="LA", v0=start32, tol=TOL
        ),
        "scipy eigs (the paper's)": lambda: eigs(double, k=DIM, which="LR", v0=start),
    }
    rows = [
        {
            "data": name,
            "rows": graph.n,
            "edges": graph.n_edges,
            "solver": "leporid, block Lanczos",
            "seconds": ours,
            "times ours": 1.0,
            "residual": residual(double, pairs.values, pairs.vectors),
            "compile s": max(first - ours, 0.0),
        }
    ]
    for solver, solve in peers.items():
        seconds, (values, vectors) = timed(solve)
        rows.append(
            {
                "data": name,
                "rows": graph.n,
                "edges": graph.n_edges,
                "solver": solver,
                "seconds": seconds,
                "times ours": seconds / ours,
                "residual": residual(double, values, vectors),
            }
        )
    print("\n".join(str(row) for row in rows), flush=True)
    return rows


def user_side(name: str, device: str) -> dict[str, Any]:
    """Neighbours + graph + eigenvectors in this (fresh) process: seconds and peak memory."""
    from leporid import Leporid

    X = interactions(name)
    before = peak_memory_mb()
    model = Leporid(dim=DIM, k=K, alpha=ALPHA, tol=TOL, device=device)
    first, _ = timed(lambda: model.fit(X))
    peak = peak_memory_mb()
    seconds = first if device == "cpu" else timed(lambda: model.fit(X), repeat=3)[0]
    return {
        "data": name,
        "rows": X.shape[0],
        "edges": model.graph_.n_edges,
        "solver": f"whole user side, {device}",
        "seconds": seconds,
        "residual": float(model.residuals_.max()),
        "peak MB": peak,
        "peak MB before": before,
    }


def in_fresh_process(name: str, device: str) -> dict[str, Any]:
    """`user_side` in a process of its own, so that its peak memory is its own."""
    command = [sys.executable, "-m", "benchmarks.bench_eigenvectors", name, device]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(row, flush=True)
    return row


def has_gpu() -> bool:
    """Whether torch is installed and sees a GPU."""
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


def run() -> None:
    """Measure and write `records/eigenvectors.json`."""
    names = ["anime-shaped"]
    if (DATA / "ml-1m-r3.parquet").is_file():
        names.append("ml-1m-r3")
    rows: list[dict[str, Any]] = []
    for name in names:
        rows += compare(name)
        rows.append(in_fresh_process(name, "cpu"))
        if has_gpu():
            rows.append(in_fresh_process(name, "cuda"))
    write_record(
        "eigenvectors",
        rows,
        {"k": K, "dim": DIM, "alpha": ALPHA, "tol": TOL, "anime-shaped": ANIME},
        [
            "residual: max ||A q - mu q|| in float64 with scipy's product.",
            "whole user side: neighbours, graph and eigenvectors by Leporid.fit, fresh process; "
            "on the CPU the first call, with the compiled code from the cache; "
            "on a GPU the best of three calls after a warm-up.",
            "compile s: first call minus the best one (0 when the compiled code was cached).",
        ],
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=user_side.__doc__)
    parser.add_argument("data", choices=["anime-shaped", "ml-1m-r3"])
    parser.add_argument("device", choices=["cpu", "cuda"])
    arguments = parser.parse_args()
    print(json.dumps(user_side(arguments.data, arguments.device)))
