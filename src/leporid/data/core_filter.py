"""The k-core: only users and items that are seen often enough to learn from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from leporid.data.interactions import Interactions
from leporid.errors import ConfigError, DataError

__all__ = ["core_filter"]


def core_filter(interactions: Interactions, k: int) -> Interactions:
    """Keep users and items with at least `k` interactions, repeated until nothing changes.

    The fixed point does not depend on the order of the removals. The id maps are compacted to
    what remains, and `dropped` counts the rows left out. A core that removes everything is a
    `DataError` that says how large `k` may be.
    """
    if k < 1:
        raise ConfigError(f"the core needs k >= 1, got {k}")
    user, item = interactions.user, interactions.item
    rows = np.arange(len(user))
    while True:
        user_counts = np.bincount(user[rows], minlength=interactions.n_users)
        item_counts = np.bincount(item[rows], minlength=interactions.n_items)
        keep = (user_counts[user[rows]] >= k) & (item_counts[item[rows]] >= k)
        if keep.all():
            break
        rows = rows[keep]
    if len(rows) == 0:
        raise DataError(_nothing_left(interactions, k))

    kept_users, kept_items = np.flatnonzero(user_counts), np.flatnonzero(item_counts)
    new_user = np.zeros(interactions.n_users, dtype=np.int32)
    new_item = np.zeros(interactions.n_items, dtype=np.int32)
    new_user[kept_users] = np.arange(len(kept_users), dtype=np.int32)
    new_item[kept_items] = np.arange(len(kept_items), dtype=np.int32)
    dropped = dict(interactions.dropped)
    if len(rows) < len(user):
        reason = f"outside the {k}-core"
        dropped[reason] = dropped.get(reason, 0) + len(user) - len(rows)
    return replace(
        interactions,
        user=new_user[user[rows]],
        item=new_item[item[rows]],
        time=None if interactions.time is None else interactions.time[rows],
        users=interactions.users.take(kept_users),
        items=interactions.items.take(kept_items),
        dropped=dropped,
    )


def _nothing_left(interactions: Interactions, k: int) -> str:
    most_user = int(np.bincount(interactions.user, minlength=1).max())
    most_item = int(np.bincount(interactions.item, minlength=1).max())
    return (
        f"the {k}-core of {len(interactions):,} interactions of {interactions.n_users:,} users "
        f"and {interactions.n_items:,} items is empty (the most active user has {most_user:,}, "
        f"the most popular item {most_item:,}): choose a smaller k"
    )
