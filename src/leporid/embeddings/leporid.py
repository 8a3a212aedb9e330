"""`le` and `leporid`: Laplacian eigenmaps of the user and the item kNN graphs (Eq. 4 and 8).

Each side has one spectral estimator: eigenvectors of two graphs share no coordinates.

`alpha` and `lengths` can be chosen by a probe. It never sees validation or test: the newest tenth
of each user's training interactions is held out, every candidate is fitted on the rest, and its
item vectors predict what was held out.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid import evaluation
from leporid.config import setting
from leporid.data import Interactions, Split, random_split, temporal_split
from leporid.embeddings import base
from leporid.embeddings.base import (
    Embedding,
    InitialEmbeddings,
    Initializer,
    InitializerConfig,
    padded,
)
from leporid.embeddings.estimators import LaplacianEigenmaps, Leporid
from leporid.embeddings.out_of_sample import Landmarks, landmark_count
from leporid.progress import ProgressLike

Lengths = Literal["as-is", "unit", "popularity", "balanced"]
ALPHAS = (0.0, 0.5)
POWERS: tuple[tuple[Lengths, float], ...] = (
    *(("popularity", power) for power in (0.5, 0.6, 0.75)),
    *(("balanced", power) for power in (0.3, 0.5)),
)
"""Candidates of `lengths` and `popularity_power`."""


@dataclass(frozen=True, kw_only=True)
class SpectralConfig(InitializerConfig):
    """Settings `le` and `leporid` share."""

    k: int = setting(1000, at_least=1)
    """Neighbours of a node in the kNN graph, clipped to n - 1."""
    normalized: bool = True
    """The symmetrically normalised Laplacian; False takes the unnormalised one."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """'cpu', 'cuda', or 'auto' for a GPU where there is one."""
    landmarks: Landmarks = None
    """Fit on this many users (below 1: this share) and extend to the others out of sample; None:
    all; 'auto': all while that takes at most four times as long."""
    item_landmarks: Landmarks = None
    """The same for the items."""

    def validate(self) -> None:
        """Refuse numbers of landmarks that cannot be fitted on."""
        for landmarks in (self.landmarks, self.item_landmarks):
            if landmarks is not None:
                landmark_count(landmarks, 2)


@dataclass(frozen=True, kw_only=True)
class LEPORIDConfig(SpectralConfig):
    alpha: float | Literal["auto"] = setting(0.5, at_least=0, at_most=1)
    """How much of a node's degree is replaced by the largest degree; 0 is plain LE. 'auto' chooses
    by a probe inside the training data."""
    lengths: Lengths | Literal["auto"] = "as-is"
    """Rows as the solver gives them; of unit length; or items as sums of their users' unit vectors,
    longer the more popular they are, in one space with the users ('balanced': with columns of more
    equal weight). 'auto' chooses by the probe."""
    popularity_power: float = setting(0.6, at_least=0, at_most=1)
    """Those sums are divided by the item's interactions to this power (1: a mean). Chosen too where
    `lengths` is 'auto'."""


class SpectralInitializer(Initializer):
    """One spectral estimator for the users, one for the items; here or on a Dask cluster."""

    estimator_class: ClassVar[type[Leporid]]
    config: SpectralConfig
    client: Any | None = None
    """A `distributed.Client`. No setting: the vectors are the same with and without it."""

    def estimator(self, landmarks: Landmarks = None) -> Leporid:
        taken = {field.name for field in fields(self.estimator_class)}
        settings = {
            name: value
            for name, value in self.config.to_dict().items()
            if name in taken
        }
        return self.estimator_class(**{**settings, "landmarks": landmarks})

    def _fit(self, train: Interactions, progress: ProgressLike) -> InitialEmbeddings:
        config, provenance = self.config, self.provenance(train.digest)
        options: dict[str, Any] = {"client": self.client, "progress": progress}
        items = self.estimator(config.item_landmarks)
        self._fit_items(items, train, **options)
        users = self.estimator(config.landmarks).fit(train.csr(), **options)
        return InitialEmbeddings(
            side_embedding(users, config.dim, provenance),
            side_embedding(items, config.dim, provenance),
        )

    def _fit_items(
        self, estimator: Leporid, train: Interactions, **options: Any
    ) -> None:
        estimator.fit(train.csr().T.tocsr(), **options)


class LE(SpectralInitializer):
    """Eigenvectors of the Laplacian without popularity regularisation."""

    name = "le"
    config_class = SpectralConfig
    estimator_class = LaplacianEigenmaps


class LEPORID(SpectralInitializer):
    """Eigenvectors of L_regsym = I - D_reg^-1/2 W D_reg^-1/2."""

    name = "leporid"
    config_class = LEPORIDConfig
    config: LEPORIDConfig
    estimator_class = Leporid

    def _fit(self, train: Interactions, progress: ProgressLike) -> InitialEmbeddings:
        config = self.config
        given = {
            name: getattr(config, name)
            for name in ("alpha", "lengths", "popularity_power")
        }
        fixed = {name: value for name, value in given.items() if value != "auto"}
        if len(fixed) == len(given):
            return self._scaled(train, progress)

        def fit(part: Interactions, **settings: Any) -> InitialEmbeddings:
            other = LEPORID(config.replace(**settings))
            other.client = self.client
            return other._scaled(part, progress)

        chosen, tried = choose_settings(fit, train, fixed)
        both = fit(train, **chosen)
        about = {**self.provenance(train.digest), "chosen": chosen, "candidates": tried}
        users, items = (
            replace(side, provenance={**side.provenance, **about})
            for side in (both.users, both.items)
        )
        return replace(both, users=users, items=items)

    def _scaled(self, train: Interactions, progress: ProgressLike) -> InitialEmbeddings:
        """The embeddings of settings without 'auto'."""
        lengths, power = self.config.lengths, self.config.popularity_power
        assert lengths != "auto"
        return with_lengths(super()._fit(train, progress), train.csr(), lengths, power)


def side_embedding(fitted: Leporid, dim: int, provenance: dict[str, Any]) -> Embedding:
    """The vectors of a fitted side, padded with zeros to `dim` columns, and their provenance."""
    report = {
        **provenance,
        "landmarks": None if fitted.landmarks_ is None else len(fitted.landmarks_),
        "residual": float(np.max(fitted.residuals_, initial=0.0)),
    }
    side = Embedding(padded(fitted.embedding_, dim), fitted.eigenvalues_, report)
    return base.with_empty_rows(side, fitted.degrees_ > 0)


def item_means(items: Embedding, matrix: Any, provenance: dict[str, Any]) -> Embedding:
    """Users as the mean of their items' z-scored vectors; zeros for those without items."""
    vectors = np.where(
        items.isolated[:, None], np.float32(0), items.standardized().vectors
    )
    summed = matrix @ vectors
    mean = np.asarray(
        summed / np.maximum(np.diff(matrix.indptr), 1)[:, None], dtype=np.float32
    )
    return Embedding(mean, items.eigenvalues, provenance)


