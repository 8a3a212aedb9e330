"""What the classical models have in common: they score from the training rows of their users."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.data import Interactions, Sequences
from leporid.errors import UnknownIdError
from leporid.models.shared.base import Indices, Learnt, Recommender, Scores
from leporid.models.shared.sparse import canonical, rows_times


class ProfileRecommender(Recommender):
    """A model that reads the training rows X (binary users x items) when it scores.

    The profile of a known user is the training part, as fitted: neither `history` nor the
    validation part is read. `score_histories` takes any profile.
    """

    _rows: sparse.csr_array | None = None

    @property
    def profiles(self) -> sparse.csr_array:
        """float32[n_users, n_items]: X, the binary training rows."""
        self.known  # noqa: B018 (says "not fitted" where it is not)
        return self._if_fitted(self._rows)

    def _remember(self, train: Interactions) -> sparse.csr_array:
        self._rows = canonical(train.csr())
        return self._rows

    def score(self, users: Indices, history: Sequences | None = None) -> Scores:
        """float32[len(users), n_items], from the training rows of these users."""
        return self._score_rows(self.profiles, self._check_users(users))

    def score_histories(self, histories: Sequence[Indices]) -> Scores:
        """float32[len(histories), n_items], from the items of people never seen."""
        n_items = self.known.n_items
        rows = Sequences.from_rows([np.unique(history) for history in histories])
        if len(rows.items) and (rows.items.min() < 0 or rows.items.max() >= n_items):
            raise UnknownIdError(f"a history has an item index outside 0 .. {n_items - 1}")
        ones = np.ones(len(rows.items), dtype=np.float32)
        profiles = sparse.csr_array((ones, rows.items, rows.indptr), shape=(len(rows), n_items))
        return self._score_rows(canonical(profiles), np.arange(len(rows), dtype=np.int32))

    @abc.abstractmethod
    def _score_rows(self, profiles: sparse.csr_array, rows: Indices) -> Scores:
        """float32[len(rows), n_items] for some rows of a binary users x items matrix."""

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        super()._restore(arrays)
        self._remember(self.train)


class ItemWeights(ProfileRecommender):
    """Scores X W: every item of a profile votes for items by its row of W."""

    weights: Learnt[sparse.csr_array] = Learnt()
    """float32[n_items, n_items]: W_ij, what item i of a profile says for item j."""

    def _score_rows(self, profiles: sparse.csr_array, rows: Indices) -> Scores:
        return rows_times(profiles, rows, self.weights)
