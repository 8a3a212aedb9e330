"""What happens to the rows real logs hold: every one is kept, or left out and counted."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from leporid.data.id_map import IdMap
from leporid.data.interactions import Interactions
from leporid.data.raw import RawTable
from leporid.data.timestamps import to_int64
from leporid.errors import DataError, LeporidWarning

__all__ = [
    "apply_policies",
    "compact_ids",
    "external_ids",
    "is_null",
    "listed",
    "plain_values",
    "whole_floats",
]

_WHOLE = r"^(0|-?[1-9][0-9]*)(\.0+)?$"
"""An integer as a program would print it: no leading zero, no plus sign."""


def apply_policies(
    raw: RawTable, min_rating: float | None, *, shape: tuple[int, int] | None = None
) -> Interactions:
    """From raw columns to `Interactions`; the reasons of what was left out are counted.

    A row counts once, for the first of these that applies: missing user, missing item, missing
    time, missing rating (only where `min_rating` asks for ratings), below `min_rating`. With
    `shape` (a matrix) the ids are positions, and empty rows and columns keep theirs.
    """
    origin = raw.report.origin
    n = raw.report.rows
    if n == 0:
        raise DataError(f"{origin} has no rows")
    user, user_ids = _codes(raw.columns["user"], "user", origin)
    item, item_ids = _codes(raw.columns["item"], "item", origin)
    keep = np.ones(n, dtype=bool)
    dropped: dict[str, int] = {}

    def leave_out(reason: str, bad: NDArray[np.bool_]) -> None:
        bad &= keep
        count = int(np.count_nonzero(bad))
        if count:
            dropped[reason] = count
            keep[bad] = False

    leave_out("missing user", user < 0)
    leave_out("missing item", item < 0)
    time = unit = None
    if "time" in raw.columns:
        arrow_time, unit = to_int64(plain_values(raw.columns["time"]), raw.report.columns["time"])
        leave_out("missing time", is_null(arrow_time))
        time = np.asarray(pc.fill_null(arrow_time, 0).to_numpy(), dtype=np.int64)
    missing = sum(dropped.values())
    if min_rating is not None:
        rating = _ratings(raw)
        leave_out("missing rating", np.isnan(rating))
        missing = sum(dropped.values())
        leave_out("below min_rating", rating < min_rating)
    elif shape is not None:
        leave_out("explicit zero", _ratings(raw) == 0)

    if missing:
        reasons = ", ".join(f"{c:,} {r}" for r, c in dropped.items() if r.startswith("missing"))
        warnings.warn(
            f"{origin}: left out {missing:,} of {n:,} rows with missing values ({reasons})",
            LeporidWarning,
            stacklevel=3,
        )
    if not keep.any():
        raise DataError(f"{origin}: no rows are left of {n:,}: {listed(dropped)}")
    if dropped:
        user, item = user[keep], item[keep]
        time = None if time is None else time[keep]
    if shape is None:
        user, users = compact_ids(user, user_ids, "user")
        item, items = compact_ids(item, item_ids, "item")
    else:
        user, item = user_ids.to_numpy()[user], item_ids.to_numpy()[item]
        users, items = IdMap.range(shape[0], "user"), IdMap.range(shape[1], "item")
    data = Interactions.from_arrays(user, item, time, users, items, dropped)
    return replace(data, source=replace(raw.report, time_unit=unit))


def listed(dropped: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in dropped.items())


def plain_values(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Strings in the one layout every kernel knows, dictionaries decoded."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    is_view = getattr(pa.types, "is_string_view", lambda _: False)
    if is_view(values.type) or pa.types.is_large_string(values.type):
        return values.cast(pa.string())
    return values


def is_null(values: pa.ChunkedArray) -> NDArray[np.bool_]:
    # `to_numpy` of a chunked array may share read-only memory, and the mask is written to.
    return np.array(pc.is_null(values, nan_is_null=True).to_numpy(), dtype=bool)


def _ratings(raw: RawTable) -> NDArray[np.float64]:
    if "rating" not in raw.columns:
        found = ", ".join(raw.report.columns.values())
        raise DataError(
            f"{raw.report.origin} has no column that looks like a rating (using: {found}), "
            f"which min_rating needs: name it with rating=... (--rating on the command line)"
        )
    try:
        column = plain_values(raw.columns["rating"]).cast(pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        name = raw.report.columns["rating"]
        raise DataError(f"{raw.report.origin}: column {name!r} is no number: {error}") from None
    return np.asarray(pc.fill_null(column, np.nan).to_numpy(), dtype=np.float64)


def _codes(values: pa.ChunkedArray, kind: str, origin: str) -> tuple[NDArray[Any], pa.Array]:
    """A code per row (-1 where missing) and the external id of each code.

    Only distinct values are looked at one by one, so this costs little however long the log.
    Codes of equal ids may differ (' 7' and '7'): the id map merges them.
    """
    if pa.types.is_floating(values.type):
        values = whole_floats(values, kind, origin)
    if pa.types.is_null(values.type):  # nothing but missing values
        values = values.cast(pa.int64())
    if not pa.types.is_dictionary(values.type):
        values = pc.dictionary_encode(plain_values(values))
    encoded = values.unify_dictionaries().combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = pa.concat_arrays(encoded.chunks)
    codes = np.asarray(pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False))
    ids = external_ids(encoded.dictionary, kind, origin)
    if ids.null_count:
        blank = np.array(pc.is_null(ids))
        codes = np.where((codes >= 0) & ~blank[codes], codes, -1)
    return codes.astype(np.int32, copy=False), ids


def whole_floats(values: pa.ChunkedArray, kind: str, origin: str) -> pa.ChunkedArray:
    """Integers that passed through a float column (pandas does this where a value is missing)."""
    values = values.cast(pa.float64())
    finite = pc.if_else(pc.is_finite(values), values, pa.scalar(None, pa.float64()))
    try:
        return finite.cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise DataError(f"{origin}: a {kind} id is a number with a fraction: {error}") from None


def external_ids(distinct: pa.Array, kind: str, origin: str) -> pa.Array:
    """Distinct ids as int64 where all are integers, else as strings; blank ones are null."""
    type_ = distinct.type
    if pa.types.is_integer(type_):
        try:
            return distinct.cast(pa.int64())
        except pa.ArrowInvalid:
            return distinct.cast(pa.string())
    if pa.types.is_null(type_):
        return distinct.cast(pa.int64())
    try:
        text = distinct.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise DataError(f"{origin}: the {kind} column has type {type_}, no id") from None
    text = pc.utf8_trim_whitespace(text)
    text = pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)
    if pc.all(pc.match_substring_regex(text, _WHOLE), min_count=0).as_py():
        try:
            return pc.replace_substring_regex(text, r"\.0+$", "").cast(pa.int64())
        except pa.ArrowInvalid:  # longer than 64 bits
            return text
    return text


def compact_ids(codes: NDArray[Any], ids: pa.Array, kind: str) -> tuple[NDArray[np.int32], IdMap]:
    """Indices into a map of the ids that are left."""
    used = np.flatnonzero(np.bincount(codes, minlength=len(ids)))
    left = ids.take(pa.array(used))
    id_map = IdMap.from_values(left, kind)
    lookup = np.zeros(len(ids), dtype=np.int32)
    lookup[used] = id_map.encode(left)
    return lookup[codes], id_map
