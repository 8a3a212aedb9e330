"""What happens to the rows of real logs: every one is kept, or left out and counted.

`keep_rows` is the one home of the rules, for a whole log and for each batch of a streamed one.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from leporid.data.columns import RawTable
from leporid.data.event_kinds import EventKinds
from leporid.data.id_map import IdMap, uuids_as_text
from leporid.data.interactions import Duplicates, Interactions
from leporid.errors import DataError, article, shortened, warn

AS_GIVEN, MICROSECONDS = "as given", "microseconds"
"""Units of times."""
_FIRST_DAY, _LAST_DAY = 19_000_101, 21_001_231
"""Whole numbers that may be days."""
_FIRST_ROUNDED = 2.0**53
"""From here on, not every whole number is a float."""
_WHOLE = r"^(0|-?[1-9][0-9]*)(\.0+)?$"
"""An integer as a program would print it: no leading zero, no plus sign."""
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_NO_NUMBER = r"^[+-]?(?i:inf|infinity|nan)$"
"""What programs write for a number that there is not."""
_TIME_FORMS = (
    "2024-03-25 10:00:00, 2024-03-25T10:00:00+02:00, 20240325 or a number of seconds"
)


class KeptRows(NamedTuple):
    """The rows that the policies keep, users and items as codes."""

    user: NDArray[np.int32]
    """int32[n]: positions in `user_values`."""
    item: NDArray[np.int32]
    time: pa.ChunkedArray | None
    """int64[n], no nulls."""
    weight: NDArray[np.float32] | None
    """float32[n], finite and above 0."""
    time_unit: str | None
    user_values: pa.Array
    """Integers or text; equal ids may occur twice ('7' and ' 7'), blank ones are null."""
    item_values: pa.Array
    dropped: dict[str, int]
    """Rows left out, by reason."""
    goal: NDArray[np.bool_] | None
    """bool[n]: which events are targets; None: all."""
    disliked: NDArray[np.bool_] | None
    """bool[n]: which events are negative; None: none is."""


def to_interactions(
    raw: RawTable,
    min_rating: float | None,
    duplicates: Duplicates = "first",
    kinds: EventKinds | None = None,
) -> Interactions:
    """Raw columns as `Interactions`. The ids of a matrix are positions: empty rows keep theirs.

    A disliked item is no part of the user's history: its other events are left out and counted.
    """
    rows = keep_rows(raw, min_rating, kinds)
    check_kept(raw.report.origin, raw.report.rows, rows.dropped)
    if raw.shape is None:
        user_of, users = id_lookup(rows.user_values, np.bincount(rows.user), "user")
        item_of, items = id_lookup(rows.item_values, np.bincount(rows.item), "item")
    else:
        user_of, item_of = rows.user_values.to_numpy(), rows.item_values.to_numpy()
        users, items = (
            IdMap.range(raw.shape[0], "user"),
            IdMap.range(raw.shape[1], "item"),
        )
    time = None if rows.time is None else np.asarray(rows.time)
    user, item = user_of[rows.user], item_of[rows.item]
    columns: dict[str, Any] = {
        "user": user,
        "item": item,
        "time": time,
        "weight": rows.weight,
    }
    columns["goal"] = rows.goal

    def part(keep: Any, **how: Any) -> Interactions:
        some = {name: c if c is None else c[keep] for name, c in columns.items()}
        return Interactions.from_arrays(**{**some, **how}, users=users, items=items)

    if rows.disliked is None:
        data = part(slice(None), dropped=rows.dropped, duplicates=duplicates)
    else:
        negative = part(rows.disliked, dropped=rows.dropped, goal=None)
        pairs = user.astype(np.int64) * len(items) + item
        left_out = np.isin(pairs, pairs[rows.disliked])
        if left_out.all():
            raise DataError(
                f"{raw.report.origin}: all events that are left are of disliked items"
            )
        lost = int(np.count_nonzero(left_out & ~rows.disliked))
        dropped = {**negative.dropped, **({"disliked item": lost} if lost else {})}
        how = {"disliked": replace(negative, dropped={}), "dropped": dropped}
        data = part(~left_out, duplicates=duplicates, **how)
    return replace(data, source=replace(raw.report, time_unit=rows.time_unit))


def keep_rows(
    raw: RawTable, min_rating: float | None, kinds: EventKinds | None = None
) -> KeptRows:
    """Leave out and count what the policies exclude.

    A row counts once, for the first of these that applies: missing user, missing item, unreadable
    or missing time, unreadable or missing rating (only where `min_rating` asks for ratings), below
    `min_rating`; in a matrix without `min_rating`, a stored zero; missing event, event without a
    weight; unreadable or missing weight, weight of 0 or less. What cannot be read is text: one
    warning shows the first of a column.
    """
    origin, names = raw.report.origin, raw.report.columns
    user, user_values = _coded(raw.columns["user"], "user", origin)
    item, item_values = _coded(raw.columns["item"], "item", origin)
    keep = np.ones(len(user), dtype=bool)
    dropped: dict[str, int] = {}

    def leave_out(reason: str, excluded: NDArray[np.bool_]) -> None:
        excluded = excluded & keep
        if count := int(np.count_nonzero(excluded)):
            dropped[reason] = count
            keep[excluded] = False

    leave_out("missing user", user < 0)
    leave_out("missing item", item < 0)
    time = unit = None
    if "time" in raw.columns:
        given = _plain(raw.columns["time"])
        if pa.types.is_string(given.type):
            given = _where(
                pc.invert(pc.match_substring_regex(given, _NO_NUMBER)), given
            )
        time, unit = _int64_times(given, names["time"])
        leave_out("unreadable time", _unreadable(given, time, raw, "time"))
        leave_out("missing time", np.asarray(pc.is_null(time)))
    if min_rating is not None:
        rating, unreadable = _numbers(raw, "rating")
        leave_out("unreadable rating", unreadable)
        leave_out("missing rating", np.isnan(rating))
        leave_out("below min_rating", rating < min_rating)
    elif raw.shape is not None:
        leave_out("explicit zero", _numbers(raw, "rating")[0] == 0)
    weight = scale = goal = disliked = None
    if kinds is not None:
        kind, values = _coded(raw.columns["event"], "event", origin)
        found = [str(value) for value in values.to_pylist()]
        by_kind, is_goal = kinds.of(found, origin)
        leave_out("missing event", kind < 0)
        for code in np.flatnonzero(np.bincount(kind[keep & (by_kind[kind] == 0)])):
            leave_out(f"event {found[code]}", kind == code)
        goal = None if is_goal is None else is_goal[kind]
        disliked = by_kind[kind] < 0 if (by_kind < 0).any() else None
        if kinds.weights is not None:
            scale = np.abs(by_kind[kind])
            weight = scale.astype(np.float32)
    if "weight" in raw.columns:
        numbers, unreadable = _numbers(raw, "weight")
        leave_out("unreadable weight", unreadable)
        with np.errstate(over="ignore"):
            weight = (numbers if scale is None else numbers * scale).astype(np.float32)
        leave_out("missing weight", ~np.isfinite(weight))
        leave_out("weight of 0 or less", weight <= 0)
    if dropped:
        user, item = user[keep], item[keep]
        time = None if time is None else time.filter(pa.array(keep))
        weight = None if weight is None else weight[keep]
        goal, disliked = (c if c is None else c[keep] for c in (goal, disliked))
    columns = user, item, time, weight, unit, user_values, item_values
    return KeptRows(*columns, dropped, goal, disliked)


def check_kept(origin: str, rows: int, dropped: Mapping[str, int]) -> None:
    """Warn once about missing values; a log of which nothing is left is a `DataError`."""
    if rows == 0:
        raise DataError(f"{origin} has no rows")
    missing = {
        reason: n for reason, n in dropped.items() if reason.startswith("missing")
    }
    if missing:
        warn(
            f"{origin}: left out {sum(missing.values()):,} of {rows:,} rows with missing values "
            f"({_listed(missing)})",
            5,
        )
    if sum(dropped.values()) == rows:
        raise DataError(f"{origin}: no rows are left of {rows:,}: {_listed(dropped)}")


def id_lookup(
    values: pa.Array, counts: NDArray[Any], kind: str
) -> tuple[NDArray[np.int32], IdMap]:
    """The map of the ids that occur (`counts` above 0), and the index of each value in it.

    Returns int32[len(values)] and the map; a value that does not occur has index 0.
    """
    used = np.flatnonzero(counts)
    present = _external_ids(values.take(pa.array(used)))
    id_map = IdMap.from_values(present, kind)
    lookup = np.zeros(len(values), dtype=np.int32)
    lookup[used] = id_map.encode(present)
    return lookup, id_map


def _listed(dropped: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in sorted(dropped.items()))


def _plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Dictionaries decoded; text without white space around it, null where blank."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    return (
        _trimmed(values)
        if str(values.type).endswith(("string", "string_view"))
        else values
    )


def _where(keep: Any, values: Any) -> Any:
    """The values, null where not kept."""
    return pc.if_else(keep, values, pa.scalar(None, values.type))


def _unreadable(given: Any, read: Any, raw: RawTable, role: str) -> NDArray[np.bool_]:
    """bool[n]: text that was given and not read, which must not be most of a column."""
    lost = np.asarray(pc.and_(pc.is_valid(given), pc.is_null(read)))
    lost &= pa.types.is_string(given.type)
    if lost.any():
        count, first = int(np.count_nonzero(lost)), given[int(np.argmax(lost))].as_py()
        text = f"{raw.report.origin}: column {raw.report.columns[role]!r} holds "
        text += f"{shortened(first, 60)!r}"
        if role == "time":
            text += f", which is in none of the forms in which times are read ({_TIME_FORMS})"
            advice = "convert it, for example with pandas.to_datetime, or name another column"
        else:
            text, advice = f"{text}, which is no number", "name another column"
        if 2 * count > len(given) - given.null_count:
            raise DataError(f"{text}, and {count - 1:,} more values like it: {advice}")
        warn(f"{text}: rows left out: {count:,}", 6)
    return lost


def _numbers(raw: RawTable, role: str) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """float64[n], NaN where missing: the ratings or weights; bool[n]: which cannot be read."""
    origin, names = raw.report.origin, raw.report.columns
    if role not in raw.columns:
        raise DataError(
            f"{origin} has no column that looks like a rating (using: {', '.join(names.values())})"
            f", which min_rating needs: name it with rating=... (--rating on the command line)"
        )
    given = values = _plain(raw.columns[role])
    try:
        if pa.types.is_string(given.type):
            values = _from_number_text(given)
        values = values.cast(pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(
            f"{origin}: column {names[role]!r} is no number: {error}"
        ) from None
    lost = _unreadable(given, values, raw, role)
    return np.asarray(pc.fill_null(values, np.nan).to_numpy(), dtype=np.float64), lost


def _from_number_text(given: pa.ChunkedArray) -> pa.ChunkedArray:
    """float64[n], or booleans where all are true or false; null where there is no number."""
    with contextlib.suppress(pa.ArrowInvalid):
        return given.cast(pa.bool_())
    with contextlib.suppress(pa.ArrowInvalid):
        return given.cast(pa.float64())
    readable = pc.match_substring_regex(given, f"{_NUMBER}|{_NO_NUMBER}")
    return _where(readable, given).cast(pa.float64())


def _coded(
    values: pa.ChunkedArray, kind: str, origin: str
) -> tuple[NDArray[np.int32], pa.Array]:
    """A code per row (-1 where missing or blank) and the value of each code.

    Only distinct values are looked at one by one, so this costs little however long the log.
    """
    column = f"{origin}: the {kind} column"
    extension = values.type if isinstance(values.type, pa.BaseExtensionType) else None
    if (
        extension is not None
    ):  # such as UUIDs: the kernels know how they are stored, no more
        values = values.cast(extension.storage_type)
    if pa.types.is_nested(values.type):
        raise DataError(f"{column} has type {values.type}, no id")
    if pa.types.is_floating(values.type):  # what pandas makes of integers with gaps
        try:
            values = _finite(values).cast(pa.int64())
        except pa.ArrowInvalid as error:
            text = f"{origin}: {article(kind)} id is a number with a fraction"
            raise DataError(f"{text}: {shortened(error)}") from None
    elif pa.types.is_null(values.type):  # nothing but missing values
        values = values.cast(pa.int64())
    if not pa.types.is_dictionary(values.type):
        layout = pa.string() if str(values.type) == "string_view" else values.type
        values = pc.dictionary_encode(values.cast(layout))
    encoded = values.unify_dictionaries().combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = pa.concat_arrays(encoded.chunks)
    indices = encoded.indices.cast(pa.int32())  # polars has unsigned ones
    codes = np.asarray(pc.fill_null(indices, -1).to_numpy(zero_copy_only=False))
    distinct = encoded.dictionary
    if extension is not None:
        distinct = uuids_as_text(pa.ExtensionArray.from_storage(extension, distinct))
    if not pa.types.is_integer(distinct.type):
        try:
            distinct = _trimmed(distinct)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise DataError(f"{column} has type {distinct.type}, no id") from None
    if distinct.null_count:
        blank = np.asarray(pc.is_null(distinct))
        codes = np.where((codes >= 0) & ~blank[codes], codes, -1)
    return codes.astype(np.int32, copy=False), distinct


def _finite(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """float64[n], null where missing or infinite."""
    values = values.cast(pa.float64())
    return _where(pc.is_finite(values), values)


def _trimmed(values: Any) -> Any:
    """The values as text without white space around it; null where blank."""
    text = pc.utf8_trim_whitespace(values.cast(pa.string()))
    return _where(pc.not_equal(text, ""), text)


def _external_ids(values: pa.Array) -> pa.Array:
    """Trimmed values as int64 where all are integers of 64 bits, else as strings."""
    integers = pa.types.is_integer(values.type)
    if (
        integers
        or pc.all(pc.match_substring_regex(values, _WHOLE), min_count=0).as_py()
    ):
        bare = values if integers else pc.replace_substring_regex(values, r"\.0+$", "")
        with contextlib.suppress(pa.ArrowInvalid):  # longer than 64 bits
            return bare.cast(pa.int64())
    return values.cast(pa.string())


def _int64_times(times: pa.ChunkedArray, name: str) -> tuple[pa.ChunkedArray, str]:
    """The times as int64 (null where missing, unreadable or not finite), and their unit.

    - integers, and floats that are all whole numbers: as they are, in the unit of the file, unless
      all of them are days such as 20240227;
    - floats with a fraction: taken as seconds, times 10^6 and rounded (microseconds);
    - such days, dates, datetimes, parquet timestamps and ISO 8601 strings: microseconds since 1970
      (UTC; a time without a zone is read as UTC).
    """
    kind = times.type
    try:
        if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            target = pa.timestamp("us", tz=getattr(kind, "tz", None))
            finer = (
                getattr(kind, "unit", None) == "ns"
            )  # the rest is cut off; all else must fit
            return pc.cast(times, target, safe=not finer).cast(pa.int64()), MICROSECONDS
        if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            if pa.types.is_floating(kind):
                times = _finite(times)
            if pc.any(pc.not_equal(times, pc.floor(times))).as_py():
                seconds = times.cast(pa.float64())
                microseconds = pc.round(pc.multiply(seconds, 1e6))
                return microseconds.cast(pa.int64()), MICROSECONDS
        elif pa.types.is_string(kind):
            return _from_text(times, name)
        elif not (pa.types.is_null(kind) or pa.types.is_integer(kind)):
            raise DataError(f"column {name!r} has type {kind}, which is not a time")
        times = times.cast(pa.int64())
    except pa.ArrowInvalid:
        raise DataError(f"column {name!r} holds times beyond 64 bits") from None
    least, most = pc.min_max(times).as_py().values()
    if least is not None and least >= _FIRST_DAY and most <= _LAST_DAY:
        days = pc.replace_substring_regex(
            times.cast(pa.string()), r"(\d{4})(\d\d)(\d\d)", r"\1-\2-\3"
        )
        with contextlib.suppress(pa.ArrowInvalid):  # 20240231
            return days.cast(pa.timestamp("us")).cast(pa.int64()), MICROSECONDS
    return times, AS_GIVEN


def _from_text(times: pa.ChunkedArray, name: str) -> tuple[pa.ChunkedArray, str]:
    """Read numbers written as text, or ISO strings, with and without a zone in one column."""
    numbers = _as_numbers(times)
    if numbers is not None:
        return _int64_times(numbers, name)
    is_number = pc.match_substring_regex(times, _NUMBER)
    is_date = pc.match_substring_regex(times, r"^\d{4}-\d\d-\d\d")
    if pc.sum(is_number).as_py() > pc.sum(is_date).as_py():  # the others cannot be read
        numbers = _as_numbers(_where(is_number, times))
        assert numbers is not None
        return _int64_times(numbers, name)
    return _iso_times(_where(is_date, times)), MICROSECONDS


def _as_numbers(text: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Return int64[n], float64[n] or decimals, all exact; None where some text is no number."""
    with contextlib.suppress(pa.ArrowInvalid):
        integers = text.cast(pa.int64())
        # pyarrow reads 0x10 as 16.
        hexadecimal = pc.any(pc.match_substring_regex(text, "[xX]")).as_py()
        return None if hexadecimal else integers
    try:
        floats = text.cast(pa.float64())
    except pa.ArrowInvalid:
        return None
    is_rounded = pc.greater_equal(pc.abs(_finite(floats)), _FIRST_ROUNDED)
    if pc.any(is_rounded).as_py():
        return text.cast(pa.decimal256(76, 30))
    return floats


