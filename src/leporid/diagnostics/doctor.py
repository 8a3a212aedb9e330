"""A look at this installation: `examine` is what `leporid doctor` prints."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
from collections.abc import Callable
from typing import Any

from leporid.errors import LeporidError

__all__ = ["EXTRAS", "examine", "self_tests"]

EXTRAS: dict[str, tuple[str, ...]] = {
    "torch": ("torch",),
    "tune": ("optuna",),
    "plots": ("matplotlib",),
    "serve": ("fastapi", "uvicorn"),
    "distributed": ("dask", "distributed"),
}
"""Each extra and the modules it brings."""

_CORE = ("leporid", "numpy", "scipy", "numba", "pyarrow", "typer", "rich", "safetensors")


def examine() -> dict[str, Any]:
    """Plain values: versions, machine, caches, extras, self_tests."""
    return {
        "versions": _versions(),
        "machine": _machine(),
        "caches": _caches(),
        "extras": [
            {"extra": name, "missing": [m for m in modules if not _present(m)]}
            for name, modules in EXTRAS.items()
        ],
        "self_tests": self_tests(),
    }


def self_tests() -> list[dict[str, Any]]:
    """Each compiled kernel against a slow, obvious computation on a small random log."""
    checks: dict[str, Callable[[], float]] = {
        "neighbour graph": _graph_error,
        "eigenvectors": _eigen_error,
        "masked ranking": _ranking_error,
    }
    rows = []
    for name, check in checks.items():
        try:
            error = check()
            rows.append({"name": name, "ok": error < 1e-4, "detail": f"error {error:.2g}"})
        except (LeporidError, ImportError, RuntimeError, OSError) as failure:
            rows.append({"name": name, "ok": False, "detail": str(failure)})
    return rows


def _graph_error() -> float:
    import numpy as np

    from leporid.graph.knn import knn_graph

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
    import numpy as np

    from leporid.spectral.estimators import Leporid

    rows = _rows()
    fitted = Leporid(dim=4, k=len(_rows().toarray()) - 1, alpha=0.5).fit(rows)
    weights = fitted.graph_.csr().toarray().astype(np.float64)
    degree = weights.sum(axis=1)
    root = np.sqrt(0.5 * degree + 0.5 * degree.max())
    values = np.linalg.eigvalsh(weights / root[:, None] / root)[::-1][:4]
    return float(np.abs(fitted.eigenvalues_ - values).max())


def _ranking_error() -> float:
    import numpy as np

    from leporid.ranking.masked import masked_top_k

    scores = np.random.default_rng(2).random((7, 50), dtype=np.float32)
    found = masked_top_k(scores, 5).items
    return float(np.abs(found - np.argsort(-scores, axis=1, kind="stable")[:, :5]).max())


def _rows() -> Any:
    import numpy as np
    from scipy import sparse

    dense = (np.random.default_rng(1).random((40, 30)) < 0.3).astype(np.float32)
    return sparse.csr_array(dense)


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in (*_CORE, *(module for modules in EXTRAS.values() for module in modules)):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _machine() -> dict[str, Any]:
    from leporid.threads import resolve_threads

    found: dict[str, Any] = {
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "kernel threads": resolve_threads(None),
        "device": "cpu (torch is not installed)",
    }
    if _present("torch"):
        import torch

        found["torch threads"] = torch.get_num_threads()
        found["device"] = "cpu"
        if torch.cuda.is_available():
            names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
            found["device"] = ", ".join(names)
    return found


def _caches() -> dict[str, str]:
    from leporid.data.datasets import cache_dir
    from leporid.initializers.cache import cache_directory

    vectors = cache_directory()
    return {
        "data sets": str(cache_dir() / "datasets"),
        "starting vectors": "off" if vectors is None else str(vectors / "initializers"),
        "compiled kernels": os.environ.get("NUMBA_CACHE_DIR") or "beside the source files",
    }


def _present(module: str) -> bool:
    return importlib.util.find_spec(module) is not None
