"""Synthetic logs: users move along a ring of items while time passes.

A user's next item lies near their position on the ring, which drifts from the first interaction
to the last, or is drawn by popularity alone. Popularity and activity follow power laws.
"""

import numpy as np

from leporid.data.arrays import Int64Array
from leporid.data.id_map import IdMap
from leporid.data.interactions import Interactions
from leporid.errors import ConfigError
from leporid.foundation import checks_arguments

_DRIFT = 0.16
"""How far a position travels, as a share of the ring."""
_REACH = 0.03
"""The standard deviation of items from the position, as a share of the ring."""
_BACKGROUND = 0.15
"""Share of interactions drawn by popularity alone."""
_GROUP = 10
"""Items of the ring that are drawn from together, by popularity."""
_ROUNDS = 30
"""Draws, ever farther away, in place of an item the user has; then any other item is taken."""
_BEGINNING = 946_684_800
"""1 January 2000, when the first user may arrive, in seconds."""
_DAY = 86_400


@checks_arguments({"seed": 0, "users": 1, "items": 1, "min_activity": 0})
def synthesize(
    users: int = 1000,
    items: int = 500,
    interactions: int = 50_000,
    *,
    seed: int = 0,
    min_activity: int = 20,
) -> Interactions:
    """Make a seeded log of exactly `interactions` pairs, with neighbourhoods and drift.

    Every user has at least `min_activity` of them, or half the mean, if that is less.
    """
    if users < 1 or items < 1:
        raise ConfigError(
            f"users and items must be at least 1, got {users} and {items}"
        )
    if not users <= interactions <= users * items:
        raise ConfigError(
            f"{users:,} users and {items:,} items can have from {users:,} to "
            f"{users * items:,} distinct interactions, not {interactions:,}"
        )
    rng = np.random.default_rng(seed)
    counts = _activities(rng, users, items, interactions, min_activity)
    user = np.repeat(np.arange(users), counts)
    first = np.cumsum(counts) - counts
    progress = (np.arange(interactions) - first[user]) / counts[user]
    # Zipf-Mandelbrot: without the shift the tail would be far too popular for a real log.
    rank = np.arange(1, items + 1)
    popularity = rng.permutation((rank + items / 10) ** -2.0)
    cumulative = np.concatenate([[0], np.cumsum(popularity)])
    groups = max(1, items // _GROUP)
    first_items = np.linspace(0, items, groups + 1).astype(np.int64)
    bounds = cumulative[first_items]
    place = rng.random(users)[user] + _DRIFT * progress
    item = np.full(interactions, -1)
    todo = np.arange(interactions)
    for widening in np.linspace(1, 6, _ROUNDS):
        offset = widening * _REACH * rng.normal(size=len(todo))
        position = place[todo] + offset
        group = np.floor(position * groups).astype(np.int64) % groups
        by_popularity = rng.random(len(todo)) < _BACKGROUND
        low = np.where(by_popularity, 0, bounds[group])
        high = np.where(by_popularity, bounds[-1], bounds[group + 1])
        mass = rng.uniform(low, high)
        drawn = np.searchsorted(cumulative, mass, side="right") - 1
        item[todo] = np.minimum(drawn, items - 1)
        todo = _repeats(user, item, items)
    for crowded in np.unique(user[todo]):
        rows = todo[user[todo] == crowded]
        start = first[crowded]
        has = item[start : start + counts[crowded]]
        free = np.setdiff1d(np.arange(items), has)
        item[rows] = rng.permutation(free)[: len(rows)]
    return Interactions(
        user=user.astype(np.int32),
        item=rng.permutation(items)[item].astype(np.int32),
        time=_times(rng, user, first),
        users=IdMap.range(users, "user"),
        items=IdMap.range(items, "item"),
    )


def _activities(
    rng: np.random.Generator,
    users: int,
    items: int,
    total: int,
    min_activity: int,
) -> Int64Array:
    """Draw int64[users] with the exact sum `total`: a floor plus a Lomax tail, capped."""
    mean = total / users
    floor = min(min_activity, int(mean / 2))
    counts = np.full(users, max(1, floor))
    cap = max(items // 2, int(np.ceil(1.2 * mean)))
    cap = min(items, cap)
    weight = rng.pareto(1.8, size=users) + 1e-9
    while left := total - int(counts.sum()):  # what the cap cuts off goes to the others
        free = np.flatnonzero(counts < cap)
        more = rng.multinomial(left, weight[free] / weight[free].sum())
        counts[free] = np.minimum(counts[free] + more, cap)
    return counts


def _repeats(
    user: Int64Array,
    item: Int64Array,
    items: int,
) -> Int64Array:
    """Return the rows whose user has the item from an earlier row."""
    pairs = user * items + item
    order = np.argsort(pairs, kind="stable")
    is_repeat = np.diff(pairs[order]) == 0
    return np.asarray(order[1:][is_repeat])


def _times(
    rng: np.random.Generator,
    user: Int64Array,
    first: Int64Array,
) -> Int64Array:
    """Draw int64[n] seconds, ascending within a user: minutes apart, days between sessions."""
    n = len(user)
    gap = rng.integers(30, 900, size=n)
    ends_session = rng.random(n) < 0.2
    pause = (rng.exponential(5.0, size=n) * _DAY).astype(np.int64)
    gap += ends_session * pause
    elapsed = np.cumsum(gap)
    arrival = _BEGINNING + rng.integers(0, 3 * 365 * _DAY, size=len(first))
    return np.asarray(elapsed - elapsed[first][user] + arrival[user])
