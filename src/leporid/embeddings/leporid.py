"""`le` and `leporid`: Laplacian eigenmaps of the user and the item kNN graphs (Eq. 4 and 8).

Each side has one spectral estimator: eigenvectors of two graphs share no coordinates.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from leporid.data import Interactions
from leporid.embeddings.base import Initializer, InitializerConfig
from leporid.embeddings.estimators import LaplacianEigenmaps, Leporid
from leporid.embeddings.isolated import with_empty_rows
from leporid.embeddings.landmarks import Landmarks, landmark_count
from leporid.embeddings.probe import try_settings
from leporid.embeddings.row_norm import RowNorm, fold_in_users, with_row_norm
from leporid.embeddings.vectors import Embedding, InitialEmbeddings, padded
from leporid.foundation import JsonValue, ProgressLike, setting

ALPHAS = (0.0, 0.5)
"""Candidates of `alpha`."""
POWERS: tuple[tuple[RowNorm, float], ...] = (
    ("popularity", 0.5),
    ("popularity", 0.6),
    ("popularity", 0.75),
    ("balanced", 0.3),
    ("balanced", 0.5),
)
"""Candidates of `row_norm` and `popularity_power`."""


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
    """Fit on this many items (below 1: this share) and extend to the others, as with
    `landmarks`."""

    def __post_init__(self) -> None:
        """Refuse numbers of landmarks that cannot be fitted on."""
        super().__post_init__()
        for landmarks in (self.landmarks, self.item_landmarks):
            if landmarks is not None:
                landmark_count(landmarks, 2)


@dataclass(frozen=True, kw_only=True)
class LEPORIDConfig(SpectralConfig):
    alpha: float | Literal["auto"] = setting(0.5, at_least=0, at_most=1)
    """Share of a node's degree that the largest degree replaces; 0 is plain LE. 'auto' chooses
    by a probe inside the training data."""
    row_norm: RowNorm | Literal["auto"] = "as-is"
    """Rows as the solver gives them; of unit length; or items as sums of their users' unit vectors,
    longer the more popular they are, in one space with the users ('balanced': with columns of more
    equal weight). 'auto' chooses by the probe."""
    popularity_power: float = setting(0.6, at_least=0, at_most=1)
    """Item sums are divided by the item's interactions to this power (1: a mean). Chosen too where
    `row_norm` is 'auto'."""
    fold_in_users: bool = False
    """Users as the mean of their items' vectors, in one space with the items, and not as vectors
    of their own graph."""


class SpectralInitializer(Initializer):
    """One spectral estimator for the users, one for the items; here or on a Dask cluster."""

    runs_on_cluster = True
    estimator_class: ClassVar[type[Leporid]]
    config: SpectralConfig

    def estimator(self, landmarks: Landmarks = None) -> Leporid:
        """Return the estimator of one side, not fitted."""
        config = self.config
        return self.estimator_class(
            dim=config.dim,
            k=config.k,
            normalized=config.normalized,
            seed=config.seed,
            device=config.device,
            landmarks=landmarks,
        )

    def _fit(self, train: Interactions, progress: ProgressLike) -> InitialEmbeddings:
        config = self.config
        provenance = self.provenance(train)
        items = self.estimator(config.item_landmarks)
        self._fit_items(items, train, progress)
        users = self.estimator(config.landmarks)
        users.fit(train.csr(), client=self.cluster, progress=progress)
        return InitialEmbeddings(
            side_embedding(users, config.dim, provenance),
            side_embedding(items, config.dim, provenance),
        )

    def _fit_items(
        self,
        estimator: Leporid,
        train: Interactions,
        progress: ProgressLike,
    ) -> None:
        estimator.fit(train.csr().T.tocsr(), client=self.cluster, progress=progress)


class LaplacianEigenmapsInitializer(SpectralInitializer):
    """Eigenvectors of the Laplacian without popularity regularisation."""

    name = "le"
    config_class = SpectralConfig
    estimator_class = LaplacianEigenmaps


class LeporidInitializer(SpectralInitializer):
    """Eigenvectors of L_regsym = I - D_reg^-1/2 W D_reg^-1/2."""

    name = "leporid"
    config_class = LEPORIDConfig
    config: LEPORIDConfig
    estimator_class = Leporid

    def estimator(self, landmarks: Landmarks = None) -> Leporid:
        """Return the estimator of one side, not fitted; `alpha` must be a number by now."""
        return super().estimator(landmarks).set_params(alpha=self.config.alpha)

    def _fit(self, train: Interactions, progress: ProgressLike) -> InitialEmbeddings:
        config = self.config
        if config.alpha == "auto" or config.row_norm == "auto":
            return self._fit_best(train, progress)
        matrix = train.csr()
        embeddings = with_row_norm(
            super()._fit(train, progress),
            matrix,
            config.row_norm,
            config.popularity_power,
        )
        if config.fold_in_users:
            return fold_in_users(embeddings, matrix)
        return embeddings

    def _fit_best(
        self,
        train: Interactions,
        progress: ProgressLike,
    ) -> InitialEmbeddings:
        """Fit the settings that a probe chooses in place of "auto"; the first of equal ones."""
        config = self.config

        def fit_unscaled(part: Interactions, alpha: float) -> InitialEmbeddings:
            settings = config.replace(
                alpha=alpha,
                row_norm="as-is",
                fold_in_users=False,
            )
            return self._with(settings)._fit(part, progress)

        alphas = ALPHAS if config.alpha == "auto" else (config.alpha,)
        power = config.popularity_power
        shapes: list[tuple[RowNorm, float]]
        if config.row_norm == "auto":
            shapes = [("as-is", power), ("unit", power), *POWERS]
        else:
            shapes = [(config.row_norm, power)]
        candidates = try_settings(fit_unscaled, train, alphas, shapes)
        best = max(candidates, key=lambda candidate: candidate.ndcg)

        settings = config.replace(
            alpha=best.alpha,
            row_norm=best.row_norm,
            popularity_power=best.popularity_power,
        )
        embeddings = self._with(settings)._fit(train, progress)
        provenance: dict[str, JsonValue] = {
            **self.provenance(train),
            "chosen": best.settings(),
            "candidates": [
                {**candidate.settings(), "NDCG@10": candidate.ndcg}
                for candidate in candidates
            ],
        }
        return replace(
            embeddings,
            users=_with_provenance(embeddings.users, provenance),
            items=_with_provenance(embeddings.items, provenance),
        )

    def _with(self, config: LEPORIDConfig) -> "LeporidInitializer":
        """Return an initialiser with other settings on the same cluster."""
        initializer = LeporidInitializer(config)
        initializer.cluster = self.cluster
        return initializer


def side_embedding(
    fitted: Leporid,
    dim: int,
    provenance: Mapping[str, JsonValue],
) -> Embedding:
    """Return the vectors of a fitted side, padded with zeros to `dim` columns."""
    landmarks = fitted.landmarks_
    report = {
        **provenance,
        "landmarks": None if landmarks is None else len(landmarks),
        "residual": float(np.max(fitted.residuals_, initial=0.0)),
    }
    side = Embedding(padded(fitted.embedding_, dim), fitted.eigenvalues_, report)
    return with_empty_rows(side, fitted.degrees_ > 0)


def _with_provenance(
    side: Embedding,
    provenance: Mapping[str, JsonValue],
) -> Embedding:
    return replace(side, provenance={**side.provenance, **provenance})
