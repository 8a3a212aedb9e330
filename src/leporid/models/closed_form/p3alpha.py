"""P3alpha: a random walk item -> user -> item (Cooper et al., WWW 2014)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from scipy import sparse

from leporid.data import Split
from leporid.foundation import Float, Int, OneOf, SearchSpace, setting
from leporid.graph import canonical
from leporid.models.closed_form.history_window import WINDOW_SPACE
from leporid.models.closed_form.products import (
    item_counts,
    top_k_of_columns,
    top_k_products,
)
from leporid.models.closed_form.profiles import ItemWeights, ProfileConfig
from leporid.models.context import FitContext


@dataclass(frozen=True, kw_only=True)
class P3AlphaConfig(ProfileConfig):
    top_k: int = setting(75, at_least=1)
    """Targets kept for each item; then, of these, sources kept for each target."""
    alpha: float = setting(0.5, at_least=0)
    """Every transition probability is raised to this power; 1 is the plain walk."""
    normalize: bool | Literal["auto"] = "auto"
    """Whether the targets kept for an item are made to sum to 1. `auto`: where the users of an
    item have at least 500 training interactions in all, on average over the items."""


class P3Alpha(ItemWeights):
    """W_ij = sum_u P(u | i)^alpha P(j | u)^alpha."""

    name = "p3alpha"
    config_class = P3AlphaConfig
    config: P3AlphaConfig
    search_space: ClassVar[SearchSpace] = {
        "top_k": Int(10, 1000, log=True),
        "alpha": Float(0.3, 1.8),
        "normalize": OneOf(False, True),
        **WINDOW_SPACE,
    }

    @property
    def popularity_exponent(self) -> float:
        """The power of a target's popularity that its weights are divided by."""
        return 0.0

    def _fit(
        self,
        split: Split,
        seed: int,
        context: FitContext,
    ) -> None:
        context.progress.start(self.name, 1)
        profiles = self._remember(split.train)
        if self.config.normalize == "auto":
            pairs = np.linalg.norm(np.diff(profiles.indptr)) ** 2
            normalize = bool(pairs >= 500 * split.n_items)
            self.config = self.config.replace(normalize=normalize)
        self.weights = walk_weights(
            profiles,
            top_k=self.config.top_k,
            alpha=self.config.alpha,
            beta=self.popularity_exponent,
            normalize=bool(self.config.normalize),
        )
        context.progress.advance(1)


def walk_weights(
    profiles: sparse.csr_array,
    top_k: int,
    alpha: float,
    beta: float,
    normalize: bool,
) -> sparse.csr_array:
    """Return float32[n_items, n_items]: at most `top_k` weights in each row and column.

    The diagonal is empty.

    W_ij = sum_u P(u|i)^alpha P(j|u)^alpha / d_j^beta for binary profiles, P(u|i) = 1 / d_i and
    P(j|u) = 1 / d_u. Rows are cut first, made to sum to 1 with `normalize`, then columns.
    """
    popularity = item_counts(profiles)
    user_lengths = np.maximum(np.diff(profiles.indptr), 1.0)
    walked = canonical(sparse.diags_array(user_lengths**-alpha))
    weights = top_k_products(
        canonical(profiles.T),
        canonical(walked @ profiles),
        top_k,
        rows=popularity**alpha,
        columns=popularity**beta,
    )
    if normalize:
        totals = np.asarray(weights.sum(axis=1))
        weights.data /= np.repeat(totals, np.diff(weights.indptr))
    return top_k_of_columns(weights, top_k)
