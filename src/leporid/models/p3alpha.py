"""P3alpha: a random walk item -> user -> item (Cooper et al., WWW 2014)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.config import setting
from leporid.data import Split
from leporid.models.shared.profiles import WINDOW_SPACE, ItemWeights, ProfileConfig
from leporid.models.shared.sparse import canonical, top_k_products
from leporid.progress import ProgressLike
from leporid.space import Choice, Float, Int, SearchSpace


@dataclass(frozen=True, kw_only=True)
class P3AlphaConfig(ProfileConfig):
    """Settings of P3alpha."""

    top_k: int = setting(400, at_least=1)
    """Targets kept for each item."""
    alpha: float = setting(1.0, at_least=0)
    """Every transition probability is raised to this power; 1 is the plain walk."""
    normalize: bool = False
    """Whether the weights kept for an item are made to sum to 1."""


class P3Alpha(ItemWeights):
    """W_ij = sum_u P(u | i)^alpha P(j | u)^alpha."""

    name = "p3alpha"
    config_class = P3AlphaConfig
    config: P3AlphaConfig
    search_space: ClassVar[SearchSpace] = {
        "top_k": Int(10, 1000, log=True),
        "alpha": Float(0.3, 1.8),
        "normalize": Choice(False, True),
        **WINDOW_SPACE,
    }

    @property
    def popularity_power(self) -> float:
        """By which power of its popularity a target is held back: none here."""
        return 0.0

    def _fit(self, split: Split, *, seed: int, progress: ProgressLike) -> None:
        progress.start(self.name, 1)
        c = self.config
        profiles = self._remember(split.train)
        self.weights = walk_weights(profiles, c.top_k, c.alpha, self.popularity_power, c.normalize)
        progress.advance(1)


def walk_weights(
    profiles: sparse.csr_array, top_k: int, alpha: float, beta: float, normalize: bool
) -> sparse.csr_array:
    """float32[n_items, n_items]: the `top_k` largest weights of each row, no diagonal.

    profiles: binary [n_users, n_items]. W_ij = sum_u P(u|i)^alpha P(j|u)^alpha / d_j^beta, where
    P(u|i) = 1 / d_i and P(j|u) = 1 / d_u.
    """
    by_item = canonical(profiles.T)
    from_item = canonical(sparse.diags_array(_power(by_item, -alpha)) @ by_item)
    from_user = canonical(sparse.diags_array(_power(profiles, -alpha)) @ profiles)
    return top_k_products(from_item, from_user, _power(by_item, -beta), top_k, normalize)


def _power(matrix: sparse.csr_array, exponent: float) -> NDArray[np.float64]:
    """float64[n]: the number of entries of each row to a power (rows without any: 1)."""
    counts = np.diff(matrix.indptr).astype(np.float64)
    return np.asarray(np.maximum(counts, 1.0) ** exponent)
