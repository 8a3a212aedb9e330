"""What `le` and `leporid` share: one spectral estimator for the users, one for the items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from leporid.config import setting
from leporid.data import IdMap, Interactions
from leporid.errors import DataError
from leporid.initializers.base import InitialEmbeddings, Initializer, InitializerConfig
from leporid.initializers.svd import padded
from leporid.progress import ProgressLike
from leporid.spectral import Embedding, Landmarks, check_landmarks

if TYPE_CHECKING:
    from leporid.spectral import Leporid


@dataclass(frozen=True, kw_only=True)
class SpectralConfig(InitializerConfig):
    """Settings `le` and `leporid` share."""

    k: int = setting(1000, at_least=1)
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
        """Refuse numbers of landmarks that cannot be fitted on."""
        check_landmarks(self.landmarks)
        check_landmarks(self.item_landmarks)


class SpectralInitializer(Initializer):
    """One spectral estimator for the users, one for the items; here or on a Dask cluster."""

    estimator_class: ClassVar[type[Any]]
    """The `Leporid` that computes the vectors of one side."""
    config: SpectralConfig
    client: Any | None = None
    """A `distributed.Client`. No setting: the vectors are the same with and without it."""
    previous: InitialEmbeddings | None = None
    """Vectors of the same users and items from before the log grew, to start from and to stay near
    to. No setting: the subspace is the same, its coordinates are those of `previous`."""

    def estimator(self, landmarks: Landmarks = None) -> Leporid:
        """An estimator with these settings."""
        settings = {**self.config.to_dict(), "landmarks": landmarks}
        del settings["item_landmarks"]
        estimator: Leporid = self.estimator_class(**settings)
        return estimator

    def _fit(self, train: Interactions, progress: ProgressLike) -> InitialEmbeddings:
        """Fit one estimator on the rows of X and another on its columns.

        Fewer than `dim` eigenvectors exist when a side has fewer than `dim` nodes: the missing
        columns are zero, so that both sides always have `dim`.
        """
        matrix, provenance = train.csr(), self.provenance(train.digest)
        sides = []
        rows = [
            (matrix, train.users, self.config.landmarks),
            (matrix.T.tocsr(), train.items, self.config.item_landmarks),
        ]
        for number, (X, ids, landmarks) in enumerate(rows):
            start = None
            if self.previous is not None:
                _, old, old_ids = self.previous.sides()[number]
                start = _known_rows(old, old_ids, ids)
            fitted = self.estimator(landmarks).fit(
                X, start=start, client=self.client, progress=progress
            )
            rotated = start is not None
            sides.append(side_embedding(fitted, self.config.dim, provenance, rotated=rotated))
        return InitialEmbeddings(sides[0], sides[1])


def side_embedding(
    fitted: Leporid, dim: int, provenance: dict[str, Any], *, rotated: bool = False
) -> Embedding:
    """The vectors of a fitted side with what is known of them.

    Rotated ones span the same space in the coordinates of older vectors: columns that have no
    eigenvalue of their own.
    """
    computed = np.asarray(fitted.embedding_, dtype=np.float32)
    if rotated:
        computed = (computed @ fitted.rotation_).astype(np.float32)
    vectors = padded(computed, dim)
    report = {
        "isolated": int(np.count_nonzero(fitted.degrees_ == 0)),
        "landmarks": None if fitted.landmarks_ is None else len(fitted.landmarks_),
        "residual": float(np.max(fitted.residuals_, initial=0.0)),
    }
    if rotated:
        return Embedding(vectors, None, {**provenance, **report, "rotated": True})
    return Embedding(vectors, np.asarray(fitted.eigenvalues_, np.float64), {**provenance, **report})


def _known_rows(old: Embedding, old_ids: IdMap | None, ids: IdMap) -> NDArray[np.float32]:
    """float32[n, d]: the old vector of every id; zeros for those that are new."""
    if old_ids is None:
        raise DataError("the old vectors have no ids: they cannot be matched with the new rows")
    same_kind = old_ids.is_integer == ids.is_integer
    place = old_ids.encode(ids.ids) if same_kind else np.full(len(ids), -1)
    if not (place >= 0).any():
        raise DataError(f"none of the {len(ids):,} {ids.kind}s is among the old vectors")
    vectors = np.zeros((len(ids), old.dim), np.float32)
    vectors[place >= 0] = old.vectors[place[place >= 0]]
    return vectors
