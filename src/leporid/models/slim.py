"""SLIM: a sparse linear item-to-item model by elastic net (Ning and Karypis, ICDM 2011)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse

from leporid.config import Config
from leporid.data.split import Split
from leporid.errors import ConfigError
from leporid.models.shared.elastic_net import elastic_net_columns
from leporid.models.shared.profiles import ItemWeights
from leporid.models.shared.sparse import canonical, top_k_to_csr
from leporid.progress import NullProgress, ProgressLike
from leporid.space import Float, Int, SearchSpace
from leporid.threads import one_thread_pool

__all__ = ["SLIM", "SLIMConfig", "slim_weights"]

_ITEMS_PER_STEP = 256
"""Columns solved between two steps of the progress bar."""


@dataclass(frozen=True, kw_only=True)
class SLIMConfig(Config):
    """Settings of SLIM, in scikit-learn's words for the elastic net."""

    alpha: float = 0.01
    """Strength of the penalty, relative to the number of users."""
    l1_ratio: float = 0.1
    """Share of the penalty that is L1; the rest is L2."""
    positive: bool = True
    """Whether weights must not be negative, as in the original."""
    top_k: int = 400
    """Largest weights kept for each target item."""
    max_iterations: int = 100
    """Rounds of working sets, and sweeps over one, at most."""
    tolerance: float = 1e-3
    """A column is solved when no weight changes by more than this share of the largest."""

    def validate(self) -> None:
        """Refuse penalties that are none."""
        if self.alpha <= 0:
            raise ConfigError(f"alpha must be positive, not {self.alpha}")
        if not 0 <= self.l1_ratio <= 1:
            raise ConfigError(f"l1_ratio must lie between 0 and 1, not {self.l1_ratio}")
        if self.top_k < 1 or self.max_iterations < 1:
            raise ConfigError("top_k and max_iterations must be at least 1")
        if self.tolerance <= 0:
            raise ConfigError(f"tolerance must be positive, not {self.tolerance}")


class SLIM(ItemWeights):
    """Scores X W, each column w_j = argmin |x_j - X w|^2 / 2n + penalty, w_jj = 0."""

    name = "slim"
    config_class = SLIMConfig
    config: SLIMConfig
    search_space: ClassVar[SearchSpace] = {
        "alpha": Float(1e-3, 1.0, log=True),
        "l1_ratio": Float(1e-3, 1.0, log=True),
        "top_k": Int(5, 1000, log=True),
    }

    def _fit(self, split: Split, *, seed: int, progress: ProgressLike) -> None:
        self._weights = slim_weights(self._remember(split.train), self.config, progress)


def slim_weights(
    profiles: sparse.csr_array, config: SLIMConfig, progress: ProgressLike | None = None
) -> sparse.csr_array:
    """float32[n_items, n_items]: W, column j the elastic net of item j on all others.

    Coordinate descent needs only the Gram matrix G = X'X, kept sparse, and one dense row of
    work space a thread.
    """
    progress = progress or NullProgress()
    n_users, n_items = profiles.shape
    gram = canonical(profiles.T @ profiles)
    k = max(1, min(config.top_k, n_items - 1))
    sources = np.full((n_items, k), -1, dtype=np.int32)
    values = np.zeros((n_items, k), dtype=np.float32)
    progress.start("slim", n_items)
    with one_thread_pool() as threads:
        for start in range(0, n_items, _ITEMS_PER_STEP):
            stop = min(start + _ITEMS_PER_STEP, n_items)
            elastic_net_columns(
                gram.indptr,
                gram.indices,
                gram.data,
                start,
                stop,
                n_users * config.alpha * config.l1_ratio,
                n_users * config.alpha * (1.0 - config.l1_ratio),
                config.positive,
                config.max_iterations,
                config.tolerance,
                sources,
                values,
                threads * 4,
            )
            progress.advance(stop - start)
    return canonical(top_k_to_csr(sources, values, n_items).T)
