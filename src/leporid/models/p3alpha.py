"""P3alpha: a random walk item -> user -> item (Cooper et al., WWW 2014)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from leporid.config import Config
from leporid.data.split import Split
from leporid.errors import ConfigError
from leporid.models.shared.profiles import ItemWeights
from leporid.models.shared.random_walk import walk_weights
from leporid.progress import ProgressLike
from leporid.space import Choice, Float, Int, SearchSpace

__all__ = ["P3Alpha", "P3AlphaConfig"]


@dataclass(frozen=True, kw_only=True)
class P3AlphaConfig(Config):
    """Settings of P3alpha."""

    top_k: int = 400
    """Targets kept for each item."""
    alpha: float = 1.0
    """Every transition probability is raised to this power; 1 is the plain walk."""
    normalize: bool = False
    """Whether the weights kept for an item are made to sum to 1."""

    def validate(self) -> None:
        """Refuse an empty list and a walk that prefers unlikely steps."""
        if self.top_k < 1:
            raise ConfigError(f"top_k must be at least 1, not {self.top_k}")
        if self.alpha < 0:
            raise ConfigError(f"alpha must not be negative, but is {self.alpha}")


class P3Alpha(ItemWeights):
    """W_ij = sum_u P(u | i)^alpha P(j | u)^alpha."""

    name = "p3alpha"
    config_class = P3AlphaConfig
    config: P3AlphaConfig
    search_space: ClassVar[SearchSpace] = {
        "top_k": Int(10, 1000, log=True),
        "alpha": Float(0.3, 1.8),
        "normalize": Choice(False, True),
    }

    @property
    def popularity_power(self) -> float:
        """By which power of its popularity a target is held back: none here."""
        return 0.0

    def _fit(self, split: Split, *, seed: int, progress: ProgressLike) -> None:
        progress.start(self.name, 1)
        c = self.config
        profiles = self._remember(split.train)
        self._weights = walk_weights(profiles, c.top_k, c.alpha, self.popularity_power, c.normalize)
        progress.advance(1)
