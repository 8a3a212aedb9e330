"""A small log with kinds of events, as rows and as a frame."""

from __future__ import annotations

import numpy as np

Row = tuple[int, int, str, int]
"""User, item, kind, time."""
KINDS = ("view", "cart", "purchase", "dislike", "spam")
WEIGHTS = {"view": 1, "cart": 3, "purchase": 5, "dislike": -1}


def rows(users: int = 30, items: int = 20, n: int = 900, seed: int = 0) -> list[Row]:
    """Every time once; views are the most frequent kind."""
    draw = np.random.default_rng(seed)
    kinds = draw.choice(KINDS, n, p=(0.5, 0.15, 0.25, 0.05, 0.05))
    columns = draw.integers(0, users, n), draw.integers(0, items, n), kinds, draw.permutation(n)
    return [(int(u), int(i), str(k), int(t)) for u, i, k, t in zip(*columns, strict=True)]


def frame(log: list[Row]) -> dict[str, list[object]]:
    names = ("user", "item", "kind", "time")
    return {name: list(column) for name, column in zip(names, zip(*log, strict=True), strict=True)}
