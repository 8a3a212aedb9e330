"""Sums over the neighbours of rows that are not in the graph, by the rule that either may choose.

One pass counts shared columns through lists of the fitted rows of each column, one more turns
the counts into similarities, a third adds up what was chosen. A fitted row may choose a new one
however many are more similar, so there is no early threshold as in the search.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import float32, float64, int64, uint32, uint64
from numpy.typing import NDArray

from leporid.graph.kernels.selection import kth_largest
from leporid.graph.kernels.simd import (
    LANES,
    bits_in,
    compress_lanes,
    fetch_add,
    load_lanes,
    mask_above,
)
from leporid.graph.types import BinaryCSR
from leporid.kernel import kernel


class FittedColumns(NamedTuple):
    """The fitted rows of each column, int32 and ascending, and what their similarities need."""

    start: NDArray[np.int64]
    rows: NDArray[np.int32]
    sizes: NDArray[np.float64]
    """float64[n]: items of each fitted row; 1 for an empty one, which shares nothing anyway."""
    thresholds: NDArray[np.float32]
    """float32[n]: a new row must be more similar than this for row j to choose it."""


class Scratch(NamedTuple):
    """Work space of one thread: the candidates among the n fitted rows, and 16 to 31 more of each.

    Counters are zero between rows, numbers are 0, 1, 2, ..., and bits are the weights as integers.
    """

    counters: NDArray[np.uint32]
    rows: NDArray[np.uint32]
    counts: NDArray[np.uint32]
    bits: NDArray[np.uint32]
    weights: NDArray[np.float32]
    numbers: NDArray[np.uint32]

    @classmethod
    def empty(cls, n: int) -> Scratch:
        """Buffers for `n` fitted rows."""
        room = -(-n // LANES) * LANES + LANES
        counters, rows, counts, bits = np.zeros((4, room), np.uint32)
        numbers = np.arange(room, dtype=np.uint32)
        return cls(counters, rows, counts, bits, bits.view(np.float32), numbers)


class Sums(NamedTuple):
    """What new rows `first`, `first` + 1, ... add up: table float32[n, d] over their neighbours."""

    first: int
    skip: NDArray[np.int64]
    """int64[new rows]: the fitted row that is no neighbour of each."""
    table: NDArray[np.float32]
    turn: NDArray[np.int64]
    """int64[1], zero at first: how many of the rows threads have taken."""
    sums: NDArray[np.float32]
    totals: NDArray[np.float64]


@kernel
def sum_neighbours(
    new: BinaryCSR, fitted: FittedColumns, k: int, scratch: Scratch, to: Sums
) -> None:
    """sums[i] = sum_j w_ij table[j] and totals[i] = sum_j w_ij; several threads may share `to`."""
    while True:
        position = fetch_add(to.turn, int64(1))
        if position >= len(to.totals):
            break
        row = to.first + position
        members = new.columns[new.indptr[row] : new.indptr[row + 1]]
        candidates = _count_shared(members, fitted, scratch)
        _weigh(candidates, float64(len(members)), fitted, scratch)
        chosen = _choose(candidates, k, fitted, scratch)
        to.totals[position] = _add_up(chosen, to.skip[row], scratch, to.table, to.sums[position])


@kernel
def _count_shared(members: NDArray[np.int32], fitted: FittedColumns, scratch: Scratch) -> Any:
    """List the fitted rows that share a column, and how many they share; their number."""
    counters = scratch.counters
    for column in members:
        for at in range(fitted.start[column], fitted.start[column + 1]):
            counters[uint64(fitted.rows[uint64(at)])] += uint32(1)
    filled: Any = uint64(0)
    for position in range(uint64(0), uint64(len(fitted.sizes)), uint64(LANES)):
        lanes = load_lanes(counters, position)
        mask = mask_above(lanes, uint32(0))
        compress_lanes(lanes, mask, scratch.counts, filled)
        compress_lanes(load_lanes(scratch.numbers, position), mask, scratch.rows, filled)
        filled += bits_in(mask)
    counters[:] = uint32(0)
    return filled


@kernel
def _weigh(candidates: Any, size: Any, fitted: FittedColumns, scratch: Scratch) -> None:
    """Jaccard similarities, and zeros to a multiple of 16."""
    for position in range(candidates):
        count = float64(scratch.counts[position])
        other = fitted.sizes[uint64(scratch.rows[position])]
        scratch.weights[position] = float32(count / (size + other - count))
    for position in range(candidates, candidates + uint64(LANES)):
        scratch.bits[position] = uint32(0)


@kernel
def _choose(candidates: Any, k: int, fitted: FittedColumns, scratch: Scratch) -> Any:
    """Move the row's own top k and the rows that would choose it to the front; their number."""
    rows, weights, bits = scratch.rows, scratch.weights, scratch.bits
    bound = uint32(0)
    ties: Any = uint64(0)
    if candidates > uint64(k):
        bound = uint32(kth_largest(bits, candidates, k, uint32(0), int64(32)))
        ties = uint64(k)
        for position in range(candidates):
            ties -= uint64(bits[position] > bound)
    filled: Any = uint64(0)
    for position in range(candidates):
        own = bits[position] > bound
        if bits[position] == bound and ties > uint64(0):
            own = True
            ties -= uint64(1)
        if own or weights[position] > fitted.thresholds[uint64(rows[position])]:
            rows[filled], weights[filled] = rows[position], weights[position]
            filled += uint64(1)
    return filled


@kernel
def _add_up(chosen: Any, skip: int, scratch: Scratch, table: Any, sums: Any) -> Any:
    total = 0.0
    for position in range(chosen):
        row, weight = uint64(scratch.rows[position]), scratch.weights[position]
        if int64(row) != skip:
            total += weight
            for column in range(uint64(len(sums))):
                sums[column] += weight * table[row, column]
    return total
