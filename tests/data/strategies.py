"""Random logs for property tests, and the slow, obvious way to do what the library does."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from leporid.data import IdMap, Interactions

Row = tuple[int, int, int]

rows = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 9), st.integers(-3, 12)), min_size=1, max_size=80
)
"""(user, item, time) with many repeated pairs and equal times; more items than users."""


def naive_history(rows: list[Row]) -> list[Row]:
    """By user, time and place in the list; the first of every (user, item) pair."""
    seen: set[tuple[int, int]] = set()
    kept = []
    for user, item, time in sorted(rows, key=lambda row: (row[0], row[2])):
        if (user, item) not in seen:
            seen.add((user, item))
            kept.append((user, item, time))
    return kept


def interactions_of(rows: list[Row], *, with_time: bool = True) -> Interactions:
    """Interactions over the ids that occur."""
    user, item, time = (np.array(column) for column in zip(*rows, strict=True))
    users, items = IdMap.from_values(user, "user"), IdMap.from_values(item, "item")
    return Interactions.from_arrays(
        users.encode(user), items.encode(item), time if with_time else None, users, items
    )


def external_rows(data: Interactions) -> list[tuple[object, object, int | None]]:
    """(user, item, time) with external ids, in order."""
    times = [None] * len(data) if data.time is None else data.time.tolist()
    return list(
        zip(
            data.users.externals(data.user).tolist(),
            data.items.externals(data.item).tolist(),
            times,
            strict=True,
        )
    )
