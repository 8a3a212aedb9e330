"""`synthesize_shop`: events of a shop (views, carts, purchases, returns) and a table of its items.

Users look around in a few categories, put some of what they see into the cart and buy some of
that. Some of what they buy they buy again and again. Some items are new: nobody has seen them.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leporid.errors import ConfigError

CATEGORIES = ("bread", "cheese", "fruit", "drinks", "sweets", "pasta", "care", "household")
_INTO_CART, _BOUGHT, _RETURNED = 0.3, 0.6, 0.05
"""Shares: of views that reach the cart, of carts that are bought, of purchases sent back."""
_STAPLES = 0.4
"""Share of purchases that are repeated, every 5 to 30 days."""
_NEW = 0.05
"""Share of the items that nobody has seen yet."""
_BEGINNING, _DAY, _DAYS = 1_735_689_600, 86_400, 120
"""1 January 2025 in seconds; the log covers so many days."""


def synthesize_shop(
    users: int = 600, items: int = 400, views: int = 20_000, *, seed: int = 0
) -> tuple[pa.Table, pa.Table]:
    """A seeded log of a shop with its item table.

    Returns the events (`user_id`, `item_id`, `event`, `timestamp` in seconds, in order of time) and
    the items (`item_id`, `title`, `category`, `price`, `in_stock`). About `views` rows are views.
    """
    if min(users, views) < 1 or items < 2 * len(CATEGORIES):
        raise ConfigError(
            f"a shop needs users, views and {2 * len(CATEGORIES)} items or more, got {users}, "
            f"{views} and {items}"
        )
    rng = np.random.default_rng(seed)
    category = np.sort(rng.integers(len(CATEGORIES), size=items))
    popularity = rng.pareto(1.5, size=items) + 0.1
    popularity[rng.permutation(items)[: int(_NEW * items)]] = 0.0
    user = rng.choice(users, views, p=rng.dirichlet(np.full(users, 2.0)))
    item = _viewed(rng, user, users, category, popularity)
    time = _BEGINNING + rng.integers(0, _DAYS * _DAY, size=views)
    cart = np.flatnonzero(rng.random(views) < _INTO_CART)
    bought = cart[rng.random(len(cart)) < _BOUGHT]
    staple = bought[rng.random(len(bought)) < _STAPLES]
    again, later = _again(rng, time[staple])
    sent_back = bought[rng.random(len(bought)) < _RETURNED]
    rows = np.concatenate([np.arange(views), cart, bought, staple[again], sent_back])
    kinds = ["view", "cart", "purchase", "purchase", "return"]
    counts = [views, len(cart), len(bought), len(again), len(sent_back)]
    after = [time, time[cart] + 60, time[bought] + 300, later, time[sent_back] + 3 * _DAY]
    events = pa.table(
        {
            "user_id": user[rows],
            "item_id": item[rows],
            "event": np.repeat(kinds, counts),
            "timestamp": np.concatenate(after),
        }
    )
    return events.sort_by("timestamp"), _item_table(rng, category)


def _viewed(
    rng: np.random.Generator,
    user: NDArray[np.int64],
    users: int,
    category: NDArray[np.int64],
    popularity: NDArray[np.float64],
) -> NDArray[np.int64]:
    """int64[views]: an item of a category that the user likes, by popularity."""
    taste = np.cumsum(rng.dirichlet(np.full(len(CATEGORIES), 0.3), size=users), axis=1)
    chosen = np.sum(taste[user] < rng.random((len(user), 1)), axis=1).clip(max=len(CATEGORIES) - 1)
    ends = np.searchsorted(category, np.arange(len(CATEGORIES) + 1))
    cumulative = np.concatenate([[0.0], np.cumsum(popularity)])
    draw = rng.uniform(cumulative[ends[chosen]], cumulative[ends[chosen + 1]])
    found = np.searchsorted(cumulative, draw, side="right") - 1
    return np.asarray(found.clip(max=len(category) - 1))


def _again(
    rng: np.random.Generator, time: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which purchases are repeated, each as often as the days that are left allow, and when."""
    gap = rng.integers(5 * _DAY, 30 * _DAY, size=len(time))
    times = (_BEGINNING + _DAYS * _DAY - time) // gap
    which = np.repeat(np.arange(len(time)), times)
    number = np.arange(len(which)) - np.repeat(np.cumsum(times) - times, times) + 1
    return which, time[which] + number * gap[which]


def _item_table(rng: np.random.Generator, category: NDArray[np.int64]) -> pa.Table:
    names = np.asarray(CATEGORIES)[category]
    return pa.table(
        {
            "item_id": np.arange(len(category)),
            "title": [f"{name} no. {number}" for number, name in enumerate(names, 1)],
            "category": names,
            "price": np.round(np.exp(rng.normal(1.0 + category / 4, 0.5)), 2),
            "in_stock": rng.random(len(category)) < 0.9,
        }
    )
