"""Offer every row to those it chose, so that both sides of a pair know of it.

An exact list of neighbours holds whoever is similar enough; `symmetrise` relies on that. In an
approximate one a row may lack a neighbour that has found *it*. Each row therefore picks its K
best again, from its own list and from the rows that list it. Afterwards a row missing from a
list it was offered to is too far, as in an exact one; and more of the true neighbours are known.
"""

from __future__ import annotations

import numpy as np
from numba import int64, uint32, uint64
from numpy.typing import NDArray

from leporid.graph.layout import Found
from leporid.graph.selection import keep_best
from leporid.graph.simd import fetch_add
from leporid.kernel import kernel
from leporid.threads import on_each_thread

__all__ = ["offer_in_return"]

_TURN = 64
"""Rows a thread takes at a time."""


def offer_in_return(found: Found, k: int, threads: int) -> None:
    """Replace each list by the k best of it and of the rows that list this one; in place."""
    n = len(found.length)
    starts = np.zeros(n + 1, np.int64)
    _count_choosers(found, starts)
    np.cumsum(starts, out=starts)
    choosers = np.empty(int(starts[-1]), np.int32)
    weights = np.empty(int(starts[-1]), np.float32)
    _list_choosers(found, starts[:-1].copy(), choosers, weights)
    room = -(-(k + int(np.diff(starts).max(initial=0))) // 16) * 16 + 16
    turn = np.zeros(1, np.int64)

    def work(_: int) -> None:
        buffer = np.zeros(room, np.float32)
        _choose_again(
            found,
            k,
            starts,
            choosers,
            weights,
            turn,
            np.zeros(room, np.uint32),
            buffer,
            buffer.view(np.uint32),
        )

    on_each_thread(work, threads)


@kernel
def _count_choosers(found: Found, counts: NDArray[np.int64]) -> None:
    for row in range(len(found.length)):
        for position in range(found.length[row]):
            counts[uint64(found.rows[row, position]) + uint64(1)] += 1


@kernel
def _list_choosers(
    found: Found,
    cursor: NDArray[np.int64],
    choosers: NDArray[np.int32],
    weights: NDArray[np.float32],
) -> None:
    """The rows that list a row, ascending."""
    for row in range(len(found.length)):
        for position in range(found.length[row]):
            other = uint64(found.rows[row, position])
            at = uint64(cursor[other])
            cursor[other] += 1
            choosers[at] = row
            weights[at] = found.weights[row, position]


@kernel
def _choose_again(
    found: Found,
    k: int,
    starts: NDArray[np.int64],
    choosers: NDArray[np.int32],
    offered: NDArray[np.float32],
    turn: NDArray[np.int64],
    rows: NDArray[np.uint32],
    weights: NDArray[np.float32],
    bits: NDArray[np.uint32],
) -> None:
    """Merge both lists of a row (each ascending, a pair in both is one) and keep the k best."""
    n = len(found.length)
    while True:
        first = fetch_add(turn, int64(_TURN))
        if first >= n:
            break
        for row in range(first, min(first + _TURN, n)):
            own, own_stop = int64(0), int64(found.length[row])
            other, other_stop = starts[row], starts[row + 1]
            filled = int64(0)
            while own < own_stop or other < other_stop:
                left = found.rows[row, own] if own < own_stop else n
                right = choosers[other] if other < other_stop else n
                rows[filled] = uint32(min(left, right))
                if left <= right:
                    weights[filled] = found.weights[row, own]
                    own += 1
                else:
                    weights[filled] = offered[other]
                other += right <= left
                filled += 1
            for position in range(filled, filled + 16):
                bits[position] = uint32(0)
            if filled > k:
                keep_best(bits, rows, filled, k, 0)
                filled = int64(k)
            for position in range(filled):
                found.rows[row, position] = rows[position]
                found.weights[row, position] = weights[position]
            found.length[row] = filled
