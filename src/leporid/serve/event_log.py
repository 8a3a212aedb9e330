"""`merged_log`: the events of a store as interactions, after those of a log."""

import contextlib
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from leporid.data import Duplicates, IdMap, Interactions
from leporid.errors import DataError
from leporid.serve.store import existing_store

_SCHEMA = pa.schema(
    {"user_id": pa.string(), "item_id": pa.string(), "timestamp": pa.int64()}
)


def merged_log(
    store: str | Path,
    log: Interactions | None = None,
    duplicates: Duplicates = "first",
) -> Interactions:
    """Return the events of a store, after those of a log if there is one.

    Ids are whole numbers if all of them are; `duplicates` is as in `leporid.load`.
    """
    with contextlib.closing(existing_store(store)) as opened:
        events = list(opened.events())
    if not events:
        # A URL may hold a password.
        name = "the store" if "://" in str(store) else store
        raise DataError(f"{name} holds no events yet")
    if log is not None:
        _check_log(log)
    columns = zip(*events, strict=True)
    table = pa.table(dict(zip(_SCHEMA.names, columns, strict=True)), _SCHEMA)
    if log is not None:
        table = pa.concat_tables([log.to_table().cast(_SCHEMA), table])
    users, user_indices = _encode(table["user_id"], "user")
    items, item_indices = _encode(table["item_id"], "item")
    return Interactions.from_arrays(
        user_indices,
        item_indices,
        table["timestamp"].to_numpy(),
        users,
        items,
        duplicates=duplicates,
    )


def _check_log(log: Interactions) -> None:
    """Refuse a log that events cannot be appended to."""
    if log.time is None:
        raise DataError(
            "the log has no times, so events cannot be put in order with it: read it with "
            "--order file if its rows are in time order"
        )
    if log.weight is not None or log.is_target is not None or log.disliked:
        raise DataError(
            "the log has weights or kinds of events, and events have none: read it without them"
        )


def _encode(
    column: pa.ChunkedArray,
    kind: Literal["user", "item"],
) -> tuple[IdMap, NDArray[np.int32]]:
    """Return the distinct ids of a column, and the index of each entry among them."""
    texts = column.combine_chunks()
    are_whole_numbers = pc.match_substring_regex(texts, r"^(0|-?[1-9][0-9]{0,17})$")
    ids = texts.cast(pa.int64()) if pc.all(are_whole_numbers).as_py() else texts
    id_map = IdMap.from_values(ids, kind)
    return id_map, id_map.encode(ids)
