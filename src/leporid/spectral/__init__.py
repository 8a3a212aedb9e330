"""Laplacians (LE, LEPORID), eigensolvers, the two estimators, and their extension to new rows.

Names are loaded on first use: the other rooms need `Embedding` without the kernels.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leporid.spectral.eigenpairs import Eigenpairs, laplacian_eigenpairs
    from leporid.spectral.embedding import Embedding, standardize
    from leporid.spectral.estimators import LaplacianEigenmaps, Leporid

__all__ = [
    "Eigenpairs",
    "Embedding",
    "LaplacianEigenmaps",
    "Leporid",
    "laplacian_eigenpairs",
    "standardize",
]

_HOMES = {
    "Eigenpairs": "eigenpairs",
    "Embedding": "embedding",
    "LaplacianEigenmaps": "estimators",
    "Leporid": "estimators",
    "laplacian_eigenpairs": "eigenpairs",
    "standardize": "embedding",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'leporid.spectral' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"leporid.spectral.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
