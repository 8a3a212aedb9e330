"""Ids that somebody gives: one or several, and histories of items."""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from leporid.data import IdMap
from leporid.errors import DataError, UnknownIdError, warn
from leporid.foundation import described, is_table
from leporid.ranking.asked_users import Unknown
from leporid.ranking.top_k import Indices


def is_id(value: object) -> bool:
    """Return whether a value is one external id, not several."""
    return isinstance(value, str | int | np.integer | uuid.UUID | pa.Scalar)


def id_indices(
    ids: IdMap,
    externals: Any,
) -> Indices:
    """Return the indices of one external id or of several."""
    return ids.indices([externals] if is_id(externals) else externals)


def check_list(history: object) -> None:
    """Refuse a history that is not a list of item ids."""
    is_other = isinstance(history, str | bytes | Mapping) or is_table(history)
    if is_other or not isinstance(history, Iterable):
        raise DataError(f"a history is a list of item ids, not {described(history)}")


def history_indices(
    items: IdMap,
    histories: Iterable[Iterable[object]],
    model: str,
    unknown: Unknown = "error",
) -> list[Indices]:
    """Return the item indices of each history; a warning counts items the model does not know.

    A history without items that it knows is an error, or with another `unknown` an empty row.
    """
    rows: list[Indices] = []
    left_out: list[object] = []
    for number, history in enumerate(histories):
        check_list(history)
        row, unknown_here = items.split_known(history)
        rows.append(row)
        if len(row) == 0 and unknown != "error":
            continue
        if len(row) == 0 and unknown_here:
            raise UnknownIdError(
                f"history {number} has no item that {model} knows: {unknown_here[0]!r} is none "
                f"of its {len(items):,} items"
            )
        if len(row) == 0:
            raise DataError(f"history {number} is empty: give at least one item id")
        left_out += unknown_here
    if left_out:
        n_items = len(left_out) + sum(map(len, rows))
        warn(
            f"{len(left_out):,} of {n_items:,} history items are "
            f"unknown to {model} and left out, the first is {left_out[0]!r}",
            4,
        )
    return rows
