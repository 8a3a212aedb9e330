"""What happens to the rows of real logs: every row is kept, or left out and counted.

`keep_rows` is the one home of the rules, for a whole log and for each batch of a streamed one.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from leporid.data.arrays import Mask
from leporid.data.cells import NO_NUMBER, null_unless, numbers_from_text, plain
from leporid.data.codes import coded, id_lookup
from leporid.data.columns import RawTable
from leporid.data.event_kinds import EventKinds
from leporid.data.id_map import IdMap
from leporid.data.interactions import Duplicates, Interactions
from leporid.data.times import int64_times
from leporid.errors import DataError, shortened, warn

_TIME_FORMS = (
    "2024-03-25 10:00:00, 2024-03-25T10:00:00+02:00, 20240325 or a number of seconds"
)
_Entry = TypeVar("_Entry", bound=np.generic)


class KeptRows(NamedTuple):
    """The rows that the policies keep, users and items as codes."""

    user: NDArray[np.int32]
    """int32[n]: positions in `user_values`."""
    item: NDArray[np.int32]
    """int32[n]: positions in `item_values`."""
    time: pa.ChunkedArray | None
    """int64[n], no nulls."""
    weight: NDArray[np.float32] | None
    """float32[n], finite and above 0."""
    time_unit: str | None
    """`AS_GIVEN` or `MICROSECONDS`; None without times."""
    user_values: pa.Array
    """Integers or text; equal ids may occur twice ('7' and ' 7'), blank ones are null."""
    item_values: pa.Array
    """Integers or text, like `user_values`."""
    dropped: dict[str, int]
    """Rows left out, by reason."""
    is_target: Mask | None
    """bool[n]: which events are targets; None: all."""
    disliked: Mask | None
    """bool[n]: which events are negative; None: none is."""


def to_interactions(
    raw: RawTable,
    min_rating: float | None,
    duplicates: Duplicates = "first",
    kinds: EventKinds | None = None,
) -> Interactions:
    """Make `Interactions` of raw columns.

    The ids of a matrix are positions, so that empty rows keep theirs. A disliked item is no part of
    the user's history: its other events are left out and counted.
    """
    report = raw.report
    rows = keep_rows(raw, min_rating, kinds)
    check_kept(report.origin, report.rows, rows.dropped)
    if raw.shape is None:
        user_of, users = id_lookup(rows.user_values, np.bincount(rows.user), "user")
        item_of, items = id_lookup(rows.item_values, np.bincount(rows.item), "item")
    else:
        user_of = rows.user_values.to_numpy()
        item_of = rows.item_values.to_numpy()
        users = IdMap.range(raw.shape[0], "user")
        items = IdMap.range(raw.shape[1], "item")
    events = Interactions(
        user_of[rows.user].astype(np.int32, copy=False),
        item_of[rows.item].astype(np.int32, copy=False),
        None if rows.time is None else np.asarray(rows.time),
        users,
        items,
        dropped=rows.dropped,
        weight=rows.weight,
        is_target=rows.is_target,
    )
    if rows.disliked is None:
        data = events.in_order(duplicates)
    else:
        data = _without_disliked(events, rows.disliked, duplicates, report.origin)
    return replace(data, source=replace(report, time_unit=rows.time_unit))


def _without_disliked(
    events: Interactions,
    is_disliked: Mask,
    duplicates: Duplicates,
    origin: str,
) -> Interactions:
    """Keep negative events apart, and leave out all other events of what a user dislikes."""
    selected = events.select(is_disliked)
    negative = replace(selected, is_target=None, dropped=events.dropped).in_order()
    pairs = events.user.astype(np.int64) * events.n_items + events.item
    is_left_out = np.isin(pairs, pairs[is_disliked])
    if is_left_out.all():
        raise DataError(f"{origin}: all events that are left are of disliked items")
    dropped = dict(negative.dropped)
    lost = int(np.count_nonzero(is_left_out & ~is_disliked))
    if lost:
        dropped["disliked item"] = lost
    others = replace(
        events.select(~is_left_out),
        disliked=replace(negative, dropped={}),
        dropped=dropped,
    )
    return others.in_order(duplicates)


class _RowMask:
    """The rows that are kept so far, and how many were left out for which reason."""

    def __init__(self, rows: int) -> None:
        self.keep = np.ones(rows, dtype=bool)
        self.dropped: dict[str, int] = {}

    def leave_out(self, reason: str, excluded: Mask) -> None:
        """Count the excluded rows that were kept so far, and keep them no longer."""
        excluded = excluded & self.keep
        count = int(np.count_nonzero(excluded))
        if count:
            self.dropped[reason] = count
            self.keep[excluded] = False

    def kept(self, column: NDArray[_Entry]) -> NDArray[_Entry]:
        """Return the entries of the kept rows."""
        return column[self.keep] if self.dropped else column

    def kept_or_none(self, column: NDArray[_Entry] | None) -> NDArray[_Entry] | None:
        """Return the entries of the kept rows, None where there is no such column."""
        return None if column is None else self.kept(column)


def keep_rows(
    raw: RawTable,
    min_rating: float | None,
    kinds: EventKinds | None = None,
) -> KeptRows:
    """Leave out and count what the policies exclude.

    A row counts once, for the first of these that applies: missing user, missing item, unreadable
    or missing time, unreadable or missing rating (only where `min_rating` asks for ratings), below
    `min_rating`; in a matrix without `min_rating`, a stored zero; missing event, event without a
    weight; unreadable or missing weight, weight of 0 or less. What cannot be read is text: one
    warning shows the first of a column.
    """
    origin = raw.report.origin
    user, user_values = coded(raw.columns["user"], "user", origin)
    item, item_values = coded(raw.columns["item"], "item", origin)
    mask = _RowMask(len(user))
    mask.leave_out("missing user", user < 0)
    mask.leave_out("missing item", item < 0)
    time, time_unit = _times(raw, mask)
    if min_rating is not None:
        _apply_min_rating(raw, min_rating, mask)
    elif raw.shape is not None:
        mask.leave_out("explicit zero", _numbers(raw, "rating").values == 0)
    events = _Events()
    if kinds is not None:
        events = _events(raw, kinds, mask)
    weight = _weights(raw, events.scale, mask)
    if time is not None and mask.dropped:
        time = time.filter(pa.array(mask.keep))
    return KeptRows(
        mask.kept(user),
        mask.kept(item),
        time,
        mask.kept_or_none(weight),
        time_unit,
        user_values,
        item_values,
        mask.dropped,
        mask.kept_or_none(events.is_target),
        mask.kept_or_none(events.disliked),
    )


def _times(
    raw: RawTable,
    mask: _RowMask,
) -> tuple[pa.ChunkedArray | None, str | None]:
    """Return int64[rows] times and their unit; None without a column of times."""
    if "time" not in raw.columns:
        return None, None
    cells = plain(raw.columns["time"])
    if pa.types.is_string(cells.type):
        is_nothing = pc.match_substring_regex(cells, NO_NUMBER)
        cells = null_unless(pc.invert(is_nothing), cells)
    time, unit = int64_times(cells, raw.report.columns["time"])
    mask.leave_out("unreadable time", _unreadable(cells, time, raw, "time"))
    mask.leave_out("missing time", np.asarray(pc.is_null(time)))
    return time, unit


def _apply_min_rating(
    raw: RawTable,
    min_rating: float,
    mask: _RowMask,
) -> None:
    rating = _numbers(raw, "rating")
    unreadable = _unreadable(rating.cells, rating.read, raw, "rating")
    mask.leave_out("unreadable rating", unreadable)
    mask.leave_out("missing rating", np.isnan(rating.values))
    mask.leave_out("below min_rating", rating.values < min_rating)


class _Events(NamedTuple):
    """What the kinds of events say of each row."""

    scale: NDArray[np.float64] | None = None
    """float64[rows]: the weight of its kind; None: all the same."""
    is_target: Mask | None = None
    """bool[rows]: whether the event is a target; None: all are."""
    disliked: Mask | None = None
    """bool[rows]: whether the event is negative; None: none is."""


def _events(
    raw: RawTable,
    kinds: EventKinds,
    mask: _RowMask,
) -> _Events:
    """Leave out events without a kind or a weight, and look up what the others mean."""
    origin = raw.report.origin
    code, values = coded(raw.columns["event"], "event", origin)
    names = [str(value) for value in values.to_pylist()]
    weight_of_kind, is_target = kinds.of(names, origin)
    mask.leave_out("missing event", code < 0)
    is_ignored = mask.keep & (weight_of_kind[code] == 0)
    for ignored in np.flatnonzero(np.bincount(code[is_ignored])):
        mask.leave_out(f"event {names[ignored]}", code == ignored)
    scale = None if kinds.weights is None else np.abs(weight_of_kind[code])
    is_target = None if is_target is None else is_target[code]
    has_dislikes = (weight_of_kind < 0).any()
    disliked = weight_of_kind[code] < 0 if has_dislikes else None
    return _Events(scale, is_target, disliked)


def _weights(
    raw: RawTable,
    scale: NDArray[np.float64] | None,
    mask: _RowMask,
) -> NDArray[np.float32] | None:
    """Return float32[rows]: the column of weights times those of the kinds of events."""
    if "weight" not in raw.columns:
        return None if scale is None else scale.astype(np.float32)
    column = _numbers(raw, "weight")
    unreadable = _unreadable(column.cells, column.read, raw, "weight")
    mask.leave_out("unreadable weight", unreadable)
    with np.errstate(over="ignore"):
        values = column.values if scale is None else column.values * scale
        weight = values.astype(np.float32)
    mask.leave_out("missing weight", ~np.isfinite(weight))
    mask.leave_out("weight of 0 or less", weight <= 0)
    return weight


def check_kept(
    origin: str,
    rows: int,
    dropped: Mapping[str, int],
) -> None:
    """Warn once about missing values, and refuse a log of which nothing is left."""
    if rows == 0:
        raise DataError(f"{origin} has no rows")
    missing = {
        reason: count
        for reason, count in dropped.items()
        if reason.startswith("missing")
    }
    if missing:
        warn(
            f"{origin}: left out {sum(missing.values()):,} of {rows:,} rows with missing values "
            f"({_listed(missing)})",
            5,
        )
    if sum(dropped.values()) == rows:
        raise DataError(f"{origin}: no rows are left of {rows:,}: {_listed(dropped)}")


def _listed(dropped: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in sorted(dropped.items()))


def _unreadable(
    cells: pa.ChunkedArray,
    read: pa.ChunkedArray,
    raw: RawTable,
    role: str,
) -> Mask:
    """Return bool[n]: text that was not read, which must not be most of a column."""
    lost = np.asarray(pc.and_(pc.is_valid(cells), pc.is_null(read)))
    if not pa.types.is_string(cells.type):
        return np.zeros_like(lost)
    if not lost.any():
        return lost
    count = int(np.count_nonzero(lost))
    first = cells[int(np.argmax(lost))].as_py()
    where = (
        f"{raw.report.origin}: column {raw.report.columns[role]!r} holds "
        f"{shortened(first, 60)!r}"
    )
    if role == "time":
        problem = (
            f"which is in none of the forms in which times are read ({_TIME_FORMS})"
        )
        advice = (
            "convert it, for example with pandas.to_datetime, or name another column"
        )
    else:
        problem = "which is no number"
        advice = "name another column"
    if 2 * count > len(cells) - cells.null_count:
        raise DataError(
            f"{where}, {problem}, and {count - 1:,} more values like it: {advice}"
        )
    warn(f"{where}, {problem}: rows left out: {count:,}", 7)
    return lost


class _Numbers(NamedTuple):
    """A column of ratings or weights."""

    cells: pa.ChunkedArray
    """The cells, text without white space around it."""
    read: pa.ChunkedArray
    """The numbers, null where there is none or it cannot be read."""

    @property
    def values(self) -> NDArray[np.float64]:
        """float64[n], NaN where there is no number."""
        return np.asarray(pc.fill_null(self.read, np.nan).to_numpy(), np.float64)


def _numbers(raw: RawTable, role: str) -> _Numbers:
    origin = raw.report.origin
    names = raw.report.columns
    if role not in raw.columns:
        raise DataError(
            f"{origin} has no column that looks like a rating (using: {', '.join(names.values())})"
            f", which min_rating needs: name it with rating=... (--rating on the command line)"
        )
    cells = plain(raw.columns[role])
    try:
        values = cells
        if pa.types.is_string(cells.type):
            values = numbers_from_text(cells)
        return _Numbers(cells, values.cast(pa.float64()))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(
            f"{origin}: column {names[role]!r} is no number: {error}"
        ) from None
