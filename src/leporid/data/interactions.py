"""`Interactions`: which user interacted with which item, in order.

Every other package works on this type.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Self, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from leporid.data.arrays import AnyArray, Mask, rows_of
from leporid.data.columns import LoadReport
from leporid.data.id_map import IdMap
from leporid.data.k_core import core_counts, with_core_dropped
from leporid.data.sequences import Sequences, first_of_pairs
from leporid.errors import DataError, UnknownNameError
from leporid.foundation import checks_arguments

Duplicates = Literal["first", "sum", "all"]
"""Which events of a (user, item) pair stay: the first in time, the first with the sum of all
weights (each 1 without weights), or every event."""
_STORED = {
    "user": np.int32,
    "item": np.int32,
    "time": np.int64,
    "weight": np.float32,
    "is_target": np.bool_,
}
"""The columns and their types."""


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
    """Share of target events whose user had a target event of the item before."""

    def as_dict(self) -> dict[str, int | float]:
        """Return plain values in the order of the paper's table; repeats where there are any."""
        values = asdict(self)
        if not self.repeat_share:
            del values["repeat_share"]
        return values


@dataclass(frozen=True, eq=False)
class Interactions:
    """User-item interactions, sorted by user, then time, then order in the file.

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
    is_target: Mask | None = None
    """bool[n]: which events are targets; None: all of them. The others are history alone."""
    disliked: Self | None = None
    """Negative events, with the same id maps. They are no rows of these: no profile holds them."""

    @classmethod
    def from_arrays(  # noqa: PLR0913 (options are spelled out)
        cls,
        user: AnyArray,
        item: AnyArray,
        time: AnyArray | None,
        users: IdMap,
        items: IdMap,
        dropped: Mapping[str, int] | None = None,
        *,
        weight: AnyArray | None = None,
        is_target: Mask | None = None,
        disliked: Self | None = None,
        duplicates: Duplicates = "first",
    ) -> Self:
        """Sort rows, and treat pairs that occur again as `duplicates` says, counting what goes.

        Target events of a pair and its other events are not duplicates of each other.
        """
        rows = cls(
            np.ascontiguousarray(user, np.int32),
            np.ascontiguousarray(item, np.int32),
            None if time is None else np.ascontiguousarray(time, np.int64),
            users,
            items,
            dropped or {},
            weight=None if weight is None else np.ascontiguousarray(weight, np.float32),
            is_target=is_target,
            disliked=disliked,
        )
        return rows.in_order(duplicates)

    def in_order(self, duplicates: Duplicates = "first") -> Self:
        """Sort rows that are in another order, and treat repeated pairs as in `from_arrays`."""
        if duplicates not in get_args(Duplicates):
            raise UnknownNameError("duplicates", duplicates, get_args(Duplicates))
        if self.is_target is not None and duplicates != "all":
            # Each item counts as two: one of target events, one of the others.
            twice = replace(
                self,
                item=2 * self.item + self.is_target,
                items=IdMap.range(2 * self.n_items, "item"),
                is_target=None,
            )
            rows = twice.in_order(duplicates)
            is_target = rows.item % 2 == 1
            return replace(
                rows, item=rows.item // 2, items=self.items, is_target=is_target
            )
        rows = self
        if not _is_in_order(rows.user, rows.time):
            keys = (rows.user,) if rows.time is None else (rows.time, rows.user)
            rows = rows.select(np.lexsort(keys))
        if duplicates == "sum":
            # The entry of each event's pair, for the first of them to keep.
            sums = rows.csr(weighted=True)
            weights = np.asarray(sums[rows.user, rows.item], np.float32).ravel()
            rows = replace(rows, weight=weights)
        counts = dict(self.dropped)
        if duplicates != "all" and rows.repeats:
            reason = "duplicate pair"
            if duplicates == "sum":
                reason = "duplicate pair (added up)"
            counts[reason] = counts.get(reason, 0) + rows.repeats
            rows = rows.select(rows.is_first)
        return replace(rows, dropped=counts)

    @classmethod
    def joined(cls, *parts: Self) -> Self:
        """Join the rows of parts with the same ids, one part after the other, not yet in order.

        Negative events are put in order, the first of each pair.
        """
        is_target = None
        if any(part.is_target is not None for part in parts):
            is_target = np.concatenate([part._target_mask for part in parts])
        disliked = None
        negative_parts = [part.disliked for part in parts if part.disliked is not None]
        if negative_parts:
            disliked = cls.joined(*negative_parts).in_order()
        return cls(
            np.concatenate([part.user for part in parts]),
            np.concatenate([part.item for part in parts]),
            _concatenated([part.time for part in parts]),
            parts[0].users,
            parts[0].items,
            weight=_concatenated([part.weight for part in parts]),
            is_target=is_target,
            disliked=disliked,
        )

    @property
    def _target_mask(self) -> Mask:
        """bool[n]: which events are targets."""
        return np.ones(len(self), bool) if self.is_target is None else self.is_target

    def to_stored(self, prefix: str) -> dict[str, AnyArray]:
        """Return the rows as named arrays for a file; the ids are `IdMap.to_arrays`."""
        columns = {
            "user": self.user,
            "item": self.item,
            "time": self.time,
            "weight": self.weight,
            "is_target": self.is_target,
        }
        stored = {
            f"{prefix}.{name}": rows
            for name, rows in columns.items()
            if rows is not None
        }
        if self.disliked:
            stored |= self.disliked.to_stored(f"{prefix}.disliked")
        return stored

    @classmethod
    def from_stored(
        cls,
        arrays: Mapping[str, AnyArray],
        prefix: str,
        users: IdMap,
        items: IdMap,
    ) -> Self:
        """Read what `to_stored` wrote; what cannot be such rows is a `DataError`."""
        columns = {name: arrays.get(f"{prefix}.{name}") for name in _STORED}
        user = columns["user"]
        item = columns["item"]
        weight = columns["weight"]
        if user is None or item is None:
            raise DataError(f"the {prefix} interactions are missing")
        for name, rows in columns.items():
            if rows is None:
                continue
            if rows.dtype != _STORED[name] or rows.shape != (len(user),):
                raise DataError(
                    f"the {prefix} interactions are not columns of equal length"
                )
        if weight is not None and not (np.isfinite(weight) & (weight > 0)).all():
            raise DataError(
                f"the {prefix} interactions have weights that are not above 0"
            )
        for indices, ids in ((user, users), (item, items)):
            if len(indices) and (indices.min() < 0 or indices.max() >= len(ids)):
                raise DataError(
                    f"the {prefix} interactions name {ids.kind}s that do not exist"
                )
        if not _is_in_order(user, columns["time"]):
            raise DataError(f"the {prefix} interactions are not in order")
        disliked = None
        if f"{prefix}.disliked.user" in arrays:
            disliked = cls.from_stored(arrays, f"{prefix}.disliked", users, items)
        return cls(
            user,
            item,
            columns["time"],
            users,
            items,
            weight=weight,
            is_target=columns["is_target"],
            disliked=disliked,
        )

    def __len__(self) -> int:
        return len(self.user)

    def __repr__(self) -> str:
        size = f"{len(self):,} interactions"
        if self.is_target is not None:
            size += f" ({np.count_nonzero(self.is_target):,} target events)"
        size += f", {self.n_users:,} users, {self.n_items:,} items"
        if self.disliked:
            size += f", {len(self.disliked):,} disliked"
        return f"Interactions({size})"

    @property
    def n_users(self) -> int:
        return len(self.users)

    @property
    def n_items(self) -> int:
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
        first = self._indptr[several]
        last = self._indptr[several + 1] - 1
        constant = np.count_nonzero(self.time[first] == self.time[last])
        return bool(2 * constant <= len(several))

    @cached_property
    def ticks_per_day(self) -> int | None:
        """How many units of `time` a day has; None without times, or in other units.

        The unit is the one of seconds, milli-, micro- and nanoseconds since 1970 in which the
        newest time lies between 1990 and 2100.
        """
        newest = 0 if self.time is None else int(self.time.max(initial=0))
        for power in range(4):
            ticks: int = 86_400 * 1000**power
            if 20 * 365 < newest / ticks < 130 * 366:
                return ticks
        return None

    @cached_property
    def _indptr(self) -> NDArray[np.int64]:
        counts = np.bincount(self.user, minlength=self.n_users)
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    @cached_property
    def popularity(self) -> NDArray[np.int32]:
        """int32[n_items]: the events of each item."""
        return np.bincount(self.item, minlength=self.n_items).astype(np.int32)

    @cached_property
    def is_first(self) -> Mask:
        """bool[n]: False where an earlier event has the same user and item."""
        return self.first_after(self.select(np.arange(0)))

    def first_after(self, known: Self) -> Mask:
        """Return `is_first` (bool[n]) where the events of `known` come before all of these."""
        before = known._indptr, known.item
        return first_of_pairs(self._indptr, self.item, before, self.n_items)

    @cached_property
    def target_events(self) -> Self:
        """The events that are targets, where `is_target` marks them; else all."""
        return self if self.is_target is None else self.select(self.is_target)

    def excluded_items(self, include_seen: bool = False) -> Sequences:
        """Return the items that no list may show: disliked ones, and those of target events.

        With `include_seen` lists may show items of target events. Items that a user has only viewed
        may always be recommended.
        """
        return self._excluded_items[include_seen]

    @cached_property
    def _excluded_items(self) -> tuple[Sequences, Sequences]:
        nothing = self.select(np.arange(0))
        if not self.disliked:
            return self.sequences().target_events(), nothing.sequences()
        user = np.concatenate([self.target_events.user, self.disliked.user])
        item = np.concatenate([self.target_events.item, self.disliked.item])
        order = np.argsort(user, kind="stable")
        excluded = replace(
            nothing,
            user=user[order],
            item=item[order],
            time=None,
            weight=None,
            is_target=None,
        )
        return excluded.sequences(), self.disliked.sequences()

    @property
    def repeats(self) -> int:
        """Number of target events whose user has had one of the item before."""
        return len(self.target_events) - int(
            np.count_nonzero(self.target_events.is_first)
        )

    @property
    def has_weights(self) -> bool:
        """Whether some events count more than others."""
        return self.weight is not None and bool((self.weight != 1).any())

    def csr(self, *, weighted: bool = False) -> sparse.csr_matrix:
        """Return the binary user x item matrix, float32, column indices sorted within a row.

        With `weighted` an entry is the sum of the weights of the pair's events, each 1 without
        weights. A `csr_matrix`, for packages that take nothing else (implicit).
        """
        indptr: AnyArray = self._indptr
        if indptr[-1] < np.iinfo(np.int32).max:
            indptr = indptr.astype(np.int32)
        if weighted and self.weight is not None:
            data = self.weight.copy()
        else:
            data = np.ones(len(self), dtype=np.float32)
        shape = self.n_users, self.n_items
        matrix = sparse.csr_matrix((data, self.item.copy(), indptr), shape=shape)
        matrix.sum_duplicates()
        if not weighted:
            matrix.data.fill(1.0)
        return matrix

    def sequences(self) -> Sequences:
        """Return each user's items in time order (no copy)."""
        return Sequences(self._indptr, self.item, self.weight, self.is_target)

    def to_table(self) -> pa.Table:
        """Return the rows by external id: user_id, item_id and, where known, timestamp and weight.

        Where target events are marked, or something is disliked, a column `event` says so: target,
        other or disliked.
        """
        columns = {
            "user_id": self.users.ids.take(pa.array(self.user)),
            "item_id": self.items.ids.take(pa.array(self.item)),
        }
        if self.time is not None:
            columns["timestamp"] = self.time
        if self.weight is not None:
            columns["weight"] = self.weight
        if self.is_target is not None or self.disliked is not None:
            columns["event"] = np.where(self._target_mask, "target", "other").tolist()
        table = pa.table(columns)
        if self.disliked is None:
            return table
        negative = self.disliked.to_table()
        kind = pa.array(["disliked"] * len(negative), pa.string())
        negative = negative.append_column("event", kind)
        return pa.concat_tables([table, negative], promote_options="default")

    def to_pandas(self) -> Any:
        """Return `to_table` as a pandas frame, which `leporid.load` reads again."""
        return self.to_table().to_pandas()

    def select(self, rows: AnyArray) -> Self:
        """Return some of the rows (a mask, or positions in order), with all that is disliked."""
        return type(self)(
            self.user[rows],
            self.item[rows],
            rows_of(self.time, rows),
            self.users,
            self.items,
            weight=rows_of(self.weight, rows),
            is_target=rows_of(self.is_target, rows),
            disliked=self.disliked,
        )

    def renumbered(
        self,
        user_of: AnyArray,
        item_of: AnyArray,
        users: IdMap,
        items: IdMap,
    ) -> Self:
        """Return the same rows with other id maps.

        `user_of` and `item_of` are the new index of each old one.
        """
        disliked = self.disliked
        if disliked is not None:
            disliked = disliked.renumbered(user_of, item_of, users, items)
        return replace(
            self,
            user=user_of[self.user].astype(np.int32),
            item=item_of[self.item].astype(np.int32),
            users=users,
            items=items,
            disliked=disliked,
        )

    @checks_arguments()
    def core(self, k: int) -> Self:
        """Keep users and items with at least `k` interactions, repeated until nothing changes.

        Repeated events of a pair count once, so that the core does not depend on whether they are
        kept. The id maps are compacted to what remains: `.users.dropped` and `.items.dropped` are
        the ids that went, `.dropped` counts the rows. Fewer than half of the users left give a
        `LeporidWarning`, none a `DataError` that says how large `k` may be.
        """
        pairs = self.user[self.is_first], self.item[self.is_first]
        of_user, of_item = core_counts(lambda: [pairs], self.n_users, self.n_items, k)

        def inside(rows: Self) -> Self:
            return rows.select((of_user[rows.user] > 0) & (of_item[rows.item] > 0))

        inner = inside(self)
        lost = len(self) - len(inner)
        if self.disliked:
            negative = inside(self.disliked)
            lost += len(self.disliked) - len(negative)
            inner = replace(inner, disliked=negative)
        compact = inner.renumbered(
            np.cumsum(of_user > 0) - 1,
            np.cumsum(of_item > 0) - 1,
            self.users.within_core(np.flatnonzero(of_user), k),
            self.items.within_core(np.flatnonzero(of_item), k),
        )
        dropped = with_core_dropped(self.dropped, lost, k)
        return replace(compact, dropped=dropped, source=self.source)

    def stats(self) -> DatasetStats:
        """Return the columns of the paper's Table 2.

        Users and items without interactions belong to the tail.
        """
        distinct = int(np.count_nonzero(self.is_first))
        return DatasetStats(
            users=self.n_users,
            items=self.n_items,
            interactions=len(self),
            density=distinct / max(self.n_users * self.n_items, 1),
            tail_user_share=_tail_share(self.user, self.n_users),
            tail_item_share=_tail_share(self.item, self.n_items),
            repeat_share=self.repeats / max(len(self.target_events), 1),
        )

    @cached_property
    def digest(self) -> str:
        """A hash of everything that can change a result: pairs, order, weights, targets and ids."""
        hasher = hashlib.sha256()
        for array in (self.user, self.item, self.time):
            rows = b"none" if array is None else np.ascontiguousarray(array).tobytes()
            hasher.update(rows)
        if self.weight is not None:
            hasher.update(b"weight" + np.ascontiguousarray(self.weight).tobytes())
        if self.is_target is not None:
            hasher.update(b"target" + np.ascontiguousarray(self.is_target).tobytes())
        if self.disliked:
            hasher.update(b"disliked" + self.disliked.digest.encode())
        hasher.update(self.users.digest.encode())
        hasher.update(self.items.digest.encode())
        return hasher.hexdigest()[:16]


def _concatenated(columns: Sequence[AnyArray | None]) -> AnyArray | None:
    """Return the columns one after the other; None where one of them is missing."""
    known = [column for column in columns if column is not None]
    return np.concatenate(known) if len(known) == len(columns) else None


def _tail_share(index: NDArray[np.int32], size: int) -> float:
    """Return the share of the rows that belong to the quarter with the fewest rows."""
    counts = np.sort(np.bincount(index, minlength=size))
    return float(counts[: size // 4].sum() / max(len(index), 1))


def _is_in_order(user: NDArray[np.int32], time: NDArray[np.int64] | None) -> bool:
    same = user[1:] == user[:-1]
    if time is not None:
        same &= time[1:] >= time[:-1]
    return bool(np.all((user[1:] > user[:-1]) | same))
