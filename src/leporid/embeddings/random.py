"""`random`: N(0, 0.01^2), the usual initialisation and the baseline of all others."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from leporid.config import setting
from leporid.data import Interactions
from leporid.embeddings.base import InitialEmbeddings, Initializer, InitializerConfig
from leporid.progress import ProgressLike


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
        config = self.config

        def draw(n: int, stream: np.random.SeedSequence) -> Any:
            drawn = np.random.default_rng(stream).standard_normal(
                (n, config.dim), dtype=np.float32
            )
            return drawn * np.float32(config.deviation)

        users, items = np.random.SeedSequence(config.seed).spawn(2)
        return self._embeddings(
            train, draw(train.n_users, users), draw(train.n_items, items)
        )
