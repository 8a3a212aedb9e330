"""The k-core: only users and items that occur often enough to learn from."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leporid.errors import ConfigError, DataError, warn

Pairs = Iterable[tuple[NDArray[Any], NDArray[Any]]]
"""Users and items of the interactions, a block at a time."""


def core_counts(
    pairs: Callable[[], Pairs], n_users: int, n_items: int, k: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Interactions per user and per item within the k-core, 0 outside it.

    `pairs` is called once per round, so that a log on disk can be read again. Fewer than half of
    the users left give one warning.
    """
    if k < 1:
        raise ConfigError(f"the core needs k >= 1, got {k}")
    users, items = np.ones(n_users, bool), np.ones(n_items, bool)
    most: list[int] = []
    while True:
        of_user, of_item = np.zeros(n_users, np.int64), np.zeros(n_items, np.int64)
        for user, item in pairs():
            keep = users[user] & items[item]
            of_user += np.bincount(user[keep], minlength=n_users)
            of_item += np.bincount(item[keep], minlength=n_items)
        most = most or [of_user.sum(), of_user.max(initial=0), of_item.max(initial=0)]
        if not of_user.any():
            raise DataError(
                f"the {k}-core of {most[0]:,} interactions of {n_users:,} users and {n_items:,} "
                f"items is empty (the most active user has {most[1]:,}, the most popular item "
                f"{most[2]:,}): choose a smaller k"
            )
        users, items = of_user >= k, of_item >= k
        if np.array_equal(users, of_user > 0) and np.array_equal(items, of_item > 0):
            break
    if 2 * (kept := np.count_nonzero(users)) < n_users:
        warn(
            f"the {k}-core leaves {kept:,} of {n_users:,} users: results say nothing about the "
            f"others, a smaller k keeps more of them",
            4,
        )
    return of_user, of_item


def with_core_dropped(dropped: Mapping[str, int], rows: int, k: int) -> dict[str, int]:
    """The counts of rows left out, after the core has left out some more."""
    reason = f"outside the {k}-core"
    return {**dropped, reason: dropped.get(reason, 0) + rows} if rows else dict(dropped)
