"""OR-symmetrise top-K lists into a graph: W_ij is set if j is in top-K(i) or i in top-K(j).

Whether i is among the neighbours of j needs no search: j's K-th weight and the last row it
took at that weight are known. So the entries a row lacks are counted first; every thread then
writes those of its own source rows straight into the final arrays, at the end of the row they
belong to, and a merge from the front puts the row in order without a second buffer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64, uint64
from numpy.typing import NDArray

from leporid.graph.jit import kernel
from leporid.graph.layout import Found
from leporid.graph.types import KnnGraph, Side
from leporid.threads import on_each_thread

__all__ = ["count_missing", "merge_rows", "row_limits", "symmetrise"]


def symmetrise(found: Found, k: int, side: Side, similarity: str, threads: int) -> KnnGraph:
    """The symmetric graph of the neighbours of n rows among themselves.

    Needs a similarity that is symmetric to the bit. The lists in `found` stay as they are.
    """
    n = len(found.length)
    bounds = np.linspace(0, n, threads + 1).astype(np.int64)
    least = np.empty(n, np.float32)
    last = np.empty(n, np.int32)
    missing = np.zeros((threads, n), np.int64)

    def each(work: Any) -> None:
        on_each_thread(lambda thread: work(thread, bounds[thread], bounds[thread + 1]), threads)

    each(lambda _, first, stop: row_limits(found, k, first, stop, least, last))
    each(
        lambda thread, first, stop: count_missing(found, first, stop, least, last, missing[thread])
    )
    lengths = found.length + missing.sum(axis=0)
    indptr = np.zeros(n + 1, np.int64)
    np.cumsum(lengths, out=indptr[1:])
    # Rows are filled by ascending source, so a thread starts after those of the threads before it.
    cursor = indptr[:-1] + found.length + np.cumsum(missing, axis=0) - missing
    indices = np.empty(indptr[-1], np.int32)
    weights = np.empty(indptr[-1], np.float32)
    each(
        lambda thread, first, stop: _spread(
            found, first, stop, least, last, cursor[thread], indices, weights
        )
    )
    each(lambda _, first, stop: merge_rows(found, first, stop, indptr, indices, weights))
    return KnnGraph(indptr, indices, weights, side, k, similarity)


@kernel
def row_limits(
    found: Found,
    k: int,
    first: int,
    stop: int,
    least: NDArray[np.float32],
    last: NDArray[np.int32],
) -> None:
    """The weight a row's neighbours have at least, and the last row taken at that weight."""
    for row in range(first, stop):
        length = found.length[row]
        least[row] = 0.0
        last[row] = -1
        if length == k:
            low = found.weights[row, 0]
            for position in range(uint64(length)):
                low = min(low, found.weights[row, position])
            place = int64(length) - 1
            while found.weights[row, uint64(place)] != low:
                place -= 1
            least[row] = low
            last[row] = found.rows[row, uint64(place)]


@kernel
def count_missing(
    found: Found,
    first: int,
    stop: int,
    least: NDArray[np.float32],
    last: NDArray[np.int32],
    missing: NDArray[np.int64],
) -> None:
    """How many of the rows [first, stop) each row must take in as its neighbours."""
    for row in range(first, stop):
        for position in range(uint64(found.length[row])):
            other = uint64(found.rows[row, position])
            weight = found.weights[row, position]
            missing[other] += weight < least[other] or (
                weight == least[other] and row > last[other]
            )


@kernel
def _spread(
    found: Found,
    first: int,
    stop: int,
    least: NDArray[np.float32],
    last: NDArray[np.int32],
    cursor: NDArray[np.int64],
    indices: NDArray[np.int32],
    weights: NDArray[np.float32],
) -> None:
    """Write the entries counted by `count_missing`."""
    for row in range(first, stop):
        for position in range(uint64(found.length[row])):
            other = uint64(found.rows[row, position])
            weight = found.weights[row, position]
            if weight < least[other] or (weight == least[other] and row > last[other]):
                at = uint64(cursor[other])
                cursor[other] = at + uint64(1)
                indices[at] = row
                weights[at] = weight


@kernel
def merge_rows(
    found: Found,
    first: int,
    stop: int,
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    weights: NDArray[np.float32],
) -> None:
    """Merge a row's own neighbours with those at its end; writing never overtakes reading."""
    for row in range(first, stop):
        own, own_stop = uint64(0), uint64(found.length[row])
        at = uint64(indptr[row])
        other, other_stop = at + own_stop, uint64(indptr[row + 1])
        while own < own_stop and other < other_stop:
            left, right = found.rows[row, own], indices[other]
            if left < right:
                indices[at] = left
                weights[at] = found.weights[row, own]
                own += uint64(1)
            else:
                indices[at] = right
                weights[at] = weights[other]
                other += uint64(1)
            at += uint64(1)
        while own < own_stop:
            indices[at] = found.rows[row, own]
            weights[at] = found.weights[row, own]
            own += uint64(1)
            at += uint64(1)
