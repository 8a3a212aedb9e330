"""Landmarks: the rows that a spectral fit is made on, where it does not take all of them.

Rows with interactions are ordered by activity (their number of items, ties in an order drawn from
the seed) and cut into m strata of equal size, give or take one; one row is drawn from each. So
every row is equally likely and every level of activity has its share. The choice does not depend
on the order of the rows.
"""

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from leporid.embeddings.arrays import Int64Array
from leporid.errors import ConfigError
from leporid.graph import BinaryCSR

Landmarks = int | float | Literal["auto"] | None
"""Rows to fit on: a number, a share in (0, 1), None for all, or "auto" by the number of rows."""

EXACT_UP_TO = 65_000
"""`auto` fits all rows up to here, at most four times the cost: benchmarks/records/scale.json."""
AUTO_LANDMARKS = 20_000
"""Landmarks beyond: those of that record."""
FEWEST_NEIGHBOURS = 50
"""K among landmarks falls no lower than this (or the K asked for, if that is less)."""
ENTRIES_AT_ONCE = 1 << 20
"""Most entries of a block of rows, which may lie in a file."""
ROWS_AT_ONCE = 1 << 16
"""Most rows of a block."""


def landmark_count(landmarks: Landmarks, n: int) -> int:
    """Return the number of landmarks among `n` rows: at least 2, at most `n`."""
    is_number = (
        isinstance(landmarks, int | np.integer)
        and landmarks is not True
        and landmarks >= 2
    )
    is_share = isinstance(landmarks, float | np.floating) and 0.0 < landmarks < 1.0
    if not (landmarks is None or landmarks == "auto" or is_number or is_share):
        raise ConfigError(
            f"landmarks must be a number of rows (at least 2), a share of them between 0 and 1, "
            f"None for all rows or 'auto', not {landmarks!r}"
        )
    if landmarks is None or (landmarks == "auto" and n <= EXACT_UP_TO):
        return n
    if landmarks == "auto":
        return AUTO_LANDMARKS
    count = round(landmarks * n) if isinstance(landmarks, float) else int(landmarks)
    return min(max(count, 2), n)


def landmark_neighbours(k: int, count: int, n: int) -> int:
    """Return K among `count` landmarks of `n` rows: K count / n, rounded up.

    That keeps the radius of a neighbourhood; a larger K joins rows the exact graph keeps apart.
    """
    if count >= n:
        return k
    share = -(-k * count // n)
    return min(k, max(share, FEWEST_NEIGHBOURS))


def choose_landmarks(rows: BinaryCSR, count: int, seed: int) -> Int64Array:
    """int64[m], ascending: a row from each of `count` strata, fewer if few have interactions."""
    active = np.flatnonzero(rows.degrees)
    count = min(count, len(active))
    by_activity = np.lexsort((row_keys(rows, seed)[active], rows.degrees[active]))
    order = active[by_activity]
    edges = np.arange(count + 1, dtype=np.int64) * len(active) // max(count, 1)
    inside = np.random.default_rng(seed).random(count) * np.diff(edges)
    return np.sort(order[edges[:-1] + inside.astype(np.int64)]).astype(np.int64)


def row_keys(rows: BinaryCSR, seed: int) -> NDArray[np.uint64]:
    """uint64[n]: a hash of every set of columns: the sum of random numbers, modulo 2^64."""
    rng = np.random.default_rng([seed, 1])
    drawn = rng.integers(0, 2**64, rows.n_columns, np.uint64)
    keys = np.empty(rows.n, np.uint64)
    for block in row_blocks(rows.indptr):
        indptr = rows.indptr[block[0] : block[-1] + 2]
        numbers = drawn[rows.columns[indptr[0] : indptr[-1]]]
        running = np.concatenate([[np.uint64(0)], np.cumsum(numbers, dtype=np.uint64)])
        keys[block] = np.diff(running[indptr - indptr[0]])
    return keys


def row_blocks(indptr: Int64Array) -> Iterator[Int64Array]:
    """Yield rows of at most `ENTRIES_AT_ONCE` entries together, or one row with more."""
    n = len(indptr) - 1
    start = 0
    while start < n:
        last_entry = indptr[start] + ENTRIES_AT_ONCE
        full = int(np.searchsorted(indptr, last_entry, side="right")) - 1
        stop = min(max(full, start + 1), start + ROWS_AT_ONCE, n)
        yield np.arange(start, stop)
        start = stop
