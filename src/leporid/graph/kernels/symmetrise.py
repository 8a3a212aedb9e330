"""The edges that rows lack: j chose i, and i did not choose j.

j's K-th weight and the last row it took at that weight decide whether j chose i. What a row lacks
is written at the end of its part of the final arrays, and a merge from the front puts it in order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import int64, uint64
from numpy.typing import NDArray

from leporid.graph.kernels.layout import NeighbourLists
from leporid.kernel import kernel


class Limits(NamedTuple):
    """What decides whether a row chose another one, without its list."""

    least: NDArray[np.float32]
    """float32[n]: the K-th weight; 0 where a row has fewer than K neighbours."""
    last: NDArray[np.int32]
    """int32[n]: the last row taken at that weight, or -1."""

    @classmethod
    def empty(cls, n: int) -> Limits:
        """Room for the limits of n rows."""
        return cls(np.empty(n, np.float32), np.empty(n, np.int32))


@kernel
def row_limits(lists: NeighbourLists, k: int, first: int, stop: int, limits: Limits) -> None:
    """The weight a row's neighbours have at least, and the last row taken at that weight."""
    for row in range(first, stop):
        length = lists.length[row]
        limits.least[row] = 0.0
        limits.last[row] = -1
        if length == k and k > 0:
            low = lists.weights[row, 0]
            for position in range(uint64(length)):
                low = min(low, lists.weights[row, position])
            last = int64(length) - 1
            while lists.weights[row, uint64(last)] != low:
                last -= 1
            limits.least[row] = low
            limits.last[row] = lists.rows[row, uint64(last)]


@kernel
def add_lacking(
    lists: NeighbourLists,
    first: int,
    begin: int,
    end: int,
    limits: Limits,
    cursor: NDArray[np.int64],
    indices: NDArray[np.int32],
    weights: NDArray[np.float32],
) -> None:
    """Move `cursor[i]` by one for each edge that row i of [begin, end) lacks, by ascending source.

    The lists are those of rows `first`, `first` + 1, ...; an edge is written where the cursor was,
    its source counted from `first`, unless `indices` is empty. A list is ascending, so the
    part of it that names those rows is found by bisection.
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
            least = limits.least[other]
            # The one order of neighbours there is: by weight, then by smaller index.
            if weight < least or (weight == least and row + first > limits.last[other]):
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
