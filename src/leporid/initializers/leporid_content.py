"""`leporid_content`: LEPORID on one item graph of shared users and of content.

Items with evidence keep their place, items without get their content's (`content_graph` has the
rule). Users are those of `leporid`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leporid.config import setting
from leporid.data import IdMap, Interactions
from leporid.errors import ConfigError, NotFittedError
from leporid.graph import knn_graph
from leporid.initializers.content import content_digest, content_report, read_features
from leporid.initializers.content_graph import content_edges
from leporid.initializers.item_features import item_features
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
    half: float = setting(5.0, above=0)
    """Interactions of an item at which content counts half as much."""

    def validate(self) -> None:
        """Refuse what fits the items without a graph of all of them."""
        super().validate()
        if self.item_landmarks is not None:
            raise ConfigError("content edges need all items in the graph: leave out item_landmarks")


class LEPORIDContent(SpectralInitializer):
    """Eigenvectors of L_regsym with W = W_jaccard + gamma(n) W_content for the items."""

    name = "leporid_content"
    config_class = LEPORIDContentConfig
    config: LEPORIDContentConfig
    estimator_class = Leporid
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
        degrees = jaccard.degrees()
        d_mean = float(degrees[degrees > 0].mean()) if degrees.any() else 1.0
        counts = np.bincount(train.item, minlength=train.n_items)
        edges = content_edges(features.matrix, counts, d_mean, *self._rule())
        estimator.fit_graph(jaccard.csr().astype(np.float64) + edges + edges.T, progress=progress)
        self._fitted = train, estimator, d_mean
        about = content_report(features)
        del about["isolated"]  # an item without content may have users
        return about

    def _rule(self) -> tuple[int, float, float]:
        return self.config.content_k, self.config.gamma, self.config.half

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
        counts[old], fitted[old] = np.bincount(train.item, minlength=train.n_items), True
        edges = content_edges(features, counts, d_mean, *self._rule(), rows, fitted)
        return padded(estimator.transform(edges[:, old]), self.config.dim)
