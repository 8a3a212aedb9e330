"""`random`: the usual start, N(0, 0.01^2), that every other initialiser is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from leporid.data.interactions import Interactions
from leporid.errors import ConfigError
from leporid.initializers.base import InitialEmbeddings, Initializer, InitializerConfig
from leporid.progress import ProgressLike
from leporid.spectral.embedding import Embedding

__all__ = ["Random", "RandomConfig"]


@dataclass(frozen=True, kw_only=True)
class RandomConfig(InitializerConfig):
    """Settings of `Random`."""

    deviation: float = 0.01
    """Standard deviation of every entry."""

    def validate(self) -> None:
        """Refuse a negative deviation."""
        super().validate()
        if not self.deviation >= 0:
            raise ConfigError(f"deviation must be at least 0, not {self.deviation}")


class Random(Initializer):
    """Independent normal entries; the users' and the items' draws are separate streams."""

    name = "random"
    config_class = RandomConfig
    config: RandomConfig
    standardize_by_default: ClassVar[bool] = False

    def _fit(self, train: Interactions, progress: ProgressLike) -> InitialEmbeddings:
        provenance = self.provenance(train)
        streams = np.random.SeedSequence(self.config.seed).spawn(2)
        sides = []
        for stream, n in zip(streams, (train.n_users, train.n_items), strict=True):
            drawn = np.random.default_rng(stream).standard_normal(
                (n, self.config.dim), dtype=np.float32
            )
            sides.append(Embedding(drawn * np.float32(self.config.deviation), None, provenance))
        return InitialEmbeddings(sides[0], sides[1])
