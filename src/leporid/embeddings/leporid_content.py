"""`leporid_content`: `leporid`, with items of few interactions placed by a table about the items.

Users, and items with enough interactions, have the vectors of `leporid`. Item i has edges J_i from
shared users (Jaccard, sum d_i) and n_i training interactions. Its k nearest items by content that
have users get

    C_ij = gamma(n_i) d_mean cos_ij / sum_l cos_il,    gamma(n) = gamma max(0, 1 - n / m),

d_mean the mean of the d_i, m the setting `min_interactions`, and the out-of-sample extension
(`embeddings.out_of_sample`) with weights w = J_i + C_i gives its vector,

    q_i = (1 / mu) sum_j w_j q_j / sqrt(d_reg_i d_reg_j).
"""

import warnings
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.data import (
    IdMap,
    Interactions,
    ItemTable,
    StoredInteractions,
    item_features,
)
from leporid.embeddings.arrays import BoolArray, Float32Array, Int64Array
from leporid.embeddings.content import check_item_file, item_file_digest
from leporid.embeddings.estimators import Leporid
from leporid.embeddings.landmarks import Landmarks
from leporid.embeddings.leporid import SpectralConfig, SpectralInitializer
from leporid.embeddings.vectors import padded
from leporid.errors import ConfigError, LeporidWarning, NotFittedError
from leporid.foundation import JsonValue, ProgressLike, setting
from leporid.graph import knn_graph

_BLOCK = 16_000_000
"""Entries of a block of similarities."""


@dataclass(frozen=True, kw_only=True)
class LEPORIDContentConfig(SpectralConfig):
    """Settings of `LEPORIDContent`."""

    alpha: float = setting(0.5, at_least=0, at_most=1)
    """Popularity regularisation, as for `leporid`."""
    items: str = ""
    """The file about the items, as for `content`."""
    columns: tuple[str, ...] = ()
    """Columns to read, as for `content`."""
    content_k: int = setting(50, at_least=1)
    """Neighbours of an item by content."""
    gamma: float = setting(1.0, at_least=0)
    """Weight of the content edges of an item without interactions, relative to the edges of an
    average item."""
    min_interactions: float = setting(1.0, at_least=1)
    """Interactions from which on an item has no content edges. Their weight falls linearly from
    none on; at 1 only items without users have them."""

    def __post_init__(self) -> None:
        """Refuse settings without a file, or without a graph of all items."""
        super().__post_init__()
        check_item_file("leporid_content", self.items)
        if self.item_landmarks is not None:
            raise ConfigError(
                "content edges need all items in the graph: leave out item_landmarks"
            )


class _FittedItems(NamedTuple):
    """A fit, as far as `extend` needs it."""

    train: Interactions
    estimator: Leporid
    """The estimator of the items before content changed rows."""
    mean_degree: float
    """Mean degree of the items that have edges."""


