"""`merge_interactions`: what a model knows and a new log, in one order and with the ids of both."""

import numpy as np
from numpy.typing import NDArray

from leporid.data import IdMap, Interactions, ItemTable
from leporid.errors import DataError


def merge_interactions(
    old: Interactions,
    new: Interactions | None,
    tables: list[ItemTable],
) -> Interactions:
    """Return all interactions, in one order, with the ids of both and of the table of new items."""
    new_items: list[int | str] = tables[0].ids.to_pylist() if tables else []
    new_users: list[int | str] = []
    if new is not None:
        new_items += new.items.ids.to_pylist()
        new_users += new.users.ids.to_pylist()
    items = _more_ids(old.items, new_items)
    users = _more_ids(old.users, new_users)
    parts = [old]
    if new is not None and len(new):
        parts.append(new)
    if old.time is not None and any(part.time is None for part in parts):
        raise DataError(
            "the new interactions have no times, and those of the model have"
        )
    renumbered = []
    for part in parts:
        user_rows = _rows(users, part.users)
        item_rows = _rows(items, part.items)
        renumbered.append(part.renumbered(user_rows, item_rows, users, items))
    joined = Interactions.joined(*renumbered)
    return Interactions.from_arrays(
        joined.user,
        joined.item,
        joined.time,
        users,
        items,
        weight=joined.weight,
        is_target=joined.is_target,
        disliked=joined.disliked,
        duplicates="all" if old.repeats else "first",
    )


def _rows(ids: IdMap, part: IdMap) -> NDArray[np.int32]:
    return ids.encode(part.ids.cast(ids.ids.type))


def _more_ids(old: IdMap, new: list[int | str]) -> IdMap:
    """Return the ids of both; what the old map counts as dropped stays."""
    kind: type[int | str] = int if old.is_integer else str
    try:
        added = [kind(value) for value in new if value is not None]
    except ValueError as error:
        raise DataError(
            f"the model's {old.kind} ids are whole numbers: {error}"
        ) from None
    ids = [*old.ids.to_pylist(), *added]
    merged = IdMap.from_values(ids, old.kind)
    return IdMap(merged.ids, old.kind, old.dropped, old.core)
