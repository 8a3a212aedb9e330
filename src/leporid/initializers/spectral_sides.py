"""What `le` and `leporid` share: one spectral estimator for the users, one for the items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from leporid.data.interactions import Interactions
from leporid.errors import ConfigError
from leporid.initializers.base import InitialEmbeddings, InitializerConfig
from leporid.progress import ProgressLike
from leporid.spectral.embedding import Embedding

__all__ = ["SpectralConfig", "fit_sides"]


@dataclass(frozen=True, kw_only=True)
class SpectralConfig(InitializerConfig):
    """Settings `le` and `leporid` share."""

    k: int = 1000
    """Neighbours of a node in the KNN graph, clipped to n - 1."""
    normalized: bool = True
    """The symmetrically normalised Laplacian; False takes the unnormalised one."""
    device: str = "auto"
    """'cpu', 'cuda', or 'auto' for a GPU where there is one."""

    def validate(self) -> None:
        """Refuse a graph without neighbours."""
        super().validate()
        if self.k < 1:
            raise ConfigError(f"k must be at least 1, not {self.k}")


def fit_sides(
    make: Callable[[ProgressLike], Any],
    train: Interactions,
    provenance: dict[str, Any],
    dim: int,
    progress: ProgressLike,
) -> InitialEmbeddings:
    """Fit one estimator on the rows of X and another on its columns.

    Fewer than `dim` eigenvectors exist when a side has fewer than `dim` nodes: the missing
    columns are zero, so that both sides always have `dim`.
    """
    matrix = train.csr()
    sides = []
    for X in (matrix, matrix.T.tocsr()):
        fitted = make(progress).fit(X)
        found = np.asarray(fitted.embedding_, dtype=np.float32)
        vectors = np.zeros((X.shape[0], dim), dtype=np.float32)
        vectors[:, : found.shape[1]] = found
        residuals = getattr(fitted, "residuals_", None)
        report = {
            "isolated": int(np.count_nonzero(~vectors.any(axis=1))),
            "residual": None if residuals is None else float(np.max(residuals, initial=0.0)),
        }
        eigenvalues = np.asarray(fitted.eigenvalues_, dtype=np.float64)
        sides.append(Embedding(vectors, eigenvalues, {**provenance, **report}))
    return InitialEmbeddings(sides[0], sides[1])
