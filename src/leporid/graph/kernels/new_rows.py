"""Neighbours of rows that are not in the graph, by the rule that either side may choose.

One pass counts shared columns through lists of the fitted rows of each column, one more turns
the counts into similarities, a third keeps what was chosen.
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
from leporid.kernel import kernel

_TURN = 4
"""Rows a thread takes at a time."""


class FittedColumns(NamedTuple):
    """The fitted rows of each column, and what else their similarities need."""

    start: NDArray[np.int64]
    """int64[columns + 1]."""
    rows: NDArray[np.int32]
    """int32[nnz], ascending within a column."""
    sizes: NDArray[np.float64]
    """float64[n]: items of each fitted row; 1 for an empty one, which shares nothing anyway."""
    thresholds: NDArray[np.float32]
    """float32[n]: a new row must be more similar than this for row j to choose it."""


class NewRowBlock(NamedTuple):
    """The new rows [first, stop) of a CSR matrix of sets."""

    indptr: NDArray[np.int64]
    columns: NDArray[np.int32]
    first: int
    stop: int
    turn: NDArray[np.int64]
    """int64[1], zero at first: how many of the rows have been taken."""


class NewRowScratch(NamedTuple):
    """Work space of one thread, a multiple of 16 and 16 more of each."""

    counters: NDArray[np.uint32]
    """All zero between rows."""
    numbers: NDArray[np.uint32]
    """0, 1, 2, ..."""
    rows: NDArray[np.uint32]
    counts: NDArray[np.uint32]
    weights: NDArray[np.float32]
    bits: NDArray[np.uint32]
    """`weights`, seen as integers."""


def new_row_scratch(n: int) -> NewRowScratch:
    """Buffers for `n` fitted rows."""
    room = -(-n // LANES) * LANES + LANES
    counters, rows, counts, bits = np.zeros((4, room), np.uint32)
    numbers = np.arange(room, dtype=np.uint32)
    return NewRowScratch(counters, numbers, rows, counts, bits.view(np.float32), bits)


@kernel
def weigh_rows(
    block: NewRowBlock,
    fitted: FittedColumns,
    k: int,
    scratch: NewRowScratch,
    out_indices: NDArray[np.int32],
    out_weights: NDArray[np.float32],
    out_length: NDArray[np.int64],
) -> None:
    """Neighbours of the rows of a block, a few at a time; several threads may share it."""
    while True:
        start = block.first + fetch_add(block.turn, int64(_TURN))
        if start >= block.stop:
            break
        for row in range(start, min(start + _TURN, block.stop)):
            out = row - block.first
            members = block.columns[block.indptr[row] : block.indptr[row + 1]]
            candidates = _count_shared(members, fitted, scratch)
            _weigh(candidates, float64(len(members)), fitted, scratch)
            out_length[out] = _choose(
                candidates, k, fitted, scratch, out_indices[out], out_weights[out]
            )


@kernel
def _count_shared(members: NDArray[np.int32], fitted: FittedColumns, scratch: NewRowScratch) -> Any:
    """List the fitted rows that share a column, and how many they share; their number."""
    counters = scratch.counters
    for column in members:
        for at in range(fitted.start[column], fitted.start[column + 1]):
            counters[uint64(fitted.rows[uint64(at)])] += uint32(1)
    filled: Any = uint64(0)
    for place in range(uint64(0), uint64(len(fitted.sizes)), uint64(LANES)):
        lanes = load_lanes(counters, place)
        mask = mask_above(lanes, uint32(0))
        compress_lanes(lanes, mask, scratch.counts, filled)
        compress_lanes(load_lanes(scratch.numbers, place), mask, scratch.rows, filled)
        filled += bits_in(mask)
    counters[:] = uint32(0)
    return filled


@kernel
def _weigh(candidates: Any, size: Any, fitted: FittedColumns, scratch: NewRowScratch) -> None:
    """Jaccard similarities, and zeros to a multiple of 16."""
    for place in range(candidates):
        count = float64(scratch.counts[place])
        other = fitted.sizes[uint64(scratch.rows[place])]
        scratch.weights[place] = float32(count / (size + other - count))
    for place in range(candidates, candidates + uint64(LANES)):
        scratch.bits[place] = uint32(0)


@kernel
def _choose(
    candidates: Any,
    k: int,
    fitted: FittedColumns,
    scratch: NewRowScratch,
    out_indices: NDArray[np.int32],
    out_weights: NDArray[np.float32],
) -> Any:
    """Keep the row's own top k and the rows that would choose it; their number."""
    rows, weights, bits = scratch.rows, scratch.weights, scratch.bits
    bound = uint32(0)
    ties: Any = uint64(0)
    if candidates > uint64(k):
        bound = uint32(kth_largest(bits, candidates, k, 0, 32))
        ties = uint64(k)
        for place in range(candidates):
            ties -= uint64(bits[place] > bound)
    filled: Any = uint64(0)
    for place in range(candidates):
        own = bits[place] > bound
        if bits[place] == bound and ties > uint64(0):
            own = True
            ties -= uint64(1)
        if own or weights[place] > fitted.thresholds[uint64(rows[place])]:
            out_indices[filled] = rows[place]
            out_weights[filled] = weights[place]
            filled += uint64(1)
    return filled
