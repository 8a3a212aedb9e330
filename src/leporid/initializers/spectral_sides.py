"""What `le` and `leporid` share: one spectral estimator for the users, one for the items."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from leporid.config import setting
from leporid.data import IdMap, Interactions
from leporid.errors import ConfigError, DataError
from leporid.initializers.base import (
    InitialEmbeddings,
    Initializer,
    InitializerConfig,
    with_empty_rows,
)
from leporid.initializers.one_space import Align, in_one_space, item_means
from leporid.initializers.svd import padded
from leporid.progress import ProgressLike
from leporid.spectral import Embedding, Landmarks, Leporid, check_landmarks


@dataclass(frozen=True, kw_only=True)
class SpectralConfig(InitializerConfig):
    """Settings `le` and `leporid` share."""

    k: int = setting(1000, at_least=1)
    """Neighbours of a node in the KNN graph, clipped to n - 1."""
    normalized: bool = True
    """The symmetrically normalised Laplacian; False takes the unnormalised one."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """'cpu', 'cuda', or 'auto' for a GPU where there is one."""
    landmarks: int | float | Literal["auto"] | None = None
    """Fit on this many users (below 1: this share) and place the others among them; None: all;
    'auto': all while that takes at most four times as long."""
    item_landmarks: int | float | Literal["auto"] | None = None
    """The same for the items."""
    align: Align = "none"
    """How users come into the space of the items: `items` makes a user the mean of their items'
    vectors, `procrustes` rotates the users' own vectors as near to their items as it can."""
    eigenvalue_power: float = setting(0.0, at_least=0)
    """Multiply each z-scored column by its eigenvalue to this power; 0 weighs all alike."""

    def validate(self) -> None:
        """Refuse numbers of landmarks that cannot be fitted on."""
        check_landmarks(self.landmarks)
        check_landmarks(self.item_landmarks)


class SpectralInitializer(Initializer):
    """One spectral estimator for the users, one for the items; here or on a Dask cluster."""

    estimator_class: ClassVar[type[Leporid]]
    """The `Leporid` that computes the vectors of one side."""
    config: SpectralConfig
    client: Any | None = None
    """A `distributed.Client`. No setting: the vectors are the same with and without it."""
    previous: InitialEmbeddings | None = None
    """Vectors of the same users and items from before the log grew, to start from and to stay near
    to. No setting: the subspace is the same, its coordinates are those of `previous`."""

    def estimator(self, landmarks: Landmarks = None) -> Leporid:
        """An estimator with these settings."""
        taken = {field.name for field in fields(self.estimator_class)}
        settings = {name: value for name, value in self.config.to_dict().items() if name in taken}
        return self.estimator_class(**{**settings, "landmarks": landmarks})

    def _fit(self, train: Interactions, progress: ProgressLike) -> InitialEmbeddings:
        matrix, config, provenance = train.csr(), self.config, self.provenance(train.digest)
        starts: list[NDArray[np.float32] | None] = [None, None]
        if self.previous is not None:
            if config.eigenvalue_power:
                raise ConfigError(
                    "eigenvalue_power needs an eigenvalue for each column, and vectors in the "
                    "coordinates of older ones have none: leave one of the two out"
                )
            sides = zip(self.previous.sides(), (train.users, train.items), strict=True)
            starts = [_known_rows(old, old_ids, ids) for (_, old, old_ids), ids in sides]
        users, rotated = None, self.previous is not None
        if config.align != "items":
            estimator = self.estimator(config.landmarks)
            estimator.fit(matrix, start=starts[0], client=self.client, progress=progress)
            users = side_embedding(estimator, config.dim, provenance, rotated=rotated)
        estimator = self.estimator(config.item_landmarks)
        report = self._fit_items(estimator, train, starts[1], progress)
        items = side_embedding(estimator, config.dim, provenance | report, rotated=rotated)
        both = InitialEmbeddings(users or item_means(items, matrix, provenance), items)
        return in_one_space(both, matrix, config.align, config.eigenvalue_power)

    def _fit_items(
        self,
        estimator: Leporid,
        train: Interactions,
        start: NDArray[np.float32] | None,
        progress: ProgressLike,
    ) -> dict[str, Any]:
        """Fit the estimator of the items; returns what their provenance says beside the usual."""
        matrix = train.csr().T.tocsr()
        estimator.fit(matrix, start=start, client=self.client, progress=progress)
        return {}


def side_embedding(
    fitted: Leporid, dim: int, provenance: dict[str, Any], *, rotated: bool = False
) -> Embedding:
    """The vectors of a fitted side, zeros where it has fewer than `dim`, and what is known of them.

    Rotated ones span the same space in the coordinates of older vectors: columns that have no
    eigenvalue of their own.
    """
    report = {
        **provenance,
        "landmarks": None if fitted.landmarks_ is None else len(fitted.landmarks_),
        "residual": float(np.max(fitted.residuals_, initial=0.0)),
    }
    side = Embedding(padded(fitted.embedding_, dim), fitted.eigenvalues_, report)
    if rotated:
        vectors = padded(fitted.embedding_ @ fitted.rotation_, dim)
        side = Embedding(vectors, None, {**report, "rotated": True})
    return with_empty_rows(side, fitted.degrees_ > 0)


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
