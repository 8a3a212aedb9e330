"""`Interactions`: who touched what, in which order. Every other package works on this type."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Self, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from leporid.arguments import checks_arguments
from leporid.data.columns import LoadReport
from leporid.data.id_map import IdMap
from leporid.data.k_core import core_counts, with_core_dropped
from leporid.data.sequences import Sequences, first_of_pairs
from leporid.errors import DataError, UnknownNameError

Duplicates = Literal["first", "sum", "all"]
"""Which events of a (user, item) pair stay: the first in time, the first with the sum of all
weights (each 1 without weights), or every event."""
_STORED = {
    "user": np.int32, "item": np.int32, "time": np.int64, "weight": np.float32, "goal": np.bool_,
}  # fmt: skip
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
    """Share of all interactions whose user had the item before (where there is a goal: that)."""

    def as_dict(self) -> dict[str, int | float]:
        """Plain values, in the order of the paper's table; repeats only where there are any."""
        return {k: v for k, v in asdict(self).items() if k != "repeat_share" or v}


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
    goal: NDArray[np.bool_] | None = None
    """bool[n]: which events are targets; None: all of them. The others are history alone."""
    disliked: Self | None = None
    """Negative events, with the same id maps. They are no rows of these: no profile holds them."""

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
        goal: NDArray[np.bool_] | None = None,
        disliked: Self | None = None,
        duplicates: Duplicates = "first",
    ) -> Self:
        """Sort rows, and treat pairs that occur again as `duplicates` says, counting what goes.

        Goal events of a pair and its other events are not duplicates of each other.
        """
        if duplicates not in get_args(Duplicates):
            raise UnknownNameError("duplicates", duplicates, get_args(Duplicates))
        if goal is not None and duplicates != "all":
            # As if an item were two: one of goal events, one of the others.
            item, twice = (
                2 * np.asarray(item) + goal,
                IdMap.range(2 * len(items), "item"),
            )
            how: Any = {
                "weight": weight,
                "disliked": disliked,
                "duplicates": duplicates,
            }
            rows = cls.from_arrays(user, item, time, users, twice, dropped, **how)
            return replace(
                rows, item=rows.item // 2, items=items, goal=rows.item % 2 == 1
            )
        user = np.ascontiguousarray(user, dtype=np.int32)
        item = np.ascontiguousarray(item, dtype=np.int32)
        time = None if time is None else np.ascontiguousarray(time, dtype=np.int64)
        weight = (
            None if weight is None else np.ascontiguousarray(weight, dtype=np.float32)
        )
        rest: Any = {"weight": weight, "goal": goal, "disliked": disliked}
        rows, counts = cls(user, item, time, users, items, **rest), dict(dropped or {})
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
    def joined(cls, *parts: Self) -> Self:
        """The rows of parts with the same ids, one part after the other, not yet in order.

        Of their negative events the first of each pair, in order.
        """

        def column(name: str) -> Any:
            rows = [getattr(part, name) for part in parts]
            return None if any(r is None for r in rows) else np.concatenate(rows)

        columns = (
            column("user"),
            column("item"),
            column("time"),
            parts[0].users,
            parts[0].items,
        )
        goal = disliked = None
        if any(part.goal is not None for part in parts):
            every = (np.ones(len(p), bool) if p.goal is None else p.goal for p in parts)
            goal = np.concatenate([*every])
        if negative := [part.disliked for part in parts if part.disliked is not None]:
            both = cls.joined(*negative)
            ids = both.users, both.items
            disliked = cls.from_arrays(
                both.user, both.item, both.time, *ids, weight=both.weight
            )
        return cls(*columns, weight=column("weight"), goal=goal, disliked=disliked)

    def to_stored(self, prefix: str) -> dict[str, NDArray[Any]]:
        """The rows as named arrays for a file; the ids are `IdMap.to_arrays`."""
        columns = {name: getattr(self, name) for name in _STORED}
        stored = {
            f"{prefix}.{name}": rows
            for name, rows in columns.items()
            if rows is not None
        }
        return stored | (
            self.disliked.to_stored(f"{prefix}.disliked") if self.disliked else {}
        )

    @classmethod
    def from_stored(
        cls, arrays: Mapping[str, NDArray[Any]], prefix: str, users: IdMap, items: IdMap
    ) -> Self:
        """The inverse of `to_stored`; what cannot be such rows is a `DataError`."""
        user, item, time, weight, goal = columns = [
            arrays.get(f"{prefix}.{n}") for n in _STORED
        ]
        if user is None or item is None:
            raise DataError(f"the {prefix} interactions are missing")
        for rows, dtype in zip(columns, _STORED.values(), strict=True):
            if rows is not None and (rows.dtype != dtype or rows.shape != (len(user),)):
                raise DataError(
                    f"the {prefix} interactions are not columns of equal length"
                )
        if weight is not None and not (np.isfinite(weight) & (weight > 0)).all():
            raise DataError(
                f"the {prefix} interactions have weights that are not above 0"
            )
        for rows, ids in ((user, users), (item, items)):
            if len(rows) and (rows.min() < 0 or rows.max() >= len(ids)):
                raise DataError(
                    f"the {prefix} interactions name {ids.kind}s that do not exist"
                )
        if not _in_order(user, time):
            raise DataError(f"the {prefix} interactions are not in order")
        negative, disliked = f"{prefix}.disliked", None
        if f"{negative}.user" in arrays:
            disliked = cls.from_stored(arrays, negative, users, items)
        return cls(
            user, item, time, users, items, weight=weight, goal=goal, disliked=disliked
        )

    def __len__(self) -> int:
        return len(self.user)

    def __repr__(self) -> str:
        sides = f"{self.n_users:,} users, {self.n_items:,} items"
        goals = (
            ""
            if self.goal is None
            else f" ({np.count_nonzero(self.goal):,} of the goal)"
        )
        negative = f", {len(self.disliked):,} disliked" if self.disliked else ""
        return f"Interactions({len(self):,} interactions{goals}, {sides}{negative})"

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
    def popularity(self) -> NDArray[np.int32]:
        """int32[n_items]: the events of each item."""
        return np.bincount(self.item, minlength=self.n_items).astype(np.int32)

    @cached_property
    def is_first(self) -> NDArray[np.bool_]:
        """bool[n]: False where an earlier event has the same user and item."""
        return self.first_after(self.select(np.arange(0)))

    def first_after(self, known: Self) -> NDArray[np.bool_]:
        """bool[n]: `is_first`, where the events of `known` come before all of these."""
        return first_of_pairs(
            self._indptr, self.item, (known._indptr, known.item), self.n_items
        )

    @cached_property
    def goals(self) -> Self:
        """The events that are targets: those of the goal, all of them where there is none."""
        return self if self.goal is None else self.select(self.goal)

    def hidden(self, include_seen: bool = False) -> Sequences:
        """What no list may show: items of goal events unless `include_seen`; disliked ones always.

        An item that a user has only viewed may be recommended.
        """
        return self._hidden[include_seen]

    @cached_property
    def _hidden(self) -> tuple[Sequences, Sequences]:
        nothing = self.select(np.arange(0))
        disliked = nothing if self.disliked is None else self.disliked
        if not len(disliked):
            return self.sequences().goals(), nothing.sequences()
        user, item = (
            np.concatenate([getattr(part, side) for part in (self.goals, disliked)])
            for side in ("user", "item")
        )
        order = np.argsort(user, kind="stable")
        both = replace(
            nothing, user=user[order], item=item[order], time=None, weight=None
        )
        return replace(both, goal=None).sequences(), disliked.sequences()

    @property
    def repeats(self) -> int:
        """Number of goal events whose user has had one of the item before."""
        return len(self.goals) - int(np.count_nonzero(self.goals.is_first))

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
        return Sequences(self._indptr, self.item, self.weight, self.goal)

    def to_table(self) -> pa.Table:
        """The rows by external id: user_id, item_id and, where known, timestamp and weight.

        Where there is a goal, or something is disliked, a column `event` says so: goal, other or
        disliked.
        """
        sides = {"user_id": (self.users, self.user), "item_id": (self.items, self.item)}
        columns = {
            name: ids.ids.take(pa.array(rows)) for name, (ids, rows) in sides.items()
        }
        known: dict[str, Any] = {"timestamp": self.time, "weight": self.weight}
        if self.goal is not None or self.disliked is not None:
            every = np.ones(len(self), bool) if self.goal is None else self.goal
            known["event"] = np.where(every, "goal", "other").tolist()
        table = pa.table(
            columns | {name: c for name, c in known.items() if c is not None}
        )
        if self.disliked is None:
            return table
        negative = self.disliked.to_table()
        kind = pa.array(["disliked"] * len(negative), pa.string())
        return pa.concat_tables(
            [table, negative.append_column("event", kind)], promote_options="default"
        )

    def to_pandas(self) -> Any:
        """`to_table` as a pandas frame, which `leporid.load` reads again."""
        return self.to_table().to_pandas()

    def select(self, rows: NDArray[Any]) -> Self:
        """Some of the rows (a mask, or positions in order), with all that is disliked."""
        columns = {name: getattr(self, name) for name in _STORED}
        some: Any = {name: c if c is None else c[rows] for name, c in columns.items()}
        return type(self)(
            **some, users=self.users, items=self.items, disliked=self.disliked
        )

    def renumbered(
        self, user_of: NDArray[Any], item_of: NDArray[Any], users: IdMap, items: IdMap
    ) -> Self:
        """The same rows with other id maps: `user_of`, `item_of` are the new index of each old."""
        disliked = self.disliked
        if disliked is not None:
            disliked = disliked.renumbered(user_of, item_of, users, items)
        user, item = (
            new.astype(np.int32) for new in (user_of[self.user], item_of[self.item])
        )
        return replace(
            self, user=user, item=item, users=users, items=items, disliked=disliked
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

        inner, negative = inside(self), self.disliked and inside(self.disliked)
        compact = replace(inner, disliked=negative).renumbered(
            np.cumsum(of_user > 0) - 1,
            np.cumsum(of_item > 0) - 1,
            self.users.within_core(np.flatnonzero(of_user), k),
            self.items.within_core(np.flatnonzero(of_item), k),
        )
        lost = len(self) + len(self.disliked or ()) - len(inner) - len(negative or ())
        dropped = with_core_dropped(self.dropped, lost, k)
        return replace(compact, dropped=dropped, source=self.source)

    def stats(self) -> DatasetStats:
        """The columns of the paper's Table 2; users and items without interactions are tail."""
        n, sides = len(self), ((self.user, self.n_users), (self.item, self.n_items))
        counts = [np.sort(np.bincount(index, minlength=size)) for index, size in sides]
        users, items = (
            float(each[: len(each) // 4].sum() / max(n, 1)) for each in counts
        )
        return DatasetStats(
            users=self.n_users,
            items=self.n_items,
            interactions=n,
            density=int(np.count_nonzero(self.is_first))
            / max(self.n_users * self.n_items, 1),
            tail_user_share=users,
            tail_item_share=items,
            repeat_share=self.repeats / max(len(self.goals), 1),
        )

    @cached_property
    def digest(self) -> str:
        """A hash of everything that can change a result: pairs, order, weights, goals and ids."""
        hasher = hashlib.sha256()
        for array in (self.user, self.item, self.time):
            hasher.update(
                b"none" if array is None else np.ascontiguousarray(array).tobytes()
            )
        for name in ("weight", "goal"):
            if (column := getattr(self, name)) is not None:
                hasher.update(name.encode() + np.ascontiguousarray(column).tobytes())
        if self.disliked:
            hasher.update(b"disliked" + self.disliked.digest.encode())
        hasher.update(self.users.digest.encode())
        hasher.update(self.items.digest.encode())
        return hasher.hexdigest()[:16]


def _in_order(user: NDArray[np.int32], time: NDArray[np.int64] | None) -> bool:
    same = user[1:] == user[:-1]
    if time is not None:
        same &= time[1:] >= time[:-1]
    return bool(np.all((user[1:] > user[:-1]) | same))
