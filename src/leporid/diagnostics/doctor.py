"""`examine`: versions, machine, extras and self-tests, as `leporid doctor` prints them."""

import importlib.util
import os
import platform
from collections.abc import Callable
from typing import TypedDict

import numpy as np
from scipy import sparse

from leporid.errors import LeporidError
from leporid.foundation import resolve_threads, versions

EXTRAS: dict[str, tuple[str, ...]] = {
    "torch": ("torch",),
    "tune": ("optuna",),
    "plots": ("matplotlib",),
    "serve": ("fastapi", "uvicorn", "prometheus_client"),
    "distributed": ("dask", "distributed"),
}
"""Each extra and the modules it brings."""


class Extra(TypedDict):
    """An extra and those of its modules that are not installed."""

    extra: str
    missing: list[str]


class SelfTest(TypedDict):
    """Whether a kernel computes what it should, and how far it is off."""

    name: str
    ok: bool
    detail: str


class Examination(TypedDict):
    """What `leporid doctor` prints, as plain values."""

    versions: dict[str, str]
    machine: dict[str, str | int | None]
    extras: list[Extra]
    self_tests: list[SelfTest]


def examine() -> Examination:
    """Examine the installation: versions, machine, extras and self-tests."""
    return {
        "versions": versions(),
        "machine": _machine(),
        "extras": _extras(),
        "self_tests": self_tests(),
    }


def _extras() -> list[Extra]:
    extras: list[Extra] = []
    for name, modules in EXTRAS.items():
        missing = [module for module in modules if not _present(module)]
        extras.append({"extra": name, "missing": missing})
    return extras


def self_tests() -> list[SelfTest]:
    """Compare each compiled kernel with a slow, obvious computation on a small random log."""
    return [
        _self_test("neighbour graph", _graph_error),
        _self_test("eigenvectors", _eigen_error),
        _self_test("masked ranking", _ranking_error),
    ]


def _self_test(name: str, check: Callable[[], float]) -> SelfTest:
    try:
        error = check()
    except (LeporidError, ImportError, RuntimeError, OSError) as failure:
        return {"name": name, "ok": False, "detail": str(failure)}
    return {"name": name, "ok": error < 1e-4, "detail": f"error {error:.2g}"}


# The checks import what they test: an import that fails is a finding, not a crash.


def _graph_error() -> float:
    from leporid.graph import knn_graph

    rows = _rows()
    dense = rows.toarray()
    shared = dense @ dense.T
    sizes = dense.sum(axis=1)
    jaccard = shared / np.maximum(sizes[:, None] + sizes - shared, 1)
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
    best = np.argsort(-scores, axis=1, kind="stable")[:, :5]
    return float(np.abs(items - best).max())


def _rows() -> sparse.csr_array:
    dense = (np.random.default_rng(1).random((40, 30)) < 0.3).astype(np.float32)
    return sparse.csr_array(dense)


def _machine() -> dict[str, str | int | None]:
    machine: dict[str, str | int | None] = {
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
