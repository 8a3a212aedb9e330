"""The rows of W that new rows would have: their weights to fitted rows, by the same OR rule.

j is a neighbour of a new row when it is among the row's own top-K, or when the new row would be
among the top-K of j. The second half needs every similarity of the row, so there is no early
threshold as in `search`: one pass counts shared columns through lists of the fitted rows of each
column, one more turns the counts into similarities, a third keeps what was chosen. Time is
linear in the new rows, memory is a block of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numba import float32, float64, int64, uint32, uint64
from numpy.typing import NDArray
from scipy import sparse

from leporid.errors import GraphError
from leporid.graph.matrix import Members, members_of
from leporid.graph.selection import kth_largest
from leporid.graph.simd import bits_in, compress_lanes, fetch_add, load_lanes, mask_above
from leporid.kernel import kernel
from leporid.threads import on_each_thread

__all__ = ["BLOCK_ENTRIES", "FittedColumns", "NewRows", "fitted_columns", "new_row_blocks"]

BLOCK_ENTRIES = 1 << 22
"""Weights held at once: 32 MB, whatever the number of rows."""
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


class NewRows(NamedTuple):
    """A block of new rows with their neighbours among the fitted rows, by ascending index."""

    first: int
    """Position of the block's first row."""
    indices: NDArray[np.int32]
    """int32[block, n]: `length` entries of a row are filled."""
    weights: NDArray[np.float32]
    """float32[block, n]."""
    length: NDArray[np.int64]
    """int64[block]."""

    def csr(self) -> sparse.csr_array:
        """float32[block, n] with the weights; a copy."""
        taken = np.arange(self.indices.shape[1]) < self.length[:, None]
        indptr = np.concatenate([[0], np.cumsum(self.length)])
        return sparse.csr_array(
            (self.weights[taken], self.indices[taken], indptr), shape=self.indices.shape
        )


def fitted_columns(fitted: Any, thresholds: NDArray[np.float32]) -> FittedColumns:
    """Lists of rows by column; `thresholds` as `nearest_rows.choice_thresholds` gives."""
    members = members_of(fitted, "fitted")
    order = np.argsort(members.columns, kind="stable")
    of_entry = np.repeat(np.arange(members.n, dtype=np.int32), members.degrees)
    start = np.zeros(members.n_columns + 1, np.int64)
    np.cumsum(np.bincount(members.columns, minlength=members.n_columns), out=start[1:])
    sizes = np.maximum(members.degrees, 1).astype(np.float64)
    return FittedColumns(start, of_entry[order], sizes, np.asarray(thresholds, np.float32))


def new_row_blocks(
    new: Any, fitted: FittedColumns, k: int, threads: int, entries: int = BLOCK_ENTRIES
) -> Iterator[NewRows]:
    """The neighbours of the rows of `new`, a block after the other in the same memory.

    A block has as many rows as `entries` weights to all fitted rows allow. What is yielded is
    overwritten by the next step.
    """
    queries: Members = members_of(new, "new")
    if queries.n_columns != len(fitted.start) - 1:
        raise GraphError(
            f"the new rows have {queries.n_columns} columns and the fitted rows "
            f"{len(fitted.start) - 1}: both must use the same columns"
        )
    n = len(fitted.sizes)
    block = min(max(1, entries // n), queries.n)
    indices = np.empty((block, n), np.int32)
    weights = np.empty((block, n), np.float32)
    length = np.empty(block, np.int64)
    scratch = [_scratch(n) for _ in range(threads)]
    for first in range(0, queries.n, block):
        stop = min(first + block, queries.n)
        turn = np.zeros(1, np.int64)

        def work(thread: int, first: int = first, stop: int = stop, turn: Any = turn) -> None:
            _weigh_block(
                queries.indptr,
                queries.columns,
                first,
                stop,
                turn,
                fitted,
                k,
                scratch[thread],
                indices,
                weights,
                length,
            )

        on_each_thread(work, threads)
        rows = stop - first
        yield NewRows(first, indices[:rows], weights[:rows], length[:rows])


class _Scratch(NamedTuple):
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


def _scratch(n: int) -> _Scratch:
    room = -(-n // 16) * 16 + 16
    weights = np.zeros(room, np.float32)
    return _Scratch(
        np.zeros(room, np.uint32),
        np.arange(room, dtype=np.uint32),
        np.zeros(room, np.uint32),
        np.zeros(room, np.uint32),
        weights,
        weights.view(np.uint32),
    )


@kernel
def _weigh_block(
    indptr: NDArray[np.int64],
    columns: NDArray[np.int32],
    first: int,
    stop: int,
    turn: NDArray[np.int64],
    fitted: FittedColumns,
    k: int,
    scratch: _Scratch,
    out_indices: NDArray[np.int32],
    out_weights: NDArray[np.float32],
    out_length: NDArray[np.int64],
) -> None:
    """Neighbours of the rows [first, stop), a few at a time; several threads share `turn`."""
    counters, numbers = scratch.counters, scratch.numbers
    rows, counts = scratch.rows, scratch.counts
    weights, bits = scratch.weights, scratch.bits
    n: Any = uint64(len(fitted.sizes))
    while True:
        start = first + fetch_add(turn, int64(_TURN))
        if start >= stop:
            break
        for row in range(start, min(start + _TURN, stop)):
            size = float64(indptr[row + 1] - indptr[row])
            for position in range(indptr[row], indptr[row + 1]):
                column = columns[position]
                for at in range(fitted.start[column], fitted.start[column + 1]):
                    counters[uint64(fitted.rows[uint64(at)])] += uint32(1)
            some: Any = uint64(0)
            for place in range(uint64(0), n, uint64(16)):
                lanes = load_lanes(counters, place)
                mask = mask_above(lanes, uint32(0))
                compress_lanes(lanes, mask, counts, some)
                compress_lanes(load_lanes(numbers, place), mask, rows, some)
                some += bits_in(mask)
            counters[:] = uint32(0)
            for place in range(some):
                count = float64(counts[place])
                other = fitted.sizes[uint64(rows[place])]
                weights[place] = float32(count / (size + other - count))
            for place in range(some, some + uint64(16)):
                bits[place] = uint32(0)
            bound = uint32(0)
            ties: Any = uint64(0)
            if some > uint64(k):
                bound = uint32(kth_largest(bits, some, k, 0, 32))
                ties = uint64(k)
                for place in range(some):
                    ties -= uint64(bits[place] > bound)
            filled: Any = uint64(0)
            out = uint64(row - first)
            for place in range(some):
                own = bits[place] > bound
                if bits[place] == bound and ties > uint64(0):
                    own = True
                    ties -= uint64(1)
                if own or weights[place] > fitted.thresholds[uint64(rows[place])]:
                    out_indices[out, filled] = rows[place]
                    out_weights[out, filled] = weights[place]
                    filled += uint64(1)
            out_length[out] = filled
