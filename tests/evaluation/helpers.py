"""Small splits for the tests of this room."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from leporid.data import IdMap, Interactions, Sequences, Split


def sequences(rows: Sequence[Sequence[int]]) -> Sequences:
    """Lists of item indices as `Sequences`."""
    return Sequences.from_rows([np.array(row, dtype=np.int32) for row in rows])


def make_split(
    train: Sequence[Sequence[int]],
    valid: Sequence[Sequence[int]],
    test: Sequence[Sequence[int]],
    n_items: int,
    users: Sequence[str | int] | None = None,
    items: Sequence[str | int] | None = None,
) -> Split:
    """A split from item indices user by user; external ids are 'u0', 'u1', ... and 'i00', ..."""
    user_ids = IdMap.from_values(users or [f"u{u}" for u in range(len(train))], "user")
    item_ids = IdMap.from_values(items or [f"i{i:02d}" for i in range(n_items)], "item")

    def part(rows: Sequence[Sequence[int]]) -> Interactions:
        user = np.repeat(np.arange(len(rows)), [len(r) for r in rows])
        item = np.array([i for r in rows for i in r], dtype=np.int32)
        return Interactions.from_arrays(user, item, None, user_ids, item_ids)

    return Split(part(train), part(valid), part(test), "by hand")


def random_split(seed: int, n_users: int = 40, n_items: int = 33) -> Split:
    """Random and lopsided: activity and popularity vary, some users have no test items."""
    rng = np.random.default_rng(seed)
    weight = 1.0 / np.arange(1, n_items + 1)
    parts: list[list[list[int]]] = [[], [], []]
    for _ in range(n_users):
        drawn = rng.choice(n_items, rng.integers(3, 16), replace=False, p=weight / weight.sum())
        cuts = sorted(rng.integers(1, len(drawn) + 1, size=2))
        for part, piece in zip(parts, np.split(drawn, cuts), strict=True):
            part.append([int(i) for i in piece])
    return make_split(*parts, n_items)
