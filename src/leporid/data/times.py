"""Times in any column, as integers of 64 bits."""

import contextlib

import pyarrow as pa
import pyarrow.compute as pc

from leporid.data.cells import NUMBER, finite, null_unless
from leporid.errors import DataError

AS_GIVEN = "as given"
"""The unit of times that are integers in the file."""
MICROSECONDS = "microseconds"
"""The unit of dates, datetimes and fractions of seconds."""
_FIRST_DAY = 19_000_101
_LAST_DAY = 21_001_231
"""Whole numbers between the two may be days."""
_FIRST_ROUNDED = 2.0**53
"""From here on, not every whole number is a float."""
_EVERY_DIGIT = pa.decimal256(76, 30)


def int64_times(times: pa.ChunkedArray, name: str) -> tuple[pa.ChunkedArray, str]:
    """Return times as int64 (null where missing, unreadable or not finite), and their unit.

    - integers, and decimals and floats that are all whole numbers: as they are, in the unit of the
      file, unless all of them are days such as 20240227;
    - decimals and floats with a fraction: taken as seconds, times 10^6 and rounded (microseconds);
    - such days, dates, datetimes, parquet timestamps and ISO 8601 strings: microseconds since 1970
      (UTC; a time without a zone is read as UTC);
    - numbers written as text: as the numbers.

    `name` is the column, for errors.
    """
    kind = times.type
    try:
        if pa.types.is_string(kind):
            return _from_text(times, name)
        if pa.types.is_timestamp(kind):
            return _from_timestamps(times), MICROSECONDS
        if pa.types.is_date(kind):
            return _microseconds(times), MICROSECONDS
        if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            return _from_fractions(times)
        if pa.types.is_null(kind) or pa.types.is_integer(kind):
            return _from_whole_numbers(times)
    except pa.ArrowInvalid:
        raise DataError(f"column {name!r} holds times beyond 64 bits") from None
    raise DataError(f"column {name!r} has type {kind}, which is not a time")


def _from_timestamps(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return int64[n], microseconds; nanoseconds are cut off, all else must fit."""
    target = pa.timestamp("us", tz=times.type.tz)
    is_finer = times.type.unit == "ns"
    return times.cast(target, safe=not is_finer).cast(pa.int64())


def _from_fractions(times: pa.ChunkedArray) -> tuple[pa.ChunkedArray, str]:
    if pa.types.is_floating(times.type):
        times = finite(times)
    has_fraction = pc.any(pc.not_equal(times, pc.floor(times))).as_py()
    if not has_fraction:
        return _from_whole_numbers(times)
    seconds = times.cast(pa.float64())
    microseconds = pc.round(pc.multiply(seconds, 1e6))
    return microseconds.cast(pa.int64()), MICROSECONDS


def _from_whole_numbers(times: pa.ChunkedArray) -> tuple[pa.ChunkedArray, str]:
    """Return the numbers as they are, unless all of them are days."""
    numbers = times.cast(pa.int64())
    limits = pc.min_max(numbers).as_py()
    if limits["min"] is None:
        return numbers, AS_GIVEN
    if limits["min"] < _FIRST_DAY or limits["max"] > _LAST_DAY:
        return numbers, AS_GIVEN
    text = numbers.cast(pa.string())
    days = pc.replace_substring_regex(text, r"(\d{4})(\d\d)(\d\d)", r"\1-\2-\3")
    with contextlib.suppress(pa.ArrowInvalid):  # 20240231
        return _microseconds(days), MICROSECONDS
    return numbers, AS_GIVEN


def _from_text(text: pa.ChunkedArray, name: str) -> tuple[pa.ChunkedArray, str]:
    """Read numbers, or ISO strings with and without a zone, whichever are more."""
    numbers = _as_numbers(text)
    if numbers is None:
        is_number = pc.match_substring_regex(text, NUMBER)
        is_date = pc.match_substring_regex(text, r"^\d{4}-\d\d-\d\d")
        if pc.sum(is_number).as_py() <= pc.sum(is_date).as_py():
            return _from_iso(null_unless(is_date, text)), MICROSECONDS
        numbers = _as_numbers(null_unless(is_number, text))
    return int64_times(numbers, name)


def _as_numbers(text: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Return int64[n], float64[n] or decimals, all exact; None where some text is no number."""
    with contextlib.suppress(pa.ArrowInvalid):
        integers = text.cast(pa.int64())
        # pyarrow reads 0x10 as 16.
        is_hexadecimal = pc.match_substring_regex(text, "[xX]")
        return None if pc.any(is_hexadecimal).as_py() else integers
    try:
        floats = text.cast(pa.float64())
    except pa.ArrowInvalid:
        return None
    is_rounded = pc.greater_equal(pc.abs(finite(floats)), _FIRST_ROUNDED)
    if pc.any(is_rounded).as_py():
        return text.cast(_EVERY_DIGIT)
    return floats


def _from_iso(text: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return int64[n], microseconds; null where text is no day or time that there is."""
    for zone in (None, "UTC"):
        with contextlib.suppress(pa.ArrowInvalid):
            return _microseconds(text, zone)
    text = pc.replace_substring_regex(text, r"\s*(UTC|GMT|Z)$", "Z")
    text = pc.replace_substring_regex(text, r"(:\d\d\S*)\s+([+-]\d\d)", r"\1\2")
    text = pc.replace_substring_regex(text, r"(:\d\d\.\d{6})\d+", r"\1")
    has_zone = pc.match_substring_regex(text, r"[T ]\d\d.*(Z|[+-]\d\d(:?\d\d)?)$")
    local = null_unless(pc.invert(has_zone), text)
    zoned = null_unless(has_zone, text)
    return pc.coalesce(
        _readable(local, None),
        _readable(zoned, "UTC"),
    )


def _microseconds(times: pa.ChunkedArray, zone: str | None = None) -> pa.ChunkedArray:
    """Return int64[n], the microseconds of days, datetimes or text since 1970."""
    return times.cast(pa.timestamp("us", zone)).cast(pa.int64())


def _readable(text: pa.ChunkedArray, zone: str | None) -> pa.ChunkedArray:
    """Return int64[n], null where there is no such day, found by halving the column."""
    try:
        return _microseconds(text, zone)
    except pa.ArrowInvalid:
        if len(text) == 1:
            return pa.chunked_array([pa.nulls(1, pa.int64())])
    middle = len(text) // 2
    first = _readable(text[:middle], zone)
    second = _readable(text[middle:], zone)
    return pa.chunked_array([*first.chunks, *second.chunks], pa.int64())