def with_lengths(
    both: InitialEmbeddings, matrix: Any, lengths: Lengths, power: float
) -> InitialEmbeddings:
    """`both` with rows of other lengths; `matrix` is csr[n_users, n_items] of the interactions.

    unit: every row of length one. popularity: items are the sum of their users' unit vectors, each
    over the square root of the user's interactions, divided by the item's interactions to `power`;
    popular items are longer, and inner products of users and items have a meaning. balanced: such
    sums without the square root, Z (Z^T Z)^-1/4; with singular vectors as users that would be SVD.
    """
    if lengths == "as-is":
        return both
    users = replace(both.users, vectors=_unit(both.users.vectors))
    if lengths == "unit":
        items = replace(both.items, vectors=_unit(both.items.vectors))
    else:
        per_user = 0.5 if lengths == "popularity" else 0.0
        summed = item_sums(users.vectors, matrix, power, per_user)
        summed = summed if lengths == "popularity" else half_whitened(summed)
        items = Embedding(summed, None, both.users.provenance)
    return replace(both, users=_ready(users), items=_ready(items))


def item_sums(
    users: NDArray[np.float32], matrix: Any, power: float, user_power: float
) -> NDArray[np.float32]:
    """float32[n_items, d]: D_i^-power X^T D_u^-user_power U for vectors U; zeros without users."""
    per_user = np.maximum(np.diff(matrix.indptr), 1)
    per_item = np.maximum(np.bincount(matrix.indices, minlength=matrix.shape[1]), 1)
    weights = np.repeat(per_user**-user_power, np.diff(matrix.indptr)).astype(
        np.float32
    )
    weighted = sparse.csr_array(
        (weights, matrix.indices, matrix.indptr), shape=matrix.shape
    )
    return np.asarray(
        (weighted.T @ users) / per_item[:, None] ** power, dtype=np.float32
    )


def half_whitened(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Z (Z^T Z)^-1/4: singular values become their square roots; directions of none stay zero."""
    values, axes = np.linalg.eigh(vectors.astype(np.float64).T @ vectors)
    known = values > 1e-9 * max(values[-1], 0.0)
    scale = np.where(known, np.maximum(values, 1e-300) ** -0.25, 0.0)
    return np.asarray(vectors @ ((axes * scale) @ axes.T), dtype=np.float32)


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled = np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0)
    return np.asarray(scaled)


def _ready(side: Embedding) -> Embedding:
    """Entries of a root mean square of one; z-scoring the columns would undo the lengths."""
    about = {**side.provenance, "standardized": True}
    return replace(
        side, vectors=side.vectors / np.float32(side.size or 1.0), provenance=about
    )


def choose_settings(
    fit: Callable[..., InitialEmbeddings], train: Interactions, fixed: dict[str, Any]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The candidate whose item vectors predict held-out training items best, and all candidates.

    `fit(train, **settings)` gives embeddings; `fixed` are the settings that are not chosen. The
    first of equal candidates is taken.
    """
    split = inner_split(train)
    matrix = split.train.csr()
    tried: list[dict[str, Any]] = []
    given = fixed["popularity_power"]
    shapes: list[tuple[Lengths, float]] = [("as-is", given), ("unit", given), *POWERS]
    if "lengths" in fixed:
        shapes = [(fixed["lengths"], given)]
    for alpha in [fixed["alpha"]] if "alpha" in fixed else ALPHAS:
        plain = fit(split.train, alpha=alpha, lengths="as-is")
        for lengths, power in shapes:
            both = with_lengths(plain, matrix, lengths, power)
            found = evaluation.probe((None, both.items.vectors), split).value()["items"]
            settings = {"alpha": alpha, "lengths": lengths, "popularity_power": power}
            tried.append({**settings, "NDCG@10": found})
    best = max(tried, key=lambda row: row["NDCG@10"])
    return {name: value for name, value in best.items() if name != "NDCG@10"}, tried


def inner_split(train: Interactions) -> Split:
    """Training data with the newest tenth of each user held out for validation, and no test."""
    return (temporal_split if train.has_order else random_split)(train, 0.9, 0.1)