def _iso_times(text: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return int64[n], microseconds; null where text is no day or time that there is."""
    for zone in (None, "UTC"):
        with contextlib.suppress(pa.ArrowInvalid):
            return text.cast(pa.timestamp("us", zone)).cast(pa.int64())
    text = pc.replace_substring_regex(text, r"\s*(UTC|GMT|Z)$", "Z")
    text = pc.replace_substring_regex(text, r"(:\d\d\S*)\s+([+-]\d\d)", r"\1\2")
    text = pc.replace_substring_regex(text, r"(:\d\d\.\d{6})\d+", r"\1")
    has_zone = pc.match_substring_regex(text, r"[T ]\d\d.*(Z|[+-]\d\d(:?\d\d)?)$")
    local = _where(pc.invert(has_zone), text)
    zoned = _where(has_zone, text)
    return pc.coalesce(
        _readable_times(local, pa.timestamp("us")),
        _readable_times(zoned, pa.timestamp("us", "UTC")),
    )


def _readable_times(text: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return int64[n], null where there is no such day, found by halving the column."""
    try:
        return text.cast(kind).cast(pa.int64())
    except pa.ArrowInvalid:
        if len(text) == 1:
            return pa.chunked_array([pa.nulls(1, pa.int64())])
    middle = len(text) // 2
    first = _readable_times(text[:middle], kind)
    second = _readable_times(text[middle:], kind)
    return pa.chunked_array([*first.chunks, *second.chunks], pa.int64())
