"""The edges that rows lack: j chose i, and i did not choose j.

j's K-th weight and the last row it took at that weight decide whether j chose i. What a row lacks
is written at the end of its part of the final arrays, and a merge from the front puts it in order.
"""

from typing import Any

import numpy as np
from numba import int64, uint64
from numpy.typing import NDArray

from leporid.graph.kernels.layout import NeighbourLists
from leporid.kernel import kernel


def row_limits(lists: NeighbourLists, k: int) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """float32[n], the K-th weight of each row, and int32[n], the last row taken at that weight.

    They are 0 and -1 where a row has fewer than K neighbours.
    """
    least, last = np.zeros(len(lists.length), np.float32), np.full(len(lists.length), -1, np.int32)
    for first in range(0, len(least), 1024):
        full = first + np.flatnonzero(lists.length[first : first + 1024] == k)
        weights = lists.weights[full]
        least[full] = weights.min(axis=1, initial=np.inf)
        last[full] = np.where(weights == least[full, None], lists.rows[full], -1).max(
            axis=1, initial=-1
        )
    return least, last


@kernel
def add_lacking(
    lists: NeighbourLists,
    begin: int,
    end: int,
    least: NDArray[np.float32],
    last: NDArray[np.int32],
    cursor: NDArray[np.int64],
    indices: NDArray[np.int32],
    weights: NDArray[np.float32],
) -> None:
    """Move `cursor[i]` by one for each edge that row i of [begin, end) lacks, by ascending source.

    `least` and `last` are the limits of the rows. An edge is written where the cursor was, unless
    `indices` is empty. A list is ascending, so the part of it that names those rows is found by
    bisection.
    """
    write = len(indices) > 0
    for row in range(len(lists.length)):
        low, high = int64(0), int64(lists.length[row])
        length = high
        while low < high:
            middle = (low + high) >> 1
            if lists.rows[row, uint64(middle)] < begin:
                low = middle + 1
            else:
                high = middle
        while low < length and lists.rows[row, uint64(low)] < end:
            other = uint64(lists.rows[row, uint64(low)])
            weight = lists.weights[row, uint64(low)]
            limit = least[other]
            # The one order of neighbours there is: by weight, then by smaller index.
            if weight < limit or (weight == limit and row > last[other]):
                at = uint64(cursor[other])
                cursor[other] = at + uint64(1)
                if write:
                    indices[at] = row
                    weights[at] = weight
            low += 1


@kernel
def merge_rows(
    lists: NeighbourLists, first: int, stop: int, indptr: Any, indices: Any, weights: Any
) -> None:
    """Merge a row's own neighbours with those at its end; writing never overtakes reading."""
    for row in range(first, stop):
        own, own_stop = uint64(0), uint64(lists.length[row])
        at = uint64(indptr[row])
        other, other_stop = at + own_stop, uint64(indptr[row + 1])
        while own < own_stop:
            if other < other_stop and indices[other] < lists.rows[row, own]:
                indices[at] = indices[other]
                weights[at] = weights[other]
                other += uint64(1)
            else:
                indices[at] = lists.rows[row, own]
                weights[at] = lists.weights[row, own]
                own += uint64(1)
            at += uint64(1)
