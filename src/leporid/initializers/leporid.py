"""`le` and `leporid`: Laplacian eigenmaps of the user and the item kNN graphs (Eq. 4 and 8).

Each side has one spectral estimator. `align` brings the user vectors into the space of the items:
eigenvectors of two graphs share no coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
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
from leporid.initializers.svd import padded
from leporid.progress import ProgressLike
from leporid.spectral import (
    Embedding,
    Landmarks,
    LaplacianEigenmaps,
    Leporid,
    check_landmarks,
    procrustes,
)

Align = Literal["none", "items", "procrustes"]


@dataclass(frozen=True, kw_only=True)
class SpectralConfig(InitializerConfig):
    """Settings `le` and `leporid` share."""

    k: int = setting(1000, at_least=1)
    """Neighbours of a node in the kNN graph, clipped to n - 1."""
    normalized: bool = True
    """The symmetrically normalised Laplacian; False takes the unnormalised one."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """'cpu', 'cuda', or 'auto' for a GPU where there is one."""
    landmarks: int | float | Literal["auto"] | None = None
    """Fit on this many users (below 1: this share) and extend to the others out of sample; None:
    all; 'auto': all while that takes at most four times as long."""
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


@dataclass(frozen=True, kw_only=True)
class LEPORIDConfig(SpectralConfig):
    """Settings of `LEPORID`."""

    alpha: float = setting(0.5, at_least=0, at_most=1)
    """How much of a node's degree is replaced by the largest degree; 0 is plain LE."""


class SpectralInitializer(Initializer):
    """One spectral estimator for the users, one for the items; here or on a Dask cluster."""

    estimator_class: ClassVar[type[Leporid]]
    config: SpectralConfig
    client: Any | None = None
    """A `distributed.Client`. No setting: the vectors are the same with and without it."""
    previous: InitialEmbeddings | None = None
    """Embeddings of an earlier, shorter log: they initialise the solver, and the new vectors are
    in their coordinates. No setting: the subspace is the same."""

    def estimator(self, landmarks: Landmarks = None) -> Leporid:
        """An estimator with these settings."""
        taken = {field.name for field in fields(self.estimator_class)}
        settings = {name: value for name, value in self.config.to_dict().items() if name in taken}
        return self.estimator_class(**{**settings, "landmarks": landmarks})

    def _fit(self, train: Interactions, progress: ProgressLike) -> InitialEmbeddings:
        matrix, config, provenance = train.csr(), self.config, self.provenance(train.digest)
        inits: list[NDArray[np.float32] | None] = [None, None]
        if self.previous is not None:
            if config.eigenvalue_power:
                raise ConfigError(
                    "eigenvalue_power needs an eigenvalue for each column, and vectors in the "
                    "coordinates of older ones have none: leave one of the two out"
                )
            sides = zip(self.previous.sides(), (train.users, train.items), strict=True)
            inits = [_known_rows(old, old_ids, ids) for (_, old, old_ids), ids in sides]
        users, rotated = None, self.previous is not None
        if config.align != "items":
            estimator = self.estimator(config.landmarks)
            estimator.fit(matrix, init=inits[0], client=self.client, progress=progress)
            users = side_embedding(estimator, config.dim, provenance, rotated=rotated)
        estimator = self.estimator(config.item_landmarks)
        options: dict[str, Any] = {"init": inits[1], "client": self.client, "progress": progress}
        report = self._fit_items(estimator, train, **options)
        items = side_embedding(estimator, config.dim, provenance | report, rotated=rotated)
        both = InitialEmbeddings(users or item_means(items, matrix, provenance), items)
        return in_one_space(both, matrix, config.align, config.eigenvalue_power)

    def _fit_items(self, estimator: Leporid, train: Interactions, **options: Any) -> dict[str, Any]:
        """Fit the estimator of the items; returns what to add to their provenance."""
        estimator.fit(train.csr().T.tocsr(), **options)
        return {}


