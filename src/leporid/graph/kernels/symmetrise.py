"""The edges that rows lack: j chose i, and i did not choose j.

j's K-th weight and the last row it took at that weight decide whether j chose i. What a row lacks
is written at the end of its part of the final arrays, and a merge from the front puts it in order.
"""

import numpy as np
from numba import uint64
from numpy.typing import NDArray

from leporid.foundation import kernel
from leporid.graph.kernels.layout import NeighbourLists


@kernel
def row_limits(
    lists: NeighbourLists,
    k: int,
    first: int,
    stop: int,
    least: NDArray[np.float32],
    last: NDArray[np.int32],
) -> None:
    """Set `least[i]` to the K-th weight of row i, and `last[i]` to the last row taken at it.

    The rows are [first, stop). A row with fewer than K neighbours gets 0 and -1.
    """
    for row in range(first, stop):
        least[row] = 0.0
        last[row] = -1
        if lists.length[row] == k and k > 0:
            least[row] = lists.weights[row].min()
            position = uint64(k - 1)
            while lists.weights[row, position] != least[row]:
                position -= uint64(1)
            last[row] = lists.rows[row, position]


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
    lacking = np.empty(lists.rows.shape[1], np.uint32)
    for row in range(len(lists.length)):
        others = lists.rows[row]
        others_weights = lists.weights[row]
        length = lists.length[row]
        first, stop = np.searchsorted(others[:length], np.array([begin, end], np.int32))
        # Every position is written, and the next one replaces it unless it counts: a branch that
        # nobody can predict costs more than a write.
        count = uint64(0)
        for position in range(uint64(first), uint64(stop)):
            other = uint64(others[position])
            weight = others_weights[position]
            limit = least[other]
            lacking[count] = position
            # The one order of neighbours there is: by weight, then by smaller index.
            is_lacking = (weight < limit) | ((weight == limit) & (row > last[other]))
            count += uint64(is_lacking)
        for position in lacking[:count]:
            other = uint64(others[position])
            at = uint64(cursor[other])
            cursor[other] = at + uint64(1)
            if write:
                indices[at] = row
                weights[at] = others_weights[position]


@kernel
def merge_rows(
    lists: NeighbourLists,
    first: int,
    stop: int,
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    weights: NDArray[np.float32],
) -> None:
    """Merge a row's own neighbours with those at its end; writing never overtakes reading."""
    for row in range(first, stop):
        own = uint64(0)
        own_stop = uint64(lists.length[row])
        at = uint64(indptr[row])
        other = at + own_stop
        other_stop = uint64(indptr[row + 1])
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
