"""Frequency: what a user had often and lately, again (for lists that may show known items)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from leporid.data import Sequences
from leporid.foundation import Config, Float, SearchSpace, setting
from leporid.models.closed_form.toppop import TopPop
from leporid.ranking import Indices, Scores

_TIE = 1e-6
"""What popularity can add to a weight: it decides between equal ones."""


@dataclass(frozen=True, kw_only=True)
class FrequencyConfig(Config):
    half_life: float = setting(100.0, above=0)
    """An interaction counts half as much as one of the same user this many interactions later."""


class Frequency(TopPop):
    """Score of an item that a user has: the sum of 2^(-age / half_life) over its interactions.

    The age is the number of the user's interactions after it. All other items follow by their
    popularity, with scores below 0. So without `include_seen` the lists are those of TopPop.
    """

    name = "frequency"
    config_class = FrequencyConfig
    config: FrequencyConfig
    uses_weights = True
    reads_history = True
    search_space: ClassVar[SearchSpace] = {"half_life": Float(1.0, 1000.0, log=True)}

    def score(
        self,
        users: Indices,
        history: Sequences | None = None,
    ) -> Scores:
        if history is None:
            history = self.known.sequences()
        users = self._check_users(users)
        return self._score(history.take(users))

    def score_histories(self, histories: Sequence[Indices]) -> Scores:
        return self._score(Sequences.from_rows(histories))

    def _score(self, histories: Sequences) -> Scores:
        """Return float32[len(histories), n_items]: scores of every item."""
        counts = histories.decayed_counts(self.known.n_items, self.config.half_life)
        share = self.popularity / (1 + self.popularity.max())
        scores = np.repeat((share - 1)[None, :], len(histories), axis=0)
        user = np.repeat(np.arange(len(histories)), np.diff(counts.indptr))
        scores[user, counts.indices] = counts.data + _TIE * share[counts.indices]
        return scores
