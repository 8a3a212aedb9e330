"""Ids and kinds of events in a column as small integers, and the `IdMap` of the ids that occur."""

import contextlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leporid.data.arrays import AnyArray, Int32Array
from leporid.data.cells import finite, trimmed
from leporid.data.id_map import IdMap, uuids_as_text
from leporid.errors import DataError, article, shortened

_WHOLE = r"^(0|-?[1-9][0-9]*)(\.0+)?$"
"""An integer as a program would print it: no leading zero, no plus sign."""


def coded(
    values: pa.ChunkedArray,
    kind: str,
    origin: str,
) -> tuple[Int32Array, pa.Array]:
    """Return a code per row (-1 where missing or blank) and the value of each code.

    Only distinct values are looked at one by one, so this costs little however long the log.
    """
    extension = None
    if isinstance(values.type, pa.BaseExtensionType):
        # Arrow can only compute with UUIDs and their like as they are stored.
        extension = values.type
        values = values.cast(extension.storage_type)
    if pa.types.is_nested(values.type):
        raise _no_id(origin, kind, values.type)
    encoded = _encoded(_with_whole_floats(values, kind, origin))
    indices = encoded.indices.cast(pa.int32())  # polars has unsigned ones
    codes = np.asarray(pc.fill_null(indices, -1).to_numpy(zero_copy_only=False))
    distinct = encoded.dictionary
    if extension is not None:
        distinct = uuids_as_text(pa.ExtensionArray.from_storage(extension, distinct))
    if not pa.types.is_integer(distinct.type):
        try:
            distinct = trimmed(distinct)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise _no_id(origin, kind, distinct.type) from None
    if distinct.null_count:
        is_blank = np.asarray(pc.is_null(distinct))
        codes = np.where((codes >= 0) & ~is_blank[codes], codes, -1)
    return codes.astype(np.int32, copy=False), distinct


def _no_id(
    origin: str,
    kind: str,
    found_type: pa.DataType,
) -> DataError:
    return DataError(f"{origin}: the {kind} column has type {found_type}, no id")


def _with_whole_floats(
    values: pa.ChunkedArray,
    kind: str,
    origin: str,
) -> pa.ChunkedArray:
    """Return floats, which pandas makes of integers with gaps, as integers."""
    if pa.types.is_null(values.type):
        return values.cast(pa.int64())
    if not pa.types.is_floating(values.type):
        return values
    try:
        return finite(values).cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise DataError(
            f"{origin}: {article(kind)} id is a number with a fraction: {shortened(error)}"
        ) from None


def _encoded(values: pa.ChunkedArray) -> pa.DictionaryArray:
    if not pa.types.is_dictionary(values.type):
        if str(values.type) == "string_view":
            values = values.cast(pa.string())
        values = pc.dictionary_encode(values)
    encoded = values.unify_dictionaries().combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        return pa.concat_arrays(encoded.chunks)
    return encoded


def id_lookup(
    values: pa.Array,
    counts: AnyArray,
    kind: str,
) -> tuple[Int32Array, IdMap]:
    """Return the index of each value in the map of the ids that occur, and that map.

    An id occurs where its entry of `counts` is above 0. The indices are int32[len(values)]; a value
    that does not occur has index 0.
    """
    used = np.flatnonzero(counts)
    present = _external_ids(values.take(pa.array(used)))
    id_map = IdMap.from_values(present, kind)
    lookup = np.zeros(len(values), dtype=np.int32)
    lookup[used] = id_map.encode(present)
    return lookup, id_map


def _external_ids(values: pa.Array) -> pa.Array:
    """Return trimmed values as int64 where all are integers of 64 bits, else as text."""
    if pa.types.is_integer(values.type):
        bare = values
    elif pc.all(pc.match_substring_regex(values, _WHOLE), min_count=0).as_py():
        bare = pc.replace_substring_regex(values, r"\.0+$", "")
    else:
        return values.cast(pa.string())
    with contextlib.suppress(pa.ArrowInvalid):  # longer than 64 bits
        return bare.cast(pa.int64())
    return values.cast(pa.string())
