"""`leporid_content`: LEPORID, with the items that have no or few users placed by their content.

Users and items with enough evidence have the vectors of `leporid`, exactly. For the others the
content edges C of `content_graph` join the edges J to items with shared users, and the formula for
new rows (`spectral.extension`) places them by both,

    q_i = (1 / mu) sum_j w_j q_j / sqrt(d_reg_i d_reg_j),    w = J_i + C_i,

which for C_i = 0 is the row they have in `leporid`.
"""

from __future__ import annotations

import warnings
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.config import setting
from leporid.data import IdMap, Interactions, item_features
from leporid.errors import ConfigError, LeporidWarning, NotFittedError
from leporid.graph import knn_graph
from leporid.initializers.content import (
    check_item_file,
    content_digest,
    content_report,
    read_features,
)
from leporid.initializers.content_graph import content_edges
from leporid.initializers.leporid import LEPORIDConfig
from leporid.initializers.spectral_sides import SpectralInitializer
from leporid.initializers.svd import padded
from leporid.progress import ProgressLike
from leporid.spectral import Leporid


@dataclass(frozen=True, kw_only=True)
class LEPORIDContentConfig(LEPORIDConfig):
    """Settings of `LEPORIDContent`."""

    items: str = ""
    """The file about the items, as for `content`."""
    columns: tuple[str, ...] = ()
    """Columns to read, as for `content`."""
    content_k: int = setting(50, at_least=1)
    """Neighbours of an item by content."""
    gamma: float = setting(1.0, at_least=0)
    """Content edges of an item without interactions, in units of an average item's edges."""
    enough: float = setting(1.0, at_least=1)
    """Interactions of an item from which on content does not count. Content counts in full at none
    and falls in a straight line; at 1 it places the items without users and no others."""

    def validate(self) -> None:
        """Refuse settings without a file, or without a graph of all items."""
        super().validate()
        check_item_file("leporid_content", self.items)
        if self.item_landmarks is not None:
            raise ConfigError("content edges need all items in the graph: leave out item_landmarks")


class LEPORIDContent(SpectralInitializer):
    """Eigenvectors of L_regsym; rows w = W_jaccard + gamma(n) W_content where evidence is thin."""

    name = "leporid_content"
    config_class = LEPORIDContentConfig
    config: LEPORIDContentConfig
    estimator_class = Leporid
    version = 3
    _fitted: tuple[Interactions, Leporid, float] | None = None

    def provenance(self, digest: str) -> dict[str, Any]:
        """The file belongs to what the vectors come from."""
        return {**super().provenance(digest), "content": content_digest(self.config.items)}

    def _fit_items(
        self,
        estimator: Leporid,
        train: Interactions,
        start: NDArray[np.float32] | None,
        progress: ProgressLike,
    ) -> dict[str, Any]:
        for name, value in (("a cluster", self.client), ("older vectors", start)):
            if value is not None:
                raise ConfigError(f"{self.name} cannot be fitted with {name}: leave it out")
        features, config = read_features(self, train), self.config
        device: Any = {"device": config.device, "progress": progress}
        jaccard = knn_graph(train.csr().T.tocsr(), k=config.k, side="items", **device)
        with warnings.catch_warnings():
            # Nodes without edges do not keep the zeros they get here.
            warnings.filterwarnings("ignore", ".*nodes have no edges", LeporidWarning)
            estimator.fit_graph(jaccard, progress=progress)
        degrees = estimator.degrees_
        d_mean = float(degrees[degrees > 0].mean()) if degrees.any() else 1.0
        # What places new rows are the eigenvectors, not the rows that content has moved.
        self._fitted = train, copy(estimator), d_mean
        counts = np.bincount(train.item, minlength=train.n_items)
        thin = np.flatnonzero(counts < config.enough)
        edges = content_edges(features.matrix, counts, d_mean, *self._rule(), thin, degrees > 0)
        some = np.asarray(edges.sum(axis=1)).ravel() > 0
        if some.any():
            thin = thin[some]
            weights = sparse.csr_array(edges[some] + jaccard.csr()[thin])
            estimator.embedding_, estimator.degrees_ = estimator.embedding_.copy(), degrees.copy()
            estimator.embedding_[thin] = estimator.transform(weights)
            estimator.degrees_[thin] = np.asarray(weights.sum(axis=1)).ravel()
        return content_report(features)

    def _rule(self) -> tuple[int, float, float]:
        return self.config.content_k, self.config.gamma, self.config.enough

    def place(self, new: IdMap, source: Any = None) -> NDArray[np.float32]:
        """float32[len(new), D]: where items that were not there lie, by their content edges alone.

        `source` is a table with the new items; those fitted are in the file of the settings.
        """
        if self._fitted is None:
            raise NotFittedError(f"{self.name} is not fitted yet: call fit(train) first")
        train, estimator, d_mean = self._fitted
        both = IdMap.from_values([*train.items.ids.to_pylist(), *new.ids.to_pylist()], "item")
        tables = [self.config.items] if source is None else [self.config.items, source]
        features = item_features(both, *tables, columns=self.config.columns).matrix
        old, rows = (both.encode(ids.ids).astype(np.int64) for ids in (train.items, new))
        counts, fitted = np.zeros(len(both), np.int64), np.zeros(len(both), bool)
        counts[old] = np.bincount(train.item, minlength=train.n_items)
        fitted[old] = estimator.degrees_ > 0
        edges = content_edges(features, counts, d_mean, *self._rule(), rows, fitted)
        return padded(estimator.transform(edges[:, old]), self.config.dim)
