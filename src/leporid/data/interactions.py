"""`Interactions`: who touched what, in which order. The type every other room starts from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.data.id_map import IdMap

if TYPE_CHECKING:
    from leporid.data.columns import LoadReport
    from leporid.data.stats import DatasetStats

__all__ = ["Interactions", "Sequences"]


@dataclass(frozen=True)
class Sequences:
    """Each user's items in time order, as one flat array."""

    indptr: NDArray[np.int64]
    """int64[n_users + 1]: the items of user u are `items[indptr[u]:indptr[u + 1]]`."""
    items: NDArray[np.int32]
    """int32[n]: item indices, oldest first within a user."""

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @classmethod
    def from_rows(cls, rows: Sequence[NDArray[np.int32]]) -> Sequences:
        """One sequence per array of `rows`."""
        indptr = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum([len(row) for row in rows], out=indptr[1:])
        items = np.concatenate(rows) if len(rows) else np.empty(0, dtype=np.int32)
        return cls(indptr, items.astype(np.int32, copy=False))

    def of(self, user: int) -> NDArray[np.int32]:
        """The items of one user, oldest first."""
        return self.items[self.indptr[user] : self.indptr[user + 1]]

    def take(self, users: NDArray[Any]) -> Sequences:
        """The sequences of these users, in this order; consecutive users share the memory."""
        users = np.asarray(users)
        if len(users) and np.array_equal(users, np.arange(users[0], users[0] + len(users))):
            return Sequences(self.indptr[users[0] : users[-1] + 2], self.items)
        lengths = np.diff(self.indptr)[users]
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        shift = np.repeat(self.indptr[users] - indptr[:-1], lengths)
        return Sequences(indptr, self.items[shift + np.arange(indptr[-1])])


@dataclass(frozen=True, eq=False)
class Interactions:
    """Distinct (user, item) pairs, sorted by user, then time, then order in the file.

    The order is an invariant: constructors in this room establish it (`from_arrays`), every
    other room relies on it.
    """

    user: NDArray[np.int32]
    """int32[n], ascending."""
    item: NDArray[np.int32]
    """int32[n]."""
    time: NDArray[np.int64] | None
    """int64[n], ascending within a user; None where the source had no times."""
    users: IdMap
    """External user ids; may name users without interactions (in a part of a split)."""
    items: IdMap
    """External item ids."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """How many rows each policy left out while loading, by reason."""
    source: LoadReport | None = None
    """How the log was read and which columns were guessed; None where it was not loaded."""

    @classmethod
    def from_arrays(
        cls,
        user: NDArray[Any],
        item: NDArray[Any],
        time: NDArray[Any] | None,
        users: IdMap,
        items: IdMap,
        dropped: Mapping[str, int] | None = None,
    ) -> Interactions:
        """Sort rows, and keep the first in time of every (user, item) pair, counting the rest."""
        user = np.ascontiguousarray(user, dtype=np.int32)
        item = np.ascontiguousarray(item, dtype=np.int32)
        counts = dict(dropped or {})
        if time is not None:
            time = np.ascontiguousarray(time, dtype=np.int64)
        if not _in_order(user, time):
            order = _by_user_and_time(user, time, len(users))
            user, item = user[order], item[order]
            time = time[order] if time is not None else None
        first = _first_of_pairs(user, item, len(users), len(items))
        if len(first) < len(user):
            counts["duplicate pair"] = counts.get("duplicate pair", 0) + len(user) - len(first)
            user, item = user[first], item[first]
            time = time[first] if time is not None else None
        return cls(user, item, time, users, items, counts)

    def __len__(self) -> int:
        return len(self.user)

    def __repr__(self) -> str:
        return (
            f"Interactions({len(self):,} interactions, {self.n_users:,} users, "
            f"{self.n_items:,} items)"
        )

    @property
    def n_users(self) -> int:
        """Number of users in the id map."""
        return len(self.users)

    @property
    def n_items(self) -> int:
        """Number of items in the id map."""
        return len(self.items)

    @cached_property
    def _indptr(self) -> NDArray[np.int64]:
        counts = np.bincount(self.user, minlength=self.n_users)
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    def csr(self) -> sparse.csr_array:
        """The binary user x item matrix, float32, column indices sorted within a row."""
        data = np.ones(len(self), dtype=np.float32)
        indptr = self._indptr
        if indptr[-1] < np.iinfo(np.int32).max:
            indptr = indptr.astype(np.int32)
        matrix = sparse.csr_array(
            (data, self.item.copy(), indptr), shape=(self.n_users, self.n_items)
        )
        matrix.sort_indices()
        return matrix

    def sequences(self) -> Sequences:
        """Each user's items in time order (no copy)."""
        return Sequences(self._indptr, self.item)

    def select(self, rows: NDArray[Any]) -> Interactions:
        """A part of the rows (mask or ascending positions), sharing the id maps."""
        return Interactions(
            self.user[rows],
            self.item[rows],
            None if self.time is None else self.time[rows],
            self.users,
            self.items,
        )

    def core(self, k: int) -> Interactions:
        """Only users and items with at least `k` interactions, repeated until stable."""
        from leporid.data.core_filter import core_filter

        return core_filter(self, k)

    def stats(self) -> DatasetStats:
        """The columns of the paper's Table 1."""
        from leporid.data.stats import dataset_stats

        return dataset_stats(self)

    @cached_property
    def digest(self) -> str:
        """A hash of everything that can change a result: pairs, order and ids."""
        hasher = hashlib.sha256()
        for array in (self.user, self.item, self.time):
            hasher.update(b"none" if array is None else np.ascontiguousarray(array).tobytes())
        hasher.update(self.users.digest.encode())
        hasher.update(self.items.digest.encode())
        return hasher.hexdigest()[:16]


