"""What `le` and `leporid` share: one spectral estimator for the users, one for the items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from leporid.data.interactions import Interactions
from leporid.errors import ConfigError
from leporid.initializers.base import InitialEmbeddings, Initializer, InitializerConfig
from leporid.progress import ProgressLike
from leporid.spectral.embedding import Embedding
from leporid.spectral.landmarks import Landmarks, check_landmarks

if TYPE_CHECKING:
    from leporid.spectral.estimators import SpectralEstimator

__all__ = ["SpectralConfig", "SpectralInitializer", "fit_sides"]


@dataclass(frozen=True, kw_only=True)
class SpectralConfig(InitializerConfig):
    """Settings `le` and `leporid` share."""

    k: int = 1000
    """Neighbours of a node in the KNN graph, clipped to n - 1."""
    normalized: bool = True
    """The symmetrically normalised Laplacian; False takes the unnormalised one."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """'cpu', 'cuda', or 'auto' for a GPU where there is one."""

    landmarks: int | float | None = None
    """Fit on this many users (below 1: this share) and place the others among them; None: all."""
    item_landmarks: int | float | None = None
    """The same for the items."""

    def validate(self) -> None:
        """Refuse a graph without neighbours."""
        super().validate()
        check_landmarks(self.landmarks)
        check_landmarks(self.item_landmarks)
        if self.k < 1:
            raise ConfigError(f"k must be at least 1, not {self.k}")


class SpectralInitializer(Initializer):
    """An initialiser that can work on a Dask cluster."""

    client: Any | None = None
    """A `distributed.Client`. No setting: the vectors are the same with and without it."""


def fit_sides(
    make: Callable[[Landmarks], SpectralEstimator],
    train: Interactions,
    provenance: dict[str, Any],
    config: SpectralConfig,
    progress: ProgressLike,
    client: Any | None = None,
) -> InitialEmbeddings:
    """Fit one estimator on the rows of X and another on its columns, here or on a Dask cluster.

    Fewer than `dim` eigenvectors exist when a side has fewer than `dim` nodes: the missing
    columns are zero, so that both sides always have `dim`.
    """
    matrix = train.csr()
    sides = []
    for X, landmarks in (
        (matrix, config.landmarks),
        (matrix.T.tocsr(), config.item_landmarks),
    ):
        fitted = make(landmarks).fit(X, progress=progress, client=client)
        found = np.asarray(fitted.embedding_, dtype=np.float32)
        vectors = np.zeros((X.shape[0], config.dim), dtype=np.float32)
        vectors[:, : found.shape[1]] = found
        report = {
            "isolated": int(np.count_nonzero(fitted.degrees_ == 0)),
            "landmarks": None if fitted.landmarks_ is None else len(fitted.landmarks_),
            "residual": float(np.max(fitted.residuals_, initial=0.0)),
        }
        eigenvalues = np.asarray(fitted.eigenvalues_, dtype=np.float64)
        sides.append(Embedding(vectors, eigenvalues, {**provenance, **report}))
    return InitialEmbeddings(sides[0], sides[1])
