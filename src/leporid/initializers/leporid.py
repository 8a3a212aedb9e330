"""`le` and `leporid`: Laplacian eigenmaps of the user and the item kNN graphs (Eq. 4 and 8).

Each side has one spectral estimator: eigenvectors of two graphs share no coordinates.
"""

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal

import numpy as np

from leporid.config import setting
from leporid.data import Interactions
from leporid.initializers import base
from leporid.initializers.adaptive import Lengths, choose_settings, with_lengths
from leporid.initializers.base import Embedding, InitialEmbeddings, Initializer, InitializerConfig
from leporid.initializers.svd import padded
from leporid.progress import ProgressLike
from leporid.spectral import Landmarks, LaplacianEigenmaps, Leporid, landmark_count


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
    """Settings of `LEPORID`."""

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
        """An estimator with these settings."""
        taken = {field.name for field in fields(self.estimator_class)}
        settings = {name: value for name, value in self.config.to_dict().items() if name in taken}
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

    def _fit_items(self, estimator: Leporid, train: Interactions, **options: Any) -> None:
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
        given = {name: getattr(config, name) for name in ("alpha", "lengths", "popularity_power")}
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
    vectors = np.where(items.isolated[:, None], np.float32(0), items.standardized().vectors)
    summed = matrix @ vectors
    mean = np.asarray(summed / np.maximum(np.diff(matrix.indptr), 1)[:, None], dtype=np.float32)
    return Embedding(mean, items.eigenvalues, provenance)
