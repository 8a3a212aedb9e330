"""A synthetic shop: events (views, carts, purchases, returns) and a table of its items.

    python -m examples.shop shop.csv [--users 600] [--items 400] [--views 20000] [--seed 0]

writes the events, and the items beside them as shop-items.csv. docs/shop.md goes on from there.

Users look around in a few categories, put some of what they see into the cart and buy some of
that. Some of what they buy they buy again and again. Some items are new: nobody has seen them.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leporid.data import write_log
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
    counts = rng.multinomial(views, rng.dirichlet(np.full(users, 2.0)))
    user = np.repeat(np.arange(users), counts)
    item = np.concatenate([_viewed(rng, count, category, popularity) for count in counts])
    time = _BEGINNING + rng.integers(0, _DAYS * _DAY, size=views)
    cart = np.flatnonzero(rng.random(views) < _INTO_CART)
    bought = cart[rng.random(len(cart)) < _BOUGHT]
    staple = bought[rng.random(len(bought)) < _STAPLES]
    gap = rng.integers(5 * _DAY, 30 * _DAY, size=(len(staple), 1))
    later = time[staple][:, None] + gap * np.arange(1, _DAYS // 5)
    is_logged = later < _BEGINNING + _DAYS * _DAY
    again = np.repeat(staple, is_logged.sum(axis=1))
    sent_back = bought[rng.random(len(bought)) < _RETURNED]
    rows = [np.arange(views), cart, bought, again, sent_back]
    kinds = ["view", "cart", "purchase", "purchase", "return"]
    after = time, time[cart] + 60, time[bought] + 300, later[is_logged], time[sent_back] + 3 * _DAY
    events = pa.table(
        {
            "user_id": user[np.concatenate(rows)],
            "item_id": item[np.concatenate(rows)],
            "event": np.repeat(kinds, [len(part) for part in rows]),
            "timestamp": np.concatenate(after),
        }
    )
    return events.sort_by("timestamp"), _item_table(rng, category)


def _viewed(
    rng: np.random.Generator, count: int, category: NDArray[np.int64], popularity: NDArray[Any]
) -> NDArray[np.int64]:
    """int64[count]: items of categories that one user likes, by popularity."""
    weight = rng.dirichlet(np.full(len(CATEGORIES), 0.3))[category] * popularity
    return rng.choice(len(category), count, p=weight / weight.sum())


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


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    for name, default in (("users", 600), ("items", 400), ("views", 20_000), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    events, items = synthesize_shop(asked.users, asked.items, asked.views, seed=asked.seed)
    for table, path in (
        (events, asked.output),
        (items, asked.output.with_stem(f"{asked.output.stem}-items")),
    ):
        print(f"wrote {write_log(table, path)}: {len(table):,} rows")


if __name__ == "__main__":
    main()
