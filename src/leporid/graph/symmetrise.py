"""OR-symmetrise top-K lists into a graph: W_ij is set if j is in top-K(i) or i in top-K(j).

Whether i is among the neighbours of j needs no search: j's K-th weight and the last row it
took at that weight are known. So the entries a row lacks are counted first; every thread then
writes those of its own source rows straight into the final arrays, at the end of the row they
belong to, and a merge from the front puts the row in order without a second buffer.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import int64, uint64
from numpy.typing import NDArray

from leporid.graph.layout import Found
from leporid.graph.selection import ranks_behind
from leporid.graph.types import KnnGraph, Side
from leporid.kernel import kernel
from leporid.threads import on_each_share

__all__ = ["Limits", "count_lacking", "lacks", "merge_rows", "row_limits", "spread", "symmetrise"]


class Limits(NamedTuple):
    """What decides whether a row chose another one, without its list."""

    least: NDArray[np.float32]
    """float32[n]: the K-th weight; 0 where a row has fewer than K neighbours."""
    last: NDArray[np.int32]
    """int32[n]: the last row taken at that weight, or -1."""


def symmetrise(found: Found, k: int, side: Side, similarity: str, threads: int) -> KnnGraph:
    """The symmetric graph of the neighbours of n rows among themselves.

    Needs a similarity that is symmetric to the bit. The lists in `found` stay as they are.
    """
    n = len(found.length)
    limits, missing = count_lacking(found, k, threads)
    lengths = found.length + missing.sum(axis=0)
    indptr = np.zeros(n + 1, np.int64)
    np.cumsum(lengths, out=indptr[1:])
    # Rows are filled by ascending source, so a thread starts after those of the threads before it.
    cursor = indptr[:-1] + found.length + np.cumsum(missing, axis=0) - missing
    indices = np.empty(indptr[-1], np.int32)
    weights = np.empty(indptr[-1], np.float32)

    def write(thread: int, first: int, stop: int) -> None:
        spread(found, first, stop, 0, n, limits, cursor[thread], indices, weights)

    def merge(_: int, first: int, stop: int) -> None:
        merge_rows(found, first, stop, indptr, indices, weights)

    on_each_share(write, 0, n, threads)
    on_each_share(merge, 0, n, threads)
    return KnnGraph(indptr, indices, weights, side, k, similarity)


def count_lacking(found: Found, k: int, threads: int) -> tuple[Limits, NDArray[np.int64]]:
    """The limits of all rows, and how many entries they lack.

    int64[threads, n]: for each thread's share of the rows, how many of them a row must take in.
    """
    n = len(found.length)
    limits = Limits(np.empty(n, np.float32), np.empty(n, np.int32))
    missing = np.zeros((threads, n), np.int64)

    def limit(_: int, first: int, stop: int) -> None:
        row_limits(found, k, first, stop, limits)

    def count(thread: int, first: int, stop: int) -> None:
        _count(found, first, stop, limits, missing[thread])

    on_each_share(limit, 0, n, threads)
    on_each_share(count, 0, n, threads)
    return limits, missing


@kernel
def lacks(limits: Limits, row: int, other: int, weight: float) -> Any:
    """Whether `row` did not choose `other`, which chose it at `weight`."""
    return ranks_behind(weight, other, limits.least[row], limits.last[row])


@kernel
def row_limits(
    found: Found,
    k: int,
    first: int,
    stop: int,
    limits: Limits,
) -> None:
    """The weight a row's neighbours have at least, and the last row taken at that weight."""
    for row in range(first, stop):
        length = found.length[row]
        limits.least[row] = 0.0
        limits.last[row] = -1
        if length == k:
            low = found.weights[row, 0]
            for position in range(uint64(length)):
                low = min(low, found.weights[row, position])
            place = int64(length) - 1
            while found.weights[row, uint64(place)] != low:
                place -= 1
            limits.least[row] = low
            limits.last[row] = found.rows[row, uint64(place)]


@kernel
def _count(
    found: Found,
    first: int,
    stop: int,
    limits: Limits,
    missing: NDArray[np.int64],
) -> None:
    """How many of the rows [first, stop) each row must take in as its neighbours."""
    for row in range(first, stop):
        for position in range(uint64(found.length[row])):
            other = uint64(found.rows[row, position])
            weight = found.weights[row, position]
            missing[other] += lacks(limits, other, row, weight)


@kernel
def spread(
    found: Found,
    first: int,
    stop: int,
    begin: int,
    end: int,
    limits: Limits,
    cursor: NDArray[np.int64],
    indices: NDArray[np.int32],
    weights: NDArray[np.float32],
) -> None:
    """Write what the rows [begin, end) lack, from the lists of [first, stop), by ascending row.

    A list is ascending, so the part of it that names those rows is found by bisection.
    """
    for row in range(first, stop):
        low, high = int64(0), int64(found.length[row])
        length = high
        while low < high:
            middle = (low + high) >> 1
            if found.rows[row, uint64(middle)] < begin:
                low = middle + 1
            else:
                high = middle
        while low < length and found.rows[row, uint64(low)] < end:
            other = uint64(found.rows[row, uint64(low)])
            weight = found.weights[row, uint64(low)]
            if lacks(limits, other, row, weight):
                at = uint64(cursor[other])
                cursor[other] = at + uint64(1)
                indices[at] = row
                weights[at] = weight
            low += 1


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
