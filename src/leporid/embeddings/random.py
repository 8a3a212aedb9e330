"""`random`: N(0, 0.01^2), the usual initialisation and the baseline of all others."""

from dataclasses import dataclass

import numpy as np

from leporid.data import Interactions
from leporid.embeddings.arrays import Float32Array
from leporid.embeddings.base import Initializer, InitializerConfig
from leporid.embeddings.vectors import InitialEmbeddings
from leporid.foundation import ProgressLike, setting


@dataclass(frozen=True, kw_only=True)
class RandomConfig(InitializerConfig):
    deviation: float = setting(0.01, at_least=0)
    """Standard deviation of every entry."""


class Random(Initializer):
    """Independent normal entries; the users' and the items' draws are separate streams."""

    name = "random"
    config_class = RandomConfig
    config: RandomConfig
    standardize_by_default = False
    leaves_unknown_rows_empty = False

    def _fit(self, train: Interactions, progress: ProgressLike) -> InitialEmbeddings:
        users, items = np.random.SeedSequence(self.config.seed).spawn(2)
        return self._embeddings(
            train,
            self._draw(train.n_users, users),
            self._draw(train.n_items, items),
        )

    def _draw(self, n: int, seed: np.random.SeedSequence) -> Float32Array:
        """float32[n, dim]: normal numbers of the stream that `seed` begins."""
        rng = np.random.default_rng(seed)
        drawn = rng.standard_normal((n, self.config.dim), dtype=np.float32)
        return drawn * np.float32(self.config.deviation)
