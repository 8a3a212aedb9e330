"""Landmarks: fit on some rows, and extend to all others out of sample.

Rows with interactions are ordered by activity (their number of items, ties in an order drawn from
the seed) and cut into m strata of equal size, give or take one; one row is drawn from each. So
every row is equally likely and every level of activity has its share. K shrinks with the rows
(`landmark_neighbours`), so that a neighbourhood covers the same part of the data as in the exact
graph. The choice does not depend on the order of the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.errors import ConfigError
from leporid.graph import BinaryCSR, binary_csr

Landmarks = int | float | Literal["auto"] | None
"""How many rows to fit on: a number, a share in (0, 1), None for all, or by the number of rows."""

EXACT_IS_WORTH = 4.0
"""`auto` fits all rows while that costs at most this many times as much as landmarks."""
EXACT_UP_TO = 65_000
"""Rows at which it does, rounded: benchmarks/records/scale.json."""
AUTO_LANDMARKS = 20_000
"""Landmarks beyond: those of that record."""

ENTRIES_AT_ONCE, ROWS_AT_ONCE = 1 << 20, 1 << 16
"""Size of a block of rows, which may lie in a file."""
FEWEST_NEIGHBOURS = 50
"""K among landmarks falls no lower than this (or the K asked for, if that is less)."""


def check_landmarks(landmarks: Landmarks) -> None:
    """Refuse what is neither None, 'auto', a number of rows nor a share of them."""
    number = isinstance(landmarks, int | np.integer) and landmarks is not True and landmarks >= 2
    share = isinstance(landmarks, float | np.floating) and 0.0 < landmarks < 1.0
    if not (landmarks is None or landmarks == "auto" or number or share):
        raise ConfigError(
            f"landmarks must be a number of rows (at least 2), a share of them between 0 and 1, "
            f"None for all rows or 'auto', not {landmarks!r}"
        )


def landmark_count(landmarks: Landmarks, n: int) -> int:
    """The number of landmarks among `n` rows: at least 2, at most `n`."""
    check_landmarks(landmarks)
    if landmarks is None or (landmarks == "auto" and n <= EXACT_UP_TO):
        return n
    if landmarks == "auto":
        return AUTO_LANDMARKS
    count = round(landmarks * n) if isinstance(landmarks, float) else int(landmarks)
    return min(max(count, 2), n)


def landmark_neighbours(k: int, count: int, n: int) -> int:
    """K among `count` landmarks of `n` rows: K count / n, rounded up.

    That keeps the radius of a neighbourhood; a larger K joins rows the exact graph keeps apart.
    """
    if count >= n:
        return k
    return min(k, max(-(-k * count // n), FEWEST_NEIGHBOURS))


def choose_landmarks(
    rows: sparse.csr_array | BinaryCSR, count: int, seed: int
) -> NDArray[np.int64]:
    """int64[m], ascending: one row from each of `count` strata of activity.

    `rows` has sorted indices and no stored zeros. Fewer than `count` are returned where fewer
    rows have interactions.
    """
    binary = binary_csr(rows)
    activity = binary.degrees
    some = np.flatnonzero(activity)
    count = min(count, len(some))
    order = some[np.lexsort((row_keys(binary, seed)[some], activity[some]))]
    edges = np.arange(count + 1, dtype=np.int64) * len(some) // max(count, 1)
    inside = np.random.default_rng(seed).random(count) * np.diff(edges)
    return np.sort(order[edges[:-1] + inside.astype(np.int64)]).astype(np.int64)


def row_keys(rows: BinaryCSR, seed: int) -> NDArray[np.uint64]:
    """uint64[n]: a hash of every set of columns: the sum of random numbers, modulo 2^64."""
    drawn = np.random.default_rng([seed, 1]).integers(0, 2**64, rows.n_columns, np.uint64)
    keys = np.empty(rows.n, np.uint64)
    for here in row_blocks(rows.indptr):
        indptr = rows.indptr[here[0] : here[-1] + 2]
        numbers = drawn[rows.columns[indptr[0] : indptr[-1]]]
        running = np.concatenate([[np.uint64(0)], np.cumsum(numbers, dtype=np.uint64)])
        keys[here] = np.diff(running[indptr - indptr[0]])
    return keys


def row_blocks(indptr: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Rows of at most `ENTRIES_AT_ONCE` entries together, or one row with more."""
    start, n = 0, len(indptr) - 1
    while start < n:
        full = int(np.searchsorted(indptr, indptr[start] + ENTRIES_AT_ONCE, side="right")) - 1
        stop = min(max(full, start + 1), start + ROWS_AT_ONCE, n)
        yield np.arange(start, stop)
        start = stop
