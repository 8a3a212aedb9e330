"""`Sequences`: the items of each user in time order, and which of them are the first of a pair."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.kernel import kernel


@dataclass(frozen=True)
class Sequences:
    """The items of each user in time order, as one flat array."""

    indptr: NDArray[np.int64]
    """int64[n_users + 1]: the items of user u are `items[indptr[u]:indptr[u + 1]]`."""
    items: NDArray[np.int32]
    """int32[n]: item indices, oldest first within a user."""
    weights: NDArray[np.float32] | None = None
    """float32[n]: how much each event counts; None: all the same."""
    goal: NDArray[np.bool_] | None = None
    """bool[n]: which events are of a goal; None: all of them."""

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @classmethod
    def from_rows(cls, rows: Sequence[NDArray[np.int32]]) -> Self:
        """One sequence per array of `rows`."""
        indptr = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum([len(row) for row in rows], out=indptr[1:])
        items = np.concatenate(rows) if len(rows) else np.empty(0, dtype=np.int32)
        return cls(indptr, items.astype(np.int32, copy=False))

    def of(self, user: int) -> NDArray[np.int32]:
        """The items of one user, oldest first."""
        return self.items[self.indptr[user] : self.indptr[user + 1]]

    def take(self, users: NDArray[Any]) -> Self:
        """The sequences of these users, in this order; consecutive users share the memory."""
        users = np.asarray(users)
        if len(users) and np.array_equal(
            users, np.arange(users[0], users[0] + len(users))
        ):
            return replace(self, indptr=self.indptr[users[0] : users[-1] + 2])
        return self._runs(self.indptr[users], np.diff(self.indptr)[users])

    def last(self, n: int) -> Self:
        """The newest `n` items of each user (all, where there are fewer), oldest first."""
        lengths = np.minimum(np.diff(self.indptr), n)
        return self._runs(self.indptr[1:] - lengths, lengths)

    def csr(
        self, n_items: int, weights: NDArray[np.float32] | None = None
    ) -> sparse.csr_array:
        """float32[len(self), n_items]: a row per user, of ones or of `weights` per event."""
        first, last = self.indptr[[0, -1]]
        items = self.items[first:last].copy()
        values = (
            np.ones(len(items), np.float32)
            if weights is None
            else weights[first:last].copy()
        )
        return sparse.csr_array(
            (values, items, self.indptr - first), shape=(len(self), n_items)
        )

    def decayed_counts(
        self, n_items: int, half_life: float = 100.0
    ) -> sparse.csr_array:
        """float32[len(self), n_items]: the sum of 2^(-age / half_life) over a user's interactions.

        Each counts with its weight. The age is the number of the user's interactions after it.
        """
        rows = self.csr(n_items, self.weights)
        age = np.repeat(rows.indptr[1:], np.diff(rows.indptr)) - 1 - np.arange(rows.nnz)
        rows.data *= np.exp2(-age / half_life)
        rows.sum_duplicates()
        return rows

    def goals(self) -> Self:
        """The items of goal events alone."""
        if self.goal is None:
            return self
        before = np.concatenate([[0], np.cumsum(self.goal)])
        weights = None if self.weights is None else self.weights[self.goal]
        return type(self)(before[self.indptr], self.items[self.goal], weights)

    def _runs(self, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> Self:
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        positions = np.repeat(starts - indptr[:-1], lengths) + np.arange(indptr[-1])
        weights, goal = (
            c if c is None else c[positions] for c in (self.weights, self.goal)
        )
        return type(self)(indptr, self.items[positions], weights, goal)


@kernel
def first_of_pairs(
    indptr: NDArray[Any], items: NDArray[Any], known: Any, n_items: int
) -> NDArray[np.bool_]:
    """bool[n]: False where the user has the item from an earlier event, or in `known`.

    `known` is (indptr, items) of events before all of these.
    """
    first = np.zeros(len(items), np.bool_)
    seen_by = np.full(n_items, -1, np.int64)
    for user in range(len(indptr) - 1):
        for position in range(known[0][user], known[0][user + 1]):
            seen_by[known[1][position]] = user
        for position in range(indptr[user], indptr[user + 1]):
            first[position] = seen_by[items[position]] != user
            seen_by[items[position]] = user
    return first
