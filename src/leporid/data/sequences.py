"""`Sequences`: the items of each user in time order, and which of them are the first of a pair."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.data.arrays import AnyArray, Mask, rows_of
from leporid.foundation import kernel


@dataclass(frozen=True)
class Sequences:
    """The items of each user in time order, as one flat array."""

    indptr: NDArray[np.int64]
    """int64[n_users + 1]: the items of user u are `items[indptr[u]:indptr[u + 1]]`."""
    items: NDArray[np.int32]
    """int32[n]: item indices, oldest first within a user."""
    weights: NDArray[np.float32] | None = None
    """float32[n]: how much each event counts; None: all the same."""
    is_target: Mask | None = None
    """bool[n]: which events are targets; None: all of them."""

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @classmethod
    def from_rows(cls, rows: Sequence[NDArray[np.int32]]) -> Self:
        """Make one sequence of each array of `rows`."""
        indptr = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum([len(row) for row in rows], out=indptr[1:])
        items = np.concatenate(rows) if len(rows) else np.empty(0, dtype=np.int32)
        return cls(indptr, items.astype(np.int32, copy=False))

    def of(self, user: int) -> NDArray[np.int32]:
        """Return the items of one user, oldest first."""
        return self.items[self.indptr[user] : self.indptr[user + 1]]

    def take(self, users: AnyArray) -> Self:
        """Return the sequences of these users, in this order; consecutive ones share the memory."""
        users = np.asarray(users)
        if len(users):
            consecutive = np.arange(users[0], users[0] + len(users))
            if np.array_equal(users, consecutive):
                return replace(self, indptr=self.indptr[users[0] : users[-1] + 2])
        return self._runs(self.indptr[users], np.diff(self.indptr)[users])

    def last(self, n: int) -> Self:
        """Return the newest `n` items of each user (all, where there are fewer), oldest first."""
        lengths = np.minimum(np.diff(self.indptr), n)
        return self._runs(self.indptr[1:] - lengths, lengths)

    def csr(
        self,
        n_items: int,
        weights: NDArray[np.float32] | None = None,
    ) -> sparse.csr_array:
        """Return float32[len(self), n_items]: per user a row of ones, or of `weights` per event."""
        first = self.indptr[0]
        last = self.indptr[-1]
        items = self.items[first:last].copy()
        values = np.ones(len(items), np.float32)
        if weights is not None:
            values = weights[first:last].copy()
        rows = values, items, self.indptr - first
        return sparse.csr_array(rows, shape=(len(self), n_items))

    def decayed_counts(
        self,
        n_items: int,
        half_life: float = 100.0,
    ) -> sparse.csr_array:
        """Return float32[len(self), n_items]: the sum of 2^(-age / half_life) over interactions.

        Each counts with its weight. The age is the number of the user's interactions after it.
        """
        rows = self.csr(n_items, self.weights)
        ends = np.repeat(rows.indptr[1:], np.diff(rows.indptr))
        age = ends - 1 - np.arange(rows.nnz)
        rows.data *= np.exp2(-age / half_life)
        rows.sum_duplicates()
        return rows

    def target_events(self) -> Self:
        """Return the items of target events alone."""
        if self.is_target is None:
            return self
        targets_before = np.concatenate([[0], np.cumsum(self.is_target)])
        return type(self)(
            targets_before[self.indptr],
            self.items[self.is_target],
            rows_of(self.weights, self.is_target),
        )

    def _runs(
        self,
        starts: NDArray[np.int64],
        lengths: NDArray[np.int64],
    ) -> Self:
        """Return one sequence per run of events, each a start and a length."""
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        offsets = np.repeat(starts - indptr[:-1], lengths)
        positions = offsets + np.arange(indptr[-1])
        return type(self)(
            indptr,
            self.items[positions],
            rows_of(self.weights, positions),
            rows_of(self.is_target, positions),
        )


@kernel
def first_of_pairs(
    indptr: AnyArray,
    items: AnyArray,
    known: tuple[AnyArray, AnyArray],
    n_items: int,
) -> Mask:
    """Return bool[n]: False where the user has the item from an earlier event, or in `known`.

    `known` is (indptr, items) of events before all of these.
    """
    known_indptr, known_items = known
    first = np.zeros(len(items), np.bool_)
    seen_by = np.full(n_items, -1, np.int64)
    for user in range(len(indptr) - 1):
        for position in range(known_indptr[user], known_indptr[user + 1]):
            seen_by[known_items[position]] = user
        for position in range(indptr[user], indptr[user + 1]):
            first[position] = seen_by[items[position]] != user
            seen_by[items[position]] = user
    return first