def _in_order(user: NDArray[np.int32], time: NDArray[np.int64] | None) -> bool:
    ascending = user[1:] > user[:-1]
    if time is None:
        return bool(np.all(ascending | (user[1:] == user[:-1])))
    return bool(np.all(ascending | ((user[1:] == user[:-1]) & (time[1:] >= time[:-1]))))


def _by_user_and_time(
    user: NDArray[np.int32], time: NDArray[np.int64] | None, n_users: int
) -> NDArray[np.int64]:
    """The stable order by user, then time: a sort by time, then a counting sort by user."""
    n = len(user)
    by_time = None if time is None else _stable_order(time)
    keys = user if by_time is None else user[by_time]
    # One entry a column: turning columns into rows is a stable counting sort, linear and in C.
    columns = sparse.csc_array(
        (np.ones(n, dtype=np.int8), keys, np.arange(n + 1)), shape=(n_users, n)
    )
    by_user = columns.tocsr().indices
    return np.asarray(by_user if by_time is None else by_time[by_user])


def _stable_order(time: NDArray[np.int64]) -> NDArray[np.int64]:
    """`argsort(time, kind="stable")`, much faster where time and place fit into one integer."""
    n = len(time)
    span = int(time.max()) - int(time.min()) if n else 0
    if (span + 1) * n >= 2**63:
        return np.argsort(time, kind="stable")
    keys: NDArray[np.int64] = (time - time.min()) * n + np.arange(n)
    keys.sort()
    keys %= n
    return keys


def _first_of_pairs(
    user: NDArray[np.int32], item: NDArray[np.int32], n_users: int, n_items: int
) -> NDArray[np.int64]:
    """Ascending positions of the first row of every (user, item) pair; `user` is sorted."""
    n = len(user)
    if n == 0:
        return np.arange(0)
    indptr = np.searchsorted(user, np.arange(n_users + 1))
    rows = sparse.csr_array((np.arange(n), item.copy(), indptr), shape=(n_users, n_items))
    rows.sort_indices()
    begins = np.ones(n, dtype=bool)
    begins[1:] = (rows.indices[1:] != rows.indices[:-1]) | (user[1:] != user[:-1])
    if begins.all():
        return np.arange(n)
    return np.sort(np.minimum.reduceat(rows.data, np.flatnonzero(begins)))
