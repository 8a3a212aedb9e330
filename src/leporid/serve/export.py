"""From the store of events back to a log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leporid.data.id_map import IdMap
from leporid.data.interactions import Interactions
from leporid.errors import DataError
from leporid.serve.store import open_store

__all__ = ["merged_log"]


def merged_log(store: str | Path, log: Interactions | None = None) -> Interactions:
    """The events of a store, after those of a log where one is given.

    Ids are whole numbers where all of them are, as in a file. The first of each (user, item)
    pair in time stays.
    """
    if "://" not in str(store) and not Path(store).is_file():
        raise DataError(f"no such store: {store}")
    opened = open_store(store)
    events = list(opened.events())
    opened.close()
    if not events:
        # A URL may hold a password.
        raise DataError(f"{'the store' if '://' in str(store) else store} holds no events yet")
    if log is not None and log.time is None:
        raise DataError("the log has no times, so events cannot be put in order with it")
    sides = []
    for side, kind in enumerate(("user", "item")):
        column = pa.array([event[side] for event in events], pa.string())
        if log is not None:
            ids, index = (log.users, log.user) if side == 0 else (log.items, log.item)
            column = pa.concat_arrays([ids.ids.take(pa.array(index)).cast(pa.string()), column])
        sides.append(_column(column, kind))
    time = np.asarray([event.time for event in events], np.int64)
    if log is not None and log.time is not None:
        time = np.concatenate([log.time, time])
    (users, user), (items, item) = sides
    return Interactions.from_arrays(user, item, time, users, items)


def _column(texts: pa.Array, kind: str) -> tuple[IdMap, Any]:
    """The id map of a column of texts, and the index of each row."""
    whole = pc.all(pc.match_substring_regex(texts, r"^(0|-?[1-9][0-9]{0,17})$")).as_py()
    values = texts.cast(pa.int64()) if whole else texts
    ids = IdMap.from_values(values, kind)
    return ids, ids.encode(values)