class LE(SpectralInitializer):
    """Eigenvectors of the Laplacian without popularity regularisation."""

    name = "le"
    config_class = SpectralConfig
    estimator_class = LaplacianEigenmaps


class LEPORID(SpectralInitializer):
    """Eigenvectors of L_regsym = I - D_reg^-1/2 W D_reg^-1/2."""

    name = "leporid"
    config_class = LEPORIDConfig
    estimator_class = Leporid


def side_embedding(
    fitted: Leporid, dim: int, provenance: dict[str, Any], *, rotated: bool = False
) -> Embedding:
    """The vectors of a fitted side, padded with zeros to `dim` columns, and their provenance.

    Rotated columns, in the coordinates of older vectors, have no eigenvalues.
    """
    report = {
        **provenance,
        "landmarks": None if fitted.landmarks_ is None else len(fitted.landmarks_),
        "residual": float(np.max(fitted.residuals_, initial=0.0)),
    }
    vectors, values = fitted.embedding_, None if rotated else fitted.eigenvalues_
    if rotated:
        vectors, report["rotated"] = vectors @ fitted.rotation_, True
    return with_empty_rows(Embedding(padded(vectors, dim), values, report), fitted.degrees_ > 0)


def _known_rows(old: Embedding, old_ids: IdMap | None, ids: IdMap) -> NDArray[np.float32]:
    """float32[n, d]: the old vector of every id; zeros for new ids."""
    if old_ids is None:
        raise DataError("the old vectors have no ids: they cannot be matched with the new rows")
    same_kind = old_ids.is_integer == ids.is_integer
    row = old_ids.encode(ids.ids) if same_kind else np.full(len(ids), -1)
    if not (row >= 0).any():
        raise DataError(f"none of the {len(ids):,} {ids.kind}s is among the old vectors")
    vectors = np.zeros((len(ids), old.dim), np.float32)
    vectors[row >= 0] = old.vectors[row[row >= 0]]
    return vectors


def item_means(items: Embedding, matrix: Any, provenance: dict[str, Any]) -> Embedding:
    """Users as the mean of their items' z-scored vectors; zeros for those without items."""
    summed = matrix @ _weighted(items, 0).vectors
    mean = np.asarray(summed / np.maximum(np.diff(matrix.indptr), 1)[:, None], dtype=np.float32)
    return Embedding(mean, items.eigenvalues, provenance)


def in_one_space(
    both: InitialEmbeddings, matrix: Any, align: Align, power: float
) -> InitialEmbeddings:
    """`both` with its users in the space of its items, and its columns weighted.

    `matrix` is csr[n_users, n_items]; for `items` the users are `item_means` already.
    """
    if align == "none" and not power:
        return both
    users, items = _weighted(both.users, power), _weighted(both.items, power)
    if align == "procrustes":
        # The R with the largest sum of <u R, i> over all interactions (u, i).
        turn = procrustes(users.vectors, matrix @ items.vectors)
        users = replace(users, vectors=users.vectors @ turn.astype(np.float32))
    if align != "none":
        # The users' columns are no longer eigenvectors of their graph.
        users = replace(users, eigenvalues=None)
    return replace(both, users=users, items=items if power else both.items)


def _weighted(side: Embedding, power: float) -> Embedding:
    """Z-scored columns times their eigenvalue to `power`; isolated rows stay zero.

    With a power they have a root mean square of one, and z-scoring again would undo the weights.
    """
    vectors = np.where(side.isolated[:, None], np.float32(0), side.standardized().vectors)
    if not power or side.eigenvalues is None:
        return replace(side, vectors=vectors)
    weights = np.zeros(side.dim, np.float32)
    weights[: len(side.eigenvalues)] = np.maximum(side.eigenvalues, 0) ** power
    about = {**side.provenance, "standardized": True}
    weighted = Embedding(vectors * weights, side.eigenvalues, about)
    return replace(weighted, vectors=weighted.vectors / np.float32(weighted.size or 1.0))
