"""`Interactions`: who touched what, in which order. Every other package works on this type.

`Sequences` are the items of each user in time order, `DatasetStats` the columns of Table 2.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from leporid.data.id_map import IdMap
from leporid.data.k_core import core_counts, with_core_dropped
from leporid.errors import ConfigError, DataError, UnknownNameError
from leporid.kernel import kernel

if TYPE_CHECKING:
    from leporid.data.columns import LoadReport

Duplicates = Literal["first", "sum", "all"]
"""Which events of a (user, item) pair stay: the first in time, the first with the sum of all
weights (each 1 without weights), or every event."""
TAIL_SHARE = 0.25
"""The tail is this share of the users (or items): those with the fewest interactions."""


@dataclass(frozen=True)
class DatasetStats:
    """Size, density and how little of the data the tail holds."""

    users: int
    items: int
    interactions: int
    """Number of events: of distinct (user, item) pairs, unless repeated events were kept."""
    density: float
    """Distinct pairs / (users x items)."""
    tail_user_share: float
    """Share of all interactions that the 25% least active users made."""
    tail_item_share: float
    """Share of all interactions that the 25% least popular items received."""
    repeat_share: float = 0.0
    """Share of all interactions whose user had the item before."""

    def as_dict(self) -> dict[str, int | float]:
        """Plain values, in the order of the paper's table; repeats only where there are any."""
        return {k: v for k, v in asdict(self).items() if k != "repeat_share" or v}


