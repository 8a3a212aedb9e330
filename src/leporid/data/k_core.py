"""The k-core: only users and items that occur often enough to learn from."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from leporid.data.arrays import AnyArray, Int64Array
from leporid.errors import ConfigError, DataError, warn

Pairs = Iterable[tuple[AnyArray, AnyArray]]
"""Users and items of the interactions, a block at a time."""


def core_counts(
    pairs: Callable[[], Pairs],
    n_users: int,
    n_items: int,
    k: int,
) -> tuple[Int64Array, Int64Array]:
    """Count the interactions per user and per item within the k-core, 0 outside it.

    `pairs` is called once per round, so that a log on disk can be read again. Fewer than half of
    the users left give one warning.
    """
    if k < 1:
        raise ConfigError(f"the core needs k >= 1, got {k}")
    has_user = np.ones(n_users, bool)
    has_item = np.ones(n_items, bool)
    of_all: _Extremes | None = None
    while True:
        of_user = np.zeros(n_users, np.int64)
        of_item = np.zeros(n_items, np.int64)
        for user, item in pairs():
            keep = has_user[user] & has_item[item]
            of_user += np.bincount(user[keep], minlength=n_users)
            of_item += np.bincount(item[keep], minlength=n_items)
        if of_all is None:
            of_all = _Extremes(
                of_user.sum(),
                of_user.max(initial=0),
                of_item.max(initial=0),
            )
        if not of_user.any():
            raise DataError(
                f"the {k}-core of {of_all.interactions:,} interactions of {n_users:,} users and "
                f"{n_items:,} items is empty (the most active user has {of_all.of_a_user:,}, the "
                f"most popular item {of_all.of_an_item:,}): choose a smaller k"
            )
        has_user = of_user >= k
        has_item = of_item >= k
        users_stay = np.array_equal(has_user, of_user > 0)
        if users_stay and np.array_equal(has_item, of_item > 0):
            break
    left = np.count_nonzero(has_user)
    if 2 * left < n_users:
        warn(
            f"the {k}-core leaves {left:,} of {n_users:,} users: results say nothing about the "
            f"others, a smaller k keeps more of them",
            4,
        )
    return of_user, of_item


class _Extremes(NamedTuple):
    """The most interactions there are, before any is left out."""

    interactions: int
    of_a_user: int
    of_an_item: int


def with_core_dropped(
    dropped: Mapping[str, int],
    rows: int,
    k: int,
) -> dict[str, int]:
    """Return the counts of rows left out, after the core has left out some more."""
    counts = dict(dropped)
    if rows:
        reason = f"outside the {k}-core"
        counts[reason] = counts.get(reason, 0) + rows
    return counts
