"""Landmarks: fit on some rows, place all the others by the out-of-sample formula.

The rule that chooses them:

1. Rows without interactions are never landmarks.
2. The others are ordered by activity (their number of items, ties in an order drawn from the seed)
   and cut into m strata of equal size, give or take one.
3. One row is drawn from each stratum.

Every row is thus equally likely, and every level of activity has its share of landmarks: the
idle rows, whose neighbourhoods are their own, as well as the busy ones that hold the graph
together. K shrinks with the rows (`landmark_neighbours`), so that a neighbourhood covers the same
part of the data as in the exact graph. All that is drawn comes from the seed and from what is in
the rows, so the choice does not depend on the order the rows come in.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.errors import ConfigError

Landmarks = int | float | None
"""How many rows to fit on: a number, a share in (0, 1), or None for all."""

FEWEST_NEIGHBOURS = 50
"""K among landmarks falls no lower than this (or the K asked for, if that is less)."""


def check_landmarks(landmarks: Landmarks) -> None:
    """Refuse what is neither None, a number of rows nor a share of them."""
    whole = isinstance(landmarks, int | np.integer) and not isinstance(landmarks, bool)
    share = isinstance(landmarks, float | np.floating)
    if landmarks is None or (whole and landmarks >= 2) or (share and 0.0 < landmarks < 1.0):
        return
    raise ConfigError(
        f"landmarks must be a number of rows (at least 2), a share of them between 0 and 1, or "
        f"None for all rows, not {landmarks!r}"
    )


def landmark_count(landmarks: Landmarks, n: int) -> int:
    """The number of landmarks among `n` rows: at least 2, at most `n`."""
    check_landmarks(landmarks)
    if landmarks is None:
        return n
    wanted = round(landmarks * n) if isinstance(landmarks, float) else int(landmarks)
    return min(max(wanted, 2), n)


def landmark_neighbours(k: int, count: int, n: int) -> int:
    """K among `count` landmarks of `n` rows: K count / n, rounded up.

    The nearest K of n rows become the nearest K count / n of the landmarks: the same radius. A
    larger K joins rows the exact graph keeps apart, and the eigenvectors follow.
    """
    if count >= n:
        return k
    return min(k, max(-(-k * count // n), FEWEST_NEIGHBOURS))


def choose_landmarks(rows: sparse.csr_array, count: int, seed: int) -> NDArray[np.int64]:
    """int64[m], ascending: one row from each of `count` strata of activity.

    `rows` has sorted indices and no stored zeros. Fewer than `count` are returned where fewer
    rows have interactions.
    """
    activity = np.diff(rows.indptr)
    some = np.flatnonzero(activity)
    count = min(count, len(some))
    # Ties are ordered by a random number for every set of columns, the same wherever the row
    # lies: each column has one of its own, and a row's is their sum, modulo 2^64.
    drawn = np.random.default_rng([seed, 1]).integers(0, 2**64, rows.shape[1], np.uint64)
    running = np.concatenate([[np.uint64(0)], np.cumsum(drawn[rows.indices], dtype=np.uint64)])
    keys = running[rows.indptr[1:]] - running[rows.indptr[:-1]]
    order = some[np.lexsort((keys[some], activity[some]))]
    edges = np.arange(count + 1, dtype=np.int64) * len(some) // max(count, 1)
    inside = np.random.default_rng(seed).random(count) * np.diff(edges)
    return np.sort(order[edges[:-1] + inside.astype(np.int64)]).astype(np.int64)
