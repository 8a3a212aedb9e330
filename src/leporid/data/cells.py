"""Cells of Arrow columns: text without white space around it, nulls, and numbers."""

import contextlib

import pyarrow as pa
import pyarrow.compute as pc

NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
NO_NUMBER = r"^[+-]?(?i:inf|infinity|nan)$"
"""What programs write where there is no number."""


def null_unless(keep: pa.ChunkedArray, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the values, with nulls where `keep` is not true."""
    return pc.if_else(keep, values, pa.scalar(None, values.type))


def trimmed(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values as text without white space around it; null where blank."""
    text = pc.utf8_trim_whitespace(values.cast(pa.string()))
    return null_unless(pc.not_equal(text, ""), text)


def plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Decode dictionaries, and trim values that are text."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if str(values.type).endswith(("string", "string_view")):
        return trimmed(values)
    return values


def finite(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return float64[n], null where missing or infinite."""
    numbers = values.cast(pa.float64())
    return null_unless(pc.is_finite(numbers), numbers)


def numbers_from_text(text: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return float64[n], or booleans where all are true or false; null without a number."""
    with contextlib.suppress(pa.ArrowInvalid):
        return text.cast(pa.bool_())
    with contextlib.suppress(pa.ArrowInvalid):
        return text.cast(pa.float64())
    readable = pc.match_substring_regex(text, f"{NUMBER}|{NO_NUMBER}")
    return null_unless(readable, text).cast(pa.float64())
