"""`content` and `leporid_content`: item vectors from a table about the items.

`content`: the features of `leporid.data` less their mean are about U S V^T; an item's vector is a
row of U (whitened) or of U S, and a user is the mean of their items.

`leporid_content`: users, and items with enough interactions, have the vectors of `leporid`. Item i
has edges J_i from shared users (Jaccard, sum d_i) and n_i training interactions. Its k nearest
items by content that have users get

    C_ij = gamma(n_i) d_mean cos_ij / sum_l cos_il,    gamma(n) = gamma max(0, 1 - n / enough),

d_mean the mean of the d_i, and the out-of-sample extension (`spectral.extension`) with weights
w = J_i + C_i gives its vector,

    q_i = (1 / mu) sum_j w_j q_j / sqrt(d_reg_i d_reg_j).
"""

import hashlib
import warnings
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

from leporid.config import setting
from leporid.data import IdMap, Interactions, ItemFeatures, item_features
from leporid.embeddings.base import (
    Embedding,
    InitialEmbeddings,
    Initializer,
    InitializerConfig,
    padded,
)
from leporid.embeddings.eigenpairs import column_signs
from leporid.embeddings.estimators import Leporid
from leporid.embeddings.leporid import SpectralConfig, SpectralInitializer, item_means
from leporid.embeddings.svd import largest_triplets
from leporid.errors import ConfigError, LeporidWarning, NotFittedError
from leporid.graph import knn_graph
from leporid.progress import ProgressLike

_DENSE = 5_000_000
"""Entries up to which the dense decomposition is taken."""
_BLOCK = 16_000_000
"""Entries of a block of similarities."""


@dataclass(frozen=True, kw_only=True)
class ContentConfig(InitializerConfig):
    items: str = ""
    """The file about the items: a table by item id, or vectors of your own by id."""
    columns: tuple[str, ...] = ()
    """Columns to read, `title` or `year:categories` (text, categories, number, vector); all, with
    their kinds guessed, where none is named."""
    whiten: bool = True
    """Give every direction the same spread; False keeps the singular values."""

    def validate(self) -> None:
        _check_item_file("content", self.items)


class _ReadsItems(Initializer):
    """Reads a table about the items, which belongs to what the vectors come from."""

    config: Any

    def provenance(self, digest: str) -> dict[str, Any]:
        path = Path(self.config.items).expanduser()
        # With the ids beside a `.npy`; a data set has its name only.
        files = [f for f in (path, path.parent / f"{path.stem}.ids.npy") if f.is_file()]
        contents = (
            b"".join(file.read_bytes() for file in files) or self.config.items.encode()
        )
        content = hashlib.sha256(contents).hexdigest()[:16]
        return {**super().provenance(digest), "content": content}

    def _features(self, items: IdMap, *more: Any) -> ItemFeatures:
        return item_features(
            items, self.config.items, *more, columns=self.config.columns
        )


class Content(_ReadsItems):
    """Principal components of words, categories, numbers or vectors of the items."""

    name = "content"
    config_class = ContentConfig
    config: ContentConfig

    def _fit(self, train: Interactions, progress: ProgressLike) -> InitialEmbeddings:
        features, config = self._features(train.items), self.config
        progress.start("content", 1)
        known = features.known
        scores, singular = principal_components(
            features.matrix[known], config.dim, config.seed
        )
        progress.advance()
        vectors = np.zeros((train.n_items, config.dim), np.float32)
        vectors[known] = padded(
            scores if config.whiten else scores * singular, config.dim
        )
        about = self.provenance(train.digest)
        items = Embedding(vectors, None, about)
        if not config.whiten:
            about["standardized"] = (
                True  # z-scoring would undo the lengths of the columns
            )
            items = Embedding(vectors / np.float32(items.size or 1.0), None, about)
        return InitialEmbeddings(item_means(items, train.csr(), about), items)


def _check_item_file(initializer: str, items: str) -> None:
    if not items:
        raise ConfigError(
            f"{initializer} needs a file about the items: items='items.parquet' (on the command "
            f"line --init-set items=items.parquet for train, --set for embed)"
        )


