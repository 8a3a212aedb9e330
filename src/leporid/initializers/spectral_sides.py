"""What `le` and `leporid` share: one spectral estimator for the users, one for the items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from leporid.data.interactions import Interactions
from leporid.errors import ConfigError
from leporid.initializers.base import InitialEmbeddings, InitializerConfig
from leporid.progress import ProgressLike
from leporid.spectral.embedding import Embedding

if TYPE_CHECKING:
    from leporid.spectral.estimators import SpectralEstimator

__all__ = ["SpectralConfig", "fit_sides"]


@dataclass(frozen=True, kw_only=True)
class SpectralConfig(InitializerConfig):
    """Settings `le` and `leporid` share."""

    k: int = 1000
    """Neighbours of a node in the KNN graph, clipped to n - 1."""
    normalized: bool = True
    """The symmetrically normalised Laplacian; False takes the unnormalised one."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """'cpu', 'cuda', or 'auto' for a GPU where there is one."""

    def validate(self) -> None:
        """Refuse a graph without neighbours."""
        super().validate()
        if self.k < 1:
            raise ConfigError(f"k must be at least 1, not {self.k}")


def fit_sides(
    make: Callable[[], SpectralEstimator],
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
        fitted = make().fit(X, progress=progress)
        found = np.asarray(fitted.embedding_, dtype=np.float32)
        vectors = np.zeros((X.shape[0], dim), dtype=np.float32)
        vectors[:, : found.shape[1]] = found
        report = {
            "isolated": int(np.count_nonzero(fitted.degrees_ == 0)),
            "residual": float(np.max(fitted.residuals_, initial=0.0)),
        }
        eigenvalues = np.asarray(fitted.eigenvalues_, dtype=np.float64)
        sides.append(Embedding(vectors, eigenvalues, {**provenance, **report}))
    return InitialEmbeddings(sides[0], sides[1])
