"""`Allowed`: which items may be recommended, to everybody or to each user."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Self, TypeAlias

import numpy as np
import pyarrow as pa

from leporid.data import IdMap, Sequences, frame_columns, id_columns, is_frame
from leporid.errors import ConfigError, DataError, warn
from leporid.ranking.asked_users import AskedUsers, refuse_unknown
from leporid.ranking.bound_rules import BoundRules
from leporid.ranking.ids import is_id
from leporid.ranking.top_k import Floats, Indices, Ints, Mask

Ids: TypeAlias = Iterable[object] | None
"""External ids or one of them, a list of them for each user, or a frame of users and items."""


@dataclass(frozen=True, eq=False)
class Allowed:
    """Which items may be recommended, and rules for the lists."""

    items: Mask | None = None
    """bool[n_items]: which items may be recommended to anybody; None: all."""
    rules: BoundRules | None = None
    only: Sequences | None = None
    """The only items that each user may get."""
    exclude: Sequences | None = None
    """Items that each user may not get."""

    def take(self, rows: Ints) -> Self:
        """Return what holds for some of the users."""
        if self.only is None and self.exclude is None:
            return self
        return replace(
            self,
            only=None if self.only is None else self.only.take(rows),
            exclude=None if self.exclude is None else self.exclude.take(rows),
        )

    def masked(self, scores: Floats) -> Floats:
        """Return float32[m, n_items] with -inf where a user may not get an item."""
        if self.only is None and self.exclude is None:
            return scores
        masked = np.array(scores)
        if self.only is not None:
            cells = _cells(self.only)
            masked = np.full_like(scores, -np.inf)
            masked[cells] = scores[cells]
        if self.exclude is not None:
            masked[_cells(self.exclude)] = -np.inf
        return masked


def _cells(lists: Sequences) -> tuple[Ints, Indices]:
    """Return the rows and columns of the items of each user."""
    rows = np.repeat(np.arange(len(lists)), np.diff(lists.indptr))
    return rows, lists.items[lists.indptr[0] : lists.indptr[-1]]


def allowed_items(
    users: IdMap,
    items: IdMap,
    asked: AskedUsers,
    only: Ids,
    exclude: Ids,
    rules: BoundRules | None = None,
) -> Allowed | None:
    """Return which items may be recommended to the users who were asked for; None: all."""
    if rules is not None:
        is_bound = isinstance(rules, BoundRules) and rules.items == items
        if not is_bound:
            raise ConfigError(
                "rules must be bound to this model: rules.bind(model.item_columns(items))"
            )
    if only is None and exclude is None:
        return None if rules is None else Allowed(rules=rules)
    lists = _ItemLists(users, items, asked)
    allowed = Allowed(rules=rules)
    mask = np.ones(len(items), bool)
    if only is not None:
        found = lists.read(only, "only")
        if isinstance(found, Sequences):
            allowed = replace(allowed, only=found)
        else:
            mask = np.zeros(len(items), bool)
            mask[found] = True
    if exclude is not None:
        found = lists.read(exclude, "exclude")
        if isinstance(found, Sequences):
            allowed = replace(allowed, exclude=found)
        else:
            mask[found] = False
    return replace(allowed, items=None if mask.all() else mask)


class _ItemLists:
    """Reads item ids that somebody gave for some users."""

    def __init__(self, users: IdMap, items: IdMap, asked: AskedUsers) -> None:
        self._users = users
        self._items = items
        self._asked = asked

    def read(self, given: object, option: str) -> Indices | Sequences:
        """Return indices of items for everybody, or the items of each user."""
        if is_frame(given):
            return self._of_frame(given, option)
        if isinstance(given, pa.Array | pa.ChunkedArray):
            given = given.to_pylist()
        if is_id(given):
            given = [given]
        self._items.check_ids(given)
        assert isinstance(given, Iterable)
        entries = list(given)
        if not any(_is_list(entry) for entry in entries):
            return self._indices(entries, option)
        return self._of_lists(entries, option)

    def _of_lists(self, lists: Sequence[object], option: str) -> Sequences:
        """Return the items of each user by position; None in a list is padding."""
        if len(lists) != len(self._asked):
            raise DataError(
                f"{option} has lists for {len(lists):,} users, and lists for {len(self._asked):,} "
                f"are wanted: give one list of items each, or a frame with users and items"
            )
        ids: list[list[object]] = []
        for row, entries in enumerate(lists):
            if not isinstance(entries, Iterable) or isinstance(entries, str | bytes):
                raise DataError(
                    f"{option} has a list for each user, but {entries!r} for user {row}: give a "
                    f"list, which may be empty"
                )
            ids.append([item for item in entries if item is not None])
        flat = [item for entries in ids for item in entries]
        index = self._found(flat, option)
        ends = np.cumsum([0, *map(len, ids)])
        rows = [index[first:last] for first, last in pairwise(ends)]
        return Sequences.from_rows([row[row >= 0] for row in rows])

    def _of_frame(self, frame: object, option: str) -> Indices | Sequences:
        """Return the items in the column of items, of the users in that of users if there is one.

        A user who is not in the frame has no items.
        """
        origin = f"the frame of {option}"
        columns = frame_columns(frame, "give a frame")
        if len(columns) == 1:
            column = id_columns(columns, {"item": None}, origin)["item"]
            return self._indices(column.values.to_pylist(), option)
        given = id_columns(columns, {"user": None, "item": None}, origin)
        index = given["item"].indices(self._items)
        if not self._asked.skips_items:
            refuse_unknown(self._items, given["item"], index)
        self._warn_of_unknown(index, given["item"].value, option)
        keys = self._asked.rows_of(self._users, given["user"])
        known = np.flatnonzero((keys >= 0) & (index >= 0))
        by_user = known[np.argsort(keys[known], kind="stable")]
        starts = np.searchsorted(keys[by_user], self._asked.keys)
        ends = np.searchsorted(keys[by_user], self._asked.keys, side="right")
        pairs = zip(starts, ends, strict=True)
        return Sequences.from_rows(
            [index[by_user[first:last]] for first, last in pairs]
        )

    def _indices(self, ids: Sequence[object], option: str) -> Indices:
        """Return the indices of items for everybody."""
        index = self._found(ids, option)
        return index[index >= 0]

    def _found(self, ids: Sequence[object], option: str) -> Indices:
        """Return the index of each item; -1 for an unknown one, if that is no error."""
        if not self._asked.skips_items:
            return self._items.indices(ids)
        index = np.full(len(ids), -1, np.int32)
        for row, item in enumerate(ids):
            known, _unknown = self._items.split_known([item])
            index[row] = known[0] if len(known) else -1
        self._warn_of_unknown(index, ids.__getitem__, option)
        return index

    def _warn_of_unknown(
        self,
        index: Indices,
        name_of: Callable[[int], object],
        option: str,
    ) -> None:
        """Count unknown items; `name_of` gives the id of one."""
        unknown = np.flatnonzero(index < 0)
        if len(unknown):
            warn(
                f"{len(unknown):,} of {len(index):,} items of {option} are unknown to the model "
                f"and left out, the first is {name_of(int(unknown[0]))!r}",
                7,
            )


def _is_list(entry: object) -> bool:
    """Return whether an entry is a list of ids rather than one id."""
    return isinstance(entry, Iterable) and not isinstance(entry, str | bytes)