@dataclass(frozen=True)
class Sequences:
    """The items of each user in time order, as one flat array."""

    indptr: NDArray[np.int64]
    """int64[n_users + 1]: the items of user u are `items[indptr[u]:indptr[u + 1]]`."""
    items: NDArray[np.int32]
    """int32[n]: item indices, oldest first within a user."""
    weights: NDArray[np.float32] | None = None
    """float32[n]: how much each event counts; None: all the same."""

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
            return Sequences(self.indptr[users[0] : users[-1] + 2], self.items, self.weights)
        return self._runs(self.indptr[users], np.diff(self.indptr)[users])

    def last(self, n: int) -> Sequences:
        """The newest `n` items of each user (all, where there are fewer), oldest first."""
        lengths = np.minimum(np.diff(self.indptr), n)
        return self._runs(self.indptr[1:] - lengths, lengths)

    def _runs(self, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> Sequences:
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        positions = np.repeat(starts - indptr[:-1], lengths) + np.arange(indptr[-1])
        weights = None if self.weights is None else self.weights[positions]
        return Sequences(indptr, self.items[positions], weights)


@dataclass(frozen=True, eq=False)
class Interactions:
    """Who touched what, sorted by user, then time, then order in the file.

    A (user, item) pair occurs once, unless repeats were asked for (`duplicates="all"`). The order
    is an invariant: `from_arrays` establishes it, every other package relies on it.
    """

    user: NDArray[np.int32]
    """int32[n], ascending."""
    item: NDArray[np.int32]
    """int32[n]."""
    time: NDArray[np.int64] | None
    """int64[n], ascending within a user; None: the order of a user's rows means nothing."""
    users: IdMap
    """External user ids; may name users without interactions (in a part of a split)."""
    items: IdMap
    """External item ids."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """How many rows each policy left out while loading, by reason."""
    source: LoadReport | None = None
    """How the log was read and which columns were guessed; None where it was not loaded."""
    weight: NDArray[np.float32] | None = None
    """float32[n], above 0: how much each event counts; None: all the same."""

    @classmethod
    def from_arrays(
        cls,
        user: NDArray[Any],
        item: NDArray[Any],
        time: NDArray[Any] | None,
        users: IdMap,
        items: IdMap,
        dropped: Mapping[str, int] | None = None,
        *,
        weight: NDArray[Any] | None = None,
        duplicates: Duplicates = "first",
    ) -> Interactions:
        """Sort rows, and treat pairs that occur again as `duplicates` says, counting what goes."""
        if duplicates not in get_args(Duplicates):
            raise UnknownNameError("duplicates", duplicates, get_args(Duplicates))
        user = np.ascontiguousarray(user, dtype=np.int32)
        item = np.ascontiguousarray(item, dtype=np.int32)
        time = None if time is None else np.ascontiguousarray(time, dtype=np.int64)
        weight = None if weight is None else np.ascontiguousarray(weight, dtype=np.float32)
        rows, counts = cls(user, item, time, users, items, weight=weight), dict(dropped or {})
        if not _in_order(user, time):
            keys = (user,) if time is None else (time, user)
            rows = rows.select(np.lexsort(keys))
        if duplicates == "sum":
            # The entry of each event's pair, for the first of them to keep.
            sums = rows.csr(weighted=True)
            summed = np.asarray(sums[rows.user, rows.item], np.float32).ravel()
            rows = replace(rows, weight=summed)
        if duplicates != "all" and rows.repeats:
            key = "duplicate pair" + " (added up)" * (duplicates == "sum")
            counts[key] = counts.get(key, 0) + rows.repeats
            rows = rows.select(rows.is_first)
        return replace(rows, dropped=counts)

    @classmethod
    def joined(cls, *parts: Interactions) -> Interactions:
        """The rows of parts with the same ids, one part after the other, not yet in order."""

        def column(name: str) -> Any:
            rows = [getattr(part, name) for part in parts]
            return None if any(r is None for r in rows) else np.concatenate(rows)

        ids = parts[0].users, parts[0].items
        return cls(column("user"), column("item"), column("time"), *ids, weight=column("weight"))

    def to_stored(self, prefix: str) -> dict[str, NDArray[Any]]:
        """The rows as named arrays for a file; the ids are `IdMap.to_arrays`."""
        columns = {name: getattr(self, name) for name in ("user", "item", "time", "weight")}
        return {f"{prefix}.{name}": rows for name, rows in columns.items() if rows is not None}

    @classmethod
    def from_stored(
        cls, arrays: Mapping[str, NDArray[Any]], prefix: str, users: IdMap, items: IdMap
    ) -> Interactions:
        """The inverse of `to_stored`; what cannot be such rows is a `DataError`."""
        types = {"user": np.int32, "item": np.int32, "time": np.int64, "weight": np.float32}
        user, item, time, weight = columns = [arrays.get(f"{prefix}.{name}") for name in types]
        if user is None or item is None:
            raise DataError(f"the {prefix} interactions are missing")
        for rows, dtype in zip(columns, types.values(), strict=True):
            if rows is not None and (rows.dtype != dtype or rows.shape != (len(user),)):
                raise DataError(f"the {prefix} interactions are not columns of equal length")
        if weight is not None and not (np.isfinite(weight) & (weight > 0)).all():
            raise DataError(f"the {prefix} interactions have weights that are not above 0")
        for rows, ids in ((user, users), (item, items)):
            if len(rows) and (rows.min() < 0 or rows.max() >= len(ids)):
                raise DataError(f"the {prefix} interactions name {ids.kind}s that do not exist")
        if not _in_order(user, time):
            raise DataError(f"the {prefix} interactions are not in order")
        return cls(user, item, time, users, items, weight=weight)

    def __len__(self) -> int:
        return len(self.user)

    def __repr__(self) -> str:
        sides = f"{self.n_users:,} users, {self.n_items:,} items"
        return f"Interactions({len(self):,} interactions, {sides})"

    @property
    def n_users(self) -> int:
        """Number of users in the id map."""
        return len(self.users)

    @property
    def n_items(self) -> int:
        """Number of items in the id map."""
        return len(self.items)

    @cached_property
    def has_order(self) -> bool:
        """Whether times put the interactions of a user in an order.

        False without times, and where most users with two interactions or more have one time
        for all of them.
        """
        if self.time is None:
            return False
        several = np.flatnonzero(np.diff(self._indptr) >= 2)
        first, last = self._indptr[several], self._indptr[several + 1] - 1
        constant = np.count_nonzero(self.time[first] == self.time[last])
        return bool(2 * constant <= len(several))

    @cached_property
    def ticks_per_day(self) -> int | None:
        """How many units of `time` a day has; None without times, or in other units.

        As seconds, milli-, micro- or nanoseconds since 1970, the newest time lies in 1990 to 2100.
        """
        newest = 0 if self.time is None else int(self.time.max(initial=0))
        days = (86_400 * 1000**power for power in range(4))
        return next((n for n in days if 20 * 365 < newest / n < 130 * 366), None)

    @cached_property
    def _indptr(self) -> NDArray[np.int64]:
        counts = np.bincount(self.user, minlength=self.n_users)
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    @cached_property
    def is_first(self) -> NDArray[np.bool_]:
        """bool[n]: False where an earlier event has the same user and item."""
        return self.first_after(self.select(np.arange(0)))

    def first_after(self, known: Interactions) -> NDArray[np.bool_]:
        """bool[n]: `is_first`, where the events of `known` come before all of these."""
        return first_of_pairs(self._indptr, self.item, (known._indptr, known.item), self.n_items)

    @property
    def repeats(self) -> int:
        """Number of events whose user has had the item before."""
        return len(self) - int(np.count_nonzero(self.is_first))

    @property
    def has_weights(self) -> bool:
        """Whether some events count more than others."""
        return self.weight is not None and bool((self.weight != 1).any())

    def csr(self, *, weighted: bool = False) -> sparse.csr_matrix:
        """The binary user x item matrix, float32, column indices sorted within a row.

        With `weighted` an entry is the sum of the weights of the pair's events, each 1 without
        weights. A `csr_matrix`, for packages that take nothing else (implicit).
        """
        small = self._indptr[-1] < np.iinfo(np.int32).max
        indptr = self._indptr.astype(np.int32) if small else self._indptr
        given = self.weight if weighted else None
        data = np.ones(len(self), dtype=np.float32) if given is None else given.copy()
        shape = self.n_users, self.n_items
        matrix = sparse.csr_matrix((data, self.item.copy(), indptr), shape=shape)
        matrix.sum_duplicates()
        if not weighted:
            matrix.data.fill(1.0)
        return matrix

    def sequences(self) -> Sequences:
        """Each user's items in time order (no copy)."""
        return Sequences(self._indptr, self.item, self.weight)

    def to_table(self) -> pa.Table:
        """The rows by external id: user_id, item_id and, where known, timestamp and weight."""
        sides = {"user_id": (self.users, self.user), "item_id": (self.items, self.item)}
        columns = {name: ids.ids.take(pa.array(rows)) for name, (ids, rows) in sides.items()}
        known = {"timestamp": self.time, "weight": self.weight}
        return pa.table(columns | {name: c for name, c in known.items() if c is not None})

    def to_pandas(self) -> Any:
        """`to_table` as a pandas frame, which `leporid.load` reads again."""
        return self.to_table().to_pandas()

    def select(self, rows: NDArray[Any]) -> Interactions:
        """Some of the rows (a mask, or positions in order), sharing the id maps."""
        time, weight = (c if c is None else c[rows] for c in (self.time, self.weight))
        ids = self.users, self.items
        return Interactions(self.user[rows], self.item[rows], time, *ids, weight=weight)

    def core(self, k: int) -> Interactions:
        """Keep users and items with at least `k` interactions, repeated until nothing changes.

        Repeated events of a pair count once, so that the core does not depend on whether they are
        kept. The id maps are compacted to what remains: `.users.dropped` and `.items.dropped` are
        the ids that went, `.dropped` counts the rows. Fewer than half of the users left give a
        `LeporidWarning`, none a `DataError` that says how large `k` may be.
        """
        pairs = self.user[self.is_first], self.item[self.is_first]
        of_user, of_item = core_counts(lambda: [pairs], self.n_users, self.n_items, k)
        inner = self.select((of_user[self.user] > 0) & (of_item[self.item] > 0))
        kept_users, kept_items = np.flatnonzero(of_user), np.flatnonzero(of_item)
        return replace(
            inner,
            user=(np.cumsum(of_user > 0, dtype=np.int32) - 1)[inner.user],
            item=(np.cumsum(of_item > 0, dtype=np.int32) - 1)[inner.item],
            users=self.users.within_core(kept_users, k),
            items=self.items.within_core(kept_items, k),
            dropped=with_core_dropped(self.dropped, len(self) - len(inner), k),
            source=self.source,
        )

    def stats(self) -> DatasetStats:
        """The columns of the paper's Table 2; users and items without interactions are tail."""
        n, cells = len(self), self.n_users * self.n_items
        return DatasetStats(
            users=self.n_users,
            items=self.n_items,
            interactions=n,
            density=(n - self.repeats) / cells if n else 0.0,
            tail_user_share=_tail_share(np.bincount(self.user, minlength=self.n_users)),
            tail_item_share=_tail_share(np.bincount(self.item, minlength=self.n_items)),
            repeat_share=self.repeats / n if n else 0.0,
        )

    @cached_property
    def digest(self) -> str:
        """A hash of everything that can change a result: pairs, order, weights and ids."""
        hasher = hashlib.sha256()
        for array in (self.user, self.item, self.time):
            hasher.update(b"none" if array is None else np.ascontiguousarray(array).tobytes())
        if self.weight is not None:
            hasher.update(b"weight" + np.ascontiguousarray(self.weight).tobytes())
        hasher.update(self.users.digest.encode())
        hasher.update(self.items.digest.encode())
        return hasher.hexdigest()[:16]


def expect(value: Any, kind: type, call: str) -> None:
    """Refuse an argument of `call` that is no `kind`, and say how one is made."""
    if not isinstance(value, kind):
        how = "load(...)" if kind is Interactions else "temporal_split(leporid.load(...))"
        given = f"takes {kind.__name__}, not {type(value).__name__}"
        raise ConfigError(f"{call} {given}: give it leporid.{how}")


def _in_order(user: NDArray[np.int32], time: NDArray[np.int64] | None) -> bool:
    same = user[1:] == user[:-1]
    if time is not None:
        same &= time[1:] >= time[:-1]
    return bool(np.all((user[1:] > user[:-1]) | same))


def _tail_share(counts: NDArray[np.int64]) -> float:
    """The share of the total that the smallest quarter of the counts (rounded down) holds."""
    total = int(counts.sum())
    tail = np.sort(counts)[: int(len(counts) * TAIL_SHARE)]
    return float(tail.sum() / total) if total else 0.0


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