class LEPORIDContent(SpectralInitializer):
    """LEPORID, with items of few interactions extended out of sample by users and content."""

    name = "leporid_content"
    config_class = LEPORIDContentConfig
    config: LEPORIDContentConfig
    estimator_class = Leporid
    runs_on_cluster = False
    version = 3
    _fitted: _FittedItems | None = None

    def estimator(self, landmarks: Landmarks = None) -> Leporid:
        """Return the estimator of one side, not fitted."""
        return super().estimator(landmarks).set_params(alpha=self.config.alpha)

    def provenance(
        self, data: Interactions | StoredInteractions
    ) -> dict[str, JsonValue]:
        content = item_file_digest(self.config.items)
        return {**super().provenance(data), "content": content}

    def _fit_items(
        self,
        estimator: Leporid,
        train: Interactions,
        progress: ProgressLike,
    ) -> None:
        config = self.config
        features = item_features(train.items, config.items, columns=config.columns)
        jaccard = knn_graph(
            train.csr().T.tocsr(),
            k=config.k,
            side="items",
            device=config.device,
            progress=progress,
        )
        with warnings.catch_warnings():
            # Content replaces the zeros of nodes without edges.
            warnings.filterwarnings("ignore", ".*nodes have no edges", LeporidWarning)
            estimator.fit_graph(jaccard, progress=progress)
        degrees = estimator.degrees_
        linked = degrees > 0
        mean_degree = float(degrees[linked].mean()) if linked.any() else 1.0
        # New items are extended from the eigenvectors, before content changes rows.
        self._fitted = _FittedItems(train, copy(estimator), mean_degree)

        interactions = np.bincount(train.item, minlength=train.n_items)
        sparse_items = np.flatnonzero(interactions < config.min_interactions)
        edges = self._edges(
            features.matrix,
            interactions,
            mean_degree,
            sparse_items,
            linked,
        )
        described = np.asarray(edges.sum(axis=1)).ravel() > 0
        if not described.any():
            return
        items = sparse_items[described]
        weights = sparse.csr_array(edges[described] + jaccard.csr()[items])
        vectors = estimator.embedding_.copy()
        vectors[items] = estimator.transform(weights)
        estimator.embedding_ = vectors
        estimator.degrees_ = degrees.copy()
        estimator.degrees_[items] = np.asarray(weights.sum(axis=1)).ravel()

    def _edges(
        self,
        features: sparse.csr_array,
        interactions: Int64Array,
        mean_degree: float,
        rows: Int64Array,
        linked: BoolArray,
    ) -> sparse.csr_array:
        """`content_edges` of `rows` towards the `linked` items, by the settings."""
        return content_edges(
            features,
            interactions,
            mean_degree,
            self.config.content_k,
            self.config.gamma,
            self.config.min_interactions,
            rows,
            linked,
        )

    def extend(
        self,
        new: IdMap,
        source: ItemTable | str | Path | None = None,
    ) -> Float32Array:
        """float32[len(new), D]: out-of-sample extension of new items by their content edges alone.

        `source` is a table with the new items; the fitted ones are in the file of the settings.
        """
        if self._fitted is None:
            raise NotFittedError(
                f"{self.name} is not fitted yet: call fit(train) first"
            )
        train, estimator, mean_degree = self._fitted
        config = self.config
        all_ids = [*train.items.ids.to_pylist(), *new.ids.to_pylist()]
        all_items = IdMap.from_values(all_ids, "item")
        tables = [config.items] if source is None else [config.items, source]
        features = item_features(all_items, *tables, columns=config.columns)
        fitted_rows = all_items.encode(train.items.ids).astype(np.int64)
        new_rows = all_items.encode(new.ids).astype(np.int64)

        interactions = np.zeros(len(all_items), np.int64)
        interactions[fitted_rows] = np.bincount(train.item, minlength=train.n_items)
        linked = np.zeros(len(all_items), bool)
        linked[fitted_rows] = estimator.degrees_ > 0
        edges = self._edges(
            features.matrix,
            interactions,
            mean_degree,
            new_rows,
            linked,
        )
        return padded(estimator.transform(edges[:, fitted_rows]), config.dim)


def content_edges(
    features: sparse.csr_array,
    interactions: Int64Array,
    d_mean: float,
    k: int,
    gamma: float,
    min_interactions: float,
    rows: Int64Array | None = None,
    among: BoolArray | None = None,
) -> sparse.csr_array:
    """C float64[m, n] of `rows` (all by default) towards the rows of `features`, csr[n, f].

    `interactions` int64[n] is n_i. Memory is the result and a block, time is quadratic in n.
    """
    if rows is None:
        rows = np.arange(features.shape[0])
    nearest = nearest_by_content(features, rows, k, interactions, among)
    total = np.asarray(nearest.sum(axis=1)).ravel()
    weight = d_mean * gamma * np.maximum(0, 1 - interactions[rows] / min_interactions)
    scale = weight / np.where(total > 0, total, 1.0)
    return sparse.csr_array(sparse.diags_array(scale) @ nearest)


def nearest_by_content(
    features: sparse.csr_array,
    rows: Int64Array,
    k: int,
    interactions: NDArray[np.int32 | np.int64],
    among: BoolArray | None = None,
) -> sparse.csr_array:
    """csr float64[m, n]: the cosines of each of `rows` with its k nearest others, all positive.

    Between equal cosines (to five decimals) items with more interactions come first, then the
    smaller index. `among` bool[n] marks the candidates.
    """
    n = features.shape[0]
    k = min(k, n - 1)
    order = np.lexsort((np.arange(n), -interactions))
    preference = np.empty(n)
    preference[order] = np.linspace(1e-5, 0, n, endpoint=False)
    allowed = np.ones(n, bool) if among is None else among
    columns = features.T.tocsr()
    blocks = []
    block_size = max(_BLOCK // n, 1)
    for first in range(0, max(len(rows), 1), block_size):
        block = rows[first : first + block_size]
        cosines = (features[block] @ columns).toarray().astype(np.float64)
        cosines[np.arange(len(block)), block] = 0
        cosines[:, ~allowed] = 0
        key = np.where(cosines > 0, np.round(cosines, 5) + preference, -np.inf)
        top = np.argpartition(-key, k - 1, axis=1)[:, :k]
        values = np.take_along_axis(cosines, top, axis=1)
        row, rank = np.nonzero(values > 0)
        entries = (values[row, rank], (row, top[row, rank]))
        blocks.append(sparse.csr_array(entries, (len(block), n)))
    return sparse.csr_array(sparse.vstack(blocks, format="csr"))
