"""TopPop: the same list for everyone, the items with the most training interactions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leporid.config import Config
from leporid.data.interactions import Sequences
from leporid.data.split import Split
from leporid.models.shared.base import Recommender
from leporid.progress import ProgressLike

__all__ = ["TopPop", "TopPopConfig"]


@dataclass(frozen=True, kw_only=True)
class TopPopConfig(Config):
    """TopPop has no settings."""


class TopPop(Recommender):
    """Score of an item: its number of training interactions."""

    name = "toppop"
    config_class = TopPopConfig

    def _fit(self, split: Split, *, seed: int, progress: ProgressLike) -> None:
        counts = np.bincount(split.train.item, minlength=split.n_items)
        self._popularity = counts.astype(np.float32)

    def score(
        self, users: NDArray[np.int32], history: Sequences | None = None
    ) -> NDArray[np.float32]:
        """float32[len(users), n_items]: one row, repeated."""
        return self._repeat(len(self._check_users(users)))

    def score_histories(self, histories: Sequence[NDArray[np.int32]]) -> NDArray[np.float32]:
        """float32[len(histories), n_items]: one row, repeated."""
        return self._repeat(len(histories))

    def _repeat(self, rows: int) -> NDArray[np.float32]:
        self.known  # noqa: B018 (says "not fitted" where it is not)
        return np.repeat(self._popularity[None, :], rows, axis=0)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"popularity": self._popularity}

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        self._popularity = arrays["popularity"]
