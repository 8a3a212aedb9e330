"""Times of any spelling become int64, and keep their order.

- integers, and floats that are all whole numbers: as they are, in the unit of the file;
- floats with a fraction: taken as seconds, times 10^6 and rounded (microseconds);
- dates, datetimes, parquet timestamps and ISO 8601 strings: microseconds since 1970 (UTC; a
  time without a zone is read as UTC).
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from leporid.data.source_file import shortened
from leporid.errors import DataError

AS_GIVEN, MICROSECONDS = "as given", "microseconds"


def to_int64(times: pa.ChunkedArray, name: str) -> tuple[pa.ChunkedArray, str]:
    """The times as int64 (null where missing or not finite), and their unit.

    Parameters
    ----------
    times : pyarrow.ChunkedArray of integers, floats, dates, timestamps or strings
    name : the column, for messages
    """
    kind = times.type
    try:
        if pa.types.is_null(kind) or pa.types.is_integer(kind):
            return times.cast(pa.int64()), AS_GIVEN
        if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            target = pa.timestamp("us", tz=getattr(kind, "tz", None))
            finer = getattr(kind, "unit", None) == "ns"  # the rest is cut off; all else must fit
            return pc.cast(times, target, safe=not finer).cast(pa.int64()), MICROSECONDS
    except pa.ArrowInvalid:
        raise DataError(f"column {name!r} holds times beyond 64 bits") from None
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _from_floats(times.cast(pa.float64()), name)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _from_strings(times, name)
    raise DataError(f"column {name!r} has type {kind}, which is not a time")


def _from_floats(times: pa.ChunkedArray, name: str) -> tuple[pa.ChunkedArray, str]:
    finite = pc.if_else(pc.is_finite(times), times, pa.scalar(None, pa.float64()))
    largest = pc.max(pc.abs(finite)).as_py() or 0.0
    whole = pc.all(pc.equal(finite, pc.floor(finite))).as_py()
    unit = AS_GIVEN if whole in (None, True) else MICROSECONDS
    factor = 1.0 if unit == AS_GIVEN else 1e6
    if largest * factor >= 2.0**63:
        raise DataError(f"column {name!r} holds a time of {largest:g}, beyond 64 bits")
    return pc.cast(pc.round(pc.multiply(finite, factor)), pa.int64()), unit


def _from_strings(times: pa.ChunkedArray, name: str) -> tuple[pa.ChunkedArray, str]:
    trimmed = pc.utf8_trim_whitespace(times)
    present = pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, trimmed.type), trimmed)
    for target in (pa.int64(), pa.float64()):
        try:
            return to_int64(present.cast(target), name)
        except pa.ArrowInvalid:
            continue
    return _from_iso(present, name), MICROSECONDS


def _from_iso(times: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """ISO strings, with and without a zone in one column."""
    zoned = pc.match_substring_regex(times, r"(Z|[+-]\d\d(:?\d\d)?)$")
    zoned = pc.and_(zoned, pc.match_substring(times, ":"))
    nothing = pa.scalar(None, times.type)
    try:
        local = pc.if_else(zoned, nothing, times).cast(pa.timestamp("us"))
        utc = pc.if_else(zoned, times, nothing).cast(pa.timestamp("us", tz="UTC"))
    except pa.ArrowInvalid as error:
        raise DataError(
            f"column {name!r} holds a time that is neither a number nor an ISO date: "
            f"{shortened(error)}"
        ) from None
    return pc.coalesce(local.cast(pa.int64()), utc.cast(pa.int64()))
