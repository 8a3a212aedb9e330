"""TopPop: the same list for everyone, the items with the most training interactions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from leporid.data import Sequences, Split
from leporid.foundation import Config
from leporid.models.base import Recommender
from leporid.models.context import FitContext
from leporid.models.fitted_arrays import FittedArray
from leporid.ranking import Indices, Scores


@dataclass(frozen=True, kw_only=True)
class TopPopConfig(Config):
    """TopPop has no settings."""


class TopPop(Recommender):
    """The score of an item is its number of training interactions (of target events, if marked)."""

    name = "toppop"
    config_class: ClassVar[type[Config]] = TopPopConfig
    popularity: FittedArray[NDArray[np.float32]] = FittedArray(shape=("items",))
    """float32[n_items]: training interactions of each item."""

    def _fit(
        self,
        split: Split,
        seed: int,
        context: FitContext,
    ) -> None:
        self.popularity = split.train.target_events.popularity.astype(np.float32)

    def score(
        self,
        users: Indices,
        history: Sequences | None = None,
    ) -> Scores:
        return np.repeat(
            self.popularity[None, :], len(self._check_users(users)), axis=0
        )

    def score_histories(self, histories: Sequence[Indices]) -> Scores:
        return np.repeat(self.popularity[None, :], len(histories), axis=0)
