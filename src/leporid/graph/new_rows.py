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
from leporid.graph.jit import kernel
from leporid.graph.matrix import Members, members_of
from leporid.graph.selection import kth_largest
from leporid.graph.simd import fetch_add
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
    """Lists of rows by column; `thresholds` as `spectral.extension.choice_thresholds` gives."""
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
    padded = -(-n // 16) * 16
    counters = np.zeros((threads, padded), np.uint32)
    scratch = np.zeros((threads, padded), np.float32)
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
                min(k, n),
                counters[thread],
                scratch[thread],
                scratch[thread].view(np.uint32),
                indices,
                weights,
                length,
            )

        on_each_thread(work, threads)
        rows = stop - first
        yield NewRows(first, indices[:rows], weights[:rows], length[:rows])


@kernel
def _weigh_block(
    indptr: NDArray[np.int64],
    columns: NDArray[np.int32],
    first: int,
    stop: int,
    turn: NDArray[np.int64],
    fitted: FittedColumns,
    k: int,
    counters: NDArray[np.uint32],
    weights: NDArray[np.float32],
    bits: NDArray[np.uint32],
    out_indices: NDArray[np.int32],
    out_weights: NDArray[np.float32],
    out_length: NDArray[np.int64],
) -> None:
    """Neighbours of the rows [first, stop), a few at a time; several threads share `turn`."""
    n = uint64(len(fitted.sizes))
    while True:
        start = first + fetch_add(turn, int64(_TURN))
        if start >= stop:
            break
        for row in range(start, min(start + _TURN, stop)):
            size = float64(indptr[row + 1] - indptr[row])
            for position in range(uint64(indptr[row]), uint64(indptr[row + 1])):
                column = uint64(columns[position])
                for at in range(
                    uint64(fitted.start[column]), uint64(fitted.start[column + uint64(1)])
                ):
                    counters[uint64(fitted.rows[at])] += uint32(1)
            for j in range(n):
                count = float64(counters[j])
                weights[j] = float32(count / (size + fitted.sizes[j] - count))
                counters[j] = uint32(0)
            bound = kth_largest(bits, n, k, 0, 32)
            above = uint64(0)
            for j in range(n):
                above += uint64(bits[j] > bound)
            ties = uint64(k) - above
            filled = uint64(0)
            out = uint64(row - first)
            for j in range(n):
                if bits[j] == uint32(0):
                    continue
                own = bits[j] > bound
                if bits[j] == bound and ties > uint64(0):
                    own = True
                    ties -= uint64(1)
                if own or weights[j] > fitted.thresholds[j]:
                    out_indices[out, filled] = j
                    out_weights[out, filled] = weights[j]
                    filled += uint64(1)
            out_length[out] = filled