def principal_components(
    matrix: sparse.csr_array, dim: int, seed: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """U float64[n, r] and singular values float64[r] of the rows less their mean, r <= dim.

    Directions at rounding level are left out. Signs are fixed as in `truncated_svd`.
    """
    mean = np.asarray(matrix.mean(axis=0), np.float64).reshape(1, -1)
    small, rank = min(matrix.shape), min(dim, min(matrix.shape))
    if matrix.shape[0] * matrix.shape[1] <= _DENSE or small <= 2 * rank:
        u, s, _ = np.linalg.svd(matrix.toarray() - mean, full_matrices=False)
    else:
        ones = aslinearoperator(np.ones((matrix.shape[0], 1)))
        centred = aslinearoperator(matrix.astype(np.float64)) - ones @ aslinearoperator(
            mean
        )
        u, s, _ = largest_triplets(centred, rank, seed, lambda: matrix.toarray() - mean)
    order = np.argsort(-s, kind="stable")[:rank]
    order = order[s[order] > 1e-7 * s.max()]
    return u[:, order] * column_signs(u[:, order]), s[order]


def content_edges(
    features: sparse.csr_array,
    interactions: NDArray[np.int64],
    d_mean: float,
    k: int,
    gamma: float,
    enough: float,
    rows: NDArray[np.int64] | None = None,
    among: NDArray[np.bool_] | None = None,
) -> sparse.csr_array:
    """C float64[m, n] of `rows` (all by default) towards the rows of `features`, csr[n, f].

    `interactions` int64[n] is n_i. Memory is the result and a block, time is quadratic in n.
    """
    rows = np.arange(features.shape[0]) if rows is None else rows
    nearest = nearest_by_content(features, rows, k, interactions, among)
    total = np.asarray(nearest.sum(axis=1)).ravel()
    weight = d_mean * gamma * np.maximum(0, 1 - interactions[rows] / enough)
    return sparse.csr_array(
        sparse.diags_array(weight / np.where(total > 0, total, 1.0)) @ nearest
    )


def nearest_by_content(
    features: sparse.csr_array,
    rows: NDArray[np.int64],
    k: int,
    interactions: NDArray[np.int32 | np.int64],
    among: NDArray[np.bool_] | None = None,
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
    columns, parts = features.T.tocsr(), []
    for first in range(0, max(len(rows), 1), size := max(_BLOCK // n, 1)):
        part = rows[first : first + size]
        cosines = (features[part] @ columns).toarray().astype(np.float64)
        cosines[np.arange(len(part)), part] = 0
        cosines[:, ~allowed] = 0
        key = np.where(cosines > 0, np.round(cosines, 5) + preference, -np.inf)
        top = (
            np.argpartition(-key, k - 1, axis=1)[:, :k]
            if k < n
            else np.argsort(-key, axis=1)
        )
        values = np.take_along_axis(cosines, top, axis=1)
        own, rank = np.nonzero(values > 0)
        parts.append(
            sparse.csr_array((values[own, rank], (own, top[own, rank])), (len(part), n))
        )
    return sparse.csr_array(sparse.vstack(parts, format="csr"))


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
    enough: float = setting(1.0, at_least=1)
    """Interactions from which on an item has no content edges. Their weight falls linearly from
    none on; at 1 only items without users have them."""

    def validate(self) -> None:
        """Refuse settings without a file, or without a graph of all items."""
        super().validate()
        _check_item_file("leporid_content", self.items)
        if self.item_landmarks is not None:
            raise ConfigError(
                "content edges need all items in the graph: leave out item_landmarks"
            )


class LEPORIDContent(_ReadsItems, SpectralInitializer):
    """LEPORID, with items of few interactions extended out of sample by users and content."""

    name = "leporid_content"
    config_class = LEPORIDContentConfig
    config: LEPORIDContentConfig
    estimator_class = Leporid
    version = 3
    _fitted: tuple[Interactions, Leporid, float] | None = None

    def _fit_items(
        self, estimator: Leporid, train: Interactions, **options: Any
    ) -> None:
        if self.client is not None:
            raise ConfigError(
                f"{self.name} cannot be fitted with a cluster: leave it out"
            )
        features, config, progress = (
            self._features(train.items),
            self.config,
            options["progress"],
        )
        where: Any = {"device": config.device, "progress": progress}
        jaccard = knn_graph(train.csr().T.tocsr(), k=config.k, side="items", **where)
        with warnings.catch_warnings():
            # Content replaces the zeros of nodes without edges.
            warnings.filterwarnings("ignore", ".*nodes have no edges", LeporidWarning)
            estimator.fit_graph(jaccard, progress=progress)
        degrees = estimator.degrees_
        d_mean = float(degrees[degrees > 0].mean()) if degrees.any() else 1.0
        # New items are extended from the eigenvectors, before content changes rows.
        self._fitted = train, copy(estimator), d_mean
        counts = np.bincount(train.item, minlength=train.n_items)
        thin = np.flatnonzero(counts < config.enough)
        edges = content_edges(
            features.matrix, counts, d_mean, *self._rule(), thin, degrees > 0
        )
        some = np.asarray(edges.sum(axis=1)).ravel() > 0
        if some.any():
            thin = thin[some]
            weights = sparse.csr_array(edges[some] + jaccard.csr()[thin])
            estimator.embedding_, estimator.degrees_ = (
                estimator.embedding_.copy(),
                degrees.copy(),
            )
            estimator.embedding_[thin] = estimator.transform(weights)
            estimator.degrees_[thin] = np.asarray(weights.sum(axis=1)).ravel()

    def _rule(self) -> tuple[int, float, float]:
        return self.config.content_k, self.config.gamma, self.config.enough

    def extend(self, new: IdMap, source: Any = None) -> NDArray[np.float32]:
        """float32[len(new), D]: out-of-sample extension of new items by their content edges alone.

        `source` is a table with the new items; the fitted ones are in the file of the settings.
        """
        if self._fitted is None:
            raise NotFittedError(
                f"{self.name} is not fitted yet: call fit(train) first"
            )
        train, estimator, d_mean = self._fitted
        both = IdMap.from_values(
            [*train.items.ids.to_pylist(), *new.ids.to_pylist()], "item"
        )
        features = self._features(both, *([] if source is None else [source])).matrix
        old, rows = (
            both.encode(ids.ids).astype(np.int64) for ids in (train.items, new)
        )
        counts, fitted = np.zeros(len(both), np.int64), np.zeros(len(both), bool)
        counts[old] = np.bincount(train.item, minlength=train.n_items)
        fitted[old] = estimator.degrees_ > 0
        edges = content_edges(features, counts, d_mean, *self._rule(), rows, fitted)
        return padded(estimator.transform(edges[:, old]), self.config.dim)
