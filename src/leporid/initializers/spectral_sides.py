"""What `le` and `leporid` share: one spectral estimator for the users, one for the items."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.data.id_map import IdMap
from leporid.data.interactions import Interactions
from leporid.errors import ConfigError, DataError
from leporid.initializers.base import InitialEmbeddings, Initializer, InitializerConfig
from leporid.progress import ProgressLike
from leporid.spectral.embedding import Embedding
from leporid.spectral.landmarks import Landmarks, check_landmarks

if TYPE_CHECKING:
    from leporid.spectral.estimators import Leporid

__all__ = ["SpectralConfig", "SpectralInitializer", "side_embedding"]


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
    """One spectral estimator for the users, one for the items; here or on a Dask cluster."""

    config: SpectralConfig
    client: Any | None = None
    """A `distributed.Client`. No setting: the vectors are the same with and without it."""
    previous: InitialEmbeddings | None = None
    """Vectors of the same users and items from before the log grew, to start from and to stay near
    to. No setting: the subspace is the same, its coordinates are those of `previous`."""

    @abc.abstractmethod
    def estimator(self, landmarks: Landmarks = None) -> Leporid:
        """An estimator with these settings."""

    def _fit(self, train: Interactions, progress: ProgressLike) -> InitialEmbeddings:
        """Fit one estimator on the rows of X and another on its columns.

        Fewer than `dim` eigenvectors exist when a side has fewer than `dim` nodes: the missing
        columns are zero, so that both sides always have `dim`.
        """
        config, matrix = self.config, train.csr()
        provenance = self.provenance(train)
        before = self.previous
        users = self._side(
            matrix,
            config.landmarks,
            None if before is None else _known_rows(before.users, before.user_ids, train.users),
            provenance,
            progress,
        )
        items = self._side(
            matrix.T.tocsr(),
            config.item_landmarks,
            None if before is None else _known_rows(before.items, before.item_ids, train.items),
            provenance,
            progress,
        )
        return InitialEmbeddings(users, items)

    def _side(
        self,
        X: sparse.csr_array,
        landmarks: Landmarks,
        start: NDArray[np.float32] | None,
        provenance: dict[str, Any],
        progress: ProgressLike,
    ) -> Embedding:
        estimator = self.estimator(landmarks)
        fitted = estimator.fit(X, start=start, client=self.client, progress=progress)
        return side_embedding(fitted, self.config.dim, provenance, rotated=start is not None)


def side_embedding(
    fitted: Leporid, dim: int, provenance: dict[str, Any], *, rotated: bool = False
) -> Embedding:
    """The vectors of a fitted side with what is known of them.

    Rotated ones span the same space in the coordinates of older vectors: columns that have no
    eigenvalue of their own.
    """
    found = np.asarray(fitted.embedding_, dtype=np.float32)
    if rotated:
        found = (found @ fitted.rotation_).astype(np.float32)
    vectors = np.zeros((len(found), dim), dtype=np.float32)
    vectors[:, : found.shape[1]] = found
    report = {
        "isolated": int(np.count_nonzero(fitted.degrees_ == 0)),
        "landmarks": None if fitted.landmarks_ is None else len(fitted.landmarks_),
        "residual": float(np.max(fitted.residuals_, initial=0.0)),
    }
    if rotated:
        return Embedding(vectors, None, {**provenance, **report, "rotated": True})
    eigenvalues = np.asarray(fitted.eigenvalues_, dtype=np.float64)
    return Embedding(vectors, eigenvalues, {**provenance, **report})


def _known_rows(old: Embedding, old_ids: IdMap | None, ids: IdMap) -> NDArray[np.float32]:
    """float32[n, d]: the old vector of every id; zeros for those that are new."""
    vectors = np.zeros((len(ids), old.dim), np.float32)
    if old_ids is None:
        raise DataError("the old vectors have no ids: they cannot be matched with the new rows")
    same_kind = old_ids.is_integer == ids.is_integer
    place = old_ids.encode(ids.ids) if same_kind else np.full(len(ids), -1)
    if not (place >= 0).any():
        raise DataError(f"none of the {len(ids):,} {ids.kind}s is among the old vectors")
    vectors[place >= 0] = old.vectors[place[place >= 0]]
    return vectors
