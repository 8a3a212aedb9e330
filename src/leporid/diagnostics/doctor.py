"""`examine`: versions, machine, extras and self-tests, as `leporid doctor` prints them."""

import importlib.util
import os
import platform
from typing import Any

import numpy as np
from scipy import sparse

from leporid.errors import LeporidError
from leporid.machine import resolve_threads, versions

EXTRAS: dict[str, tuple[str, ...]] = {
    "torch": ("torch",),
    "tune": ("optuna",),
    "plots": ("matplotlib",),
    "serve": ("fastapi", "uvicorn", "prometheus_client"),
    "distributed": ("dask", "distributed"),
}
"""Each extra and the modules it brings."""


def examine() -> dict[str, Any]:
    """Plain values: versions, machine, extras, self_tests."""
    return {
        "versions": versions(),
        "machine": _machine(),
        "extras": [
            {"extra": name, "missing": [m for m in modules if not _present(m)]}
            for name, modules in EXTRAS.items()
        ],
        "self_tests": self_tests(),
    }


def self_tests() -> list[dict[str, Any]]:
    """Each compiled kernel against a slow, obvious computation on a small random log."""
    checks = {"neighbour graph": _graph_error, "eigenvectors": _eigen_error}
    rows = []
    for name, check in {**checks, "masked ranking": _ranking_error}.items():
        try:
            error = check()
            rows.append(
                {"name": name, "ok": error < 1e-4, "detail": f"error {error:.2g}"}
            )
        except (LeporidError, ImportError, RuntimeError, OSError) as failure:
            rows.append({"name": name, "ok": False, "detail": str(failure)})
    return rows


# The checks import what they test: an import that fails is a finding, not a crash.


def _graph_error() -> float:
    from leporid.graph import knn_graph

    rows = _rows()
    dense = rows.toarray()
    both = dense @ dense.T
    sizes = dense.sum(axis=1)
    jaccard = both / np.maximum(sizes[:, None] + sizes - both, 1)
    np.fill_diagonal(jaccard, 0)
    # With k = n - 1 every positive similarity is an edge.
    graph = knn_graph(rows, k=len(dense) - 1)
    return float(np.abs(graph.csr().toarray() - jaccard).max())


def _eigen_error() -> float:
    from leporid.embeddings import Leporid

    rows = _rows()
    fitted = Leporid(dim=4, k=rows.shape[0] - 1, alpha=0.5).fit(rows)
    weights = fitted.graph_.csr().toarray().astype(np.float64)
    degree = weights.sum(axis=1)
    root = np.sqrt(0.5 * degree + 0.5 * degree.max())
    values = np.linalg.eigvalsh(weights / root[:, None] / root)[::-1][:4]
    return float(np.abs(fitted.eigenvalues_ - values).max())


def _ranking_error() -> float:
    from leporid.ranking import masked_top_k

    scores = np.random.default_rng(2).random((7, 50), dtype=np.float32)
    items = masked_top_k(scores, 5).items
    return float(
        np.abs(items - np.argsort(-scores, axis=1, kind="stable")[:, :5]).max()
    )


def _rows() -> Any:
    dense = (np.random.default_rng(1).random((40, 30)) < 0.3).astype(np.float32)
    return sparse.csr_array(dense)


def _machine() -> dict[str, Any]:
    machine: dict[str, Any] = {
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "kernel threads": resolve_threads(None),
        "device": "cpu (torch is not installed)",
    }
    if _present("torch"):
        import torch

        machine["torch threads"] = torch.get_num_threads()
        gpus = map(torch.cuda.get_device_name, range(torch.cuda.device_count()))
        machine["device"] = ", ".join(gpus) or "cpu"
    return machine


def _present(module: str) -> bool:
    return importlib.util.find_spec(module) is not None
