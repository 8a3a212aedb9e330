"""The rows of W that new rows would have: their weights to fitted rows, by the same OR rule.

j is a neighbour of a new row when it is among the row's own top-K, or when the new row would be
among the top-K of j. The second half needs every similarity of the row, so there is no early
threshold as in the search. Time is linear in the new rows, memory is a block of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.errors import GraphError
from leporid.graph.kernels.new_rows import FittedColumns, NewRowBlock, new_row_scratch, weigh_rows
from leporid.graph.matrix import members_of
from leporid.threads import on_each_thread

BLOCK_ENTRIES = 1 << 22
"""Weights held at once: 32 MB, whatever the number of rows."""


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
    queries = members_of(new, "new")
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
    scratch = [new_row_scratch(n) for _ in range(threads)]
    for first in range(0, queries.n, block):
        stop = min(first + block, queries.n)
        turn = np.zeros(1, np.int64)

        def work(thread: int, first: int = first, stop: int = stop, turn: Any = turn) -> None:
            rows = NewRowBlock(queries.indptr, queries.columns, first, stop, turn)
            weigh_rows(rows, fitted, k, scratch[thread], indices, weights, length)

        on_each_thread(work, threads)
        part = slice(0, stop - first)
        yield NewRows(first, indices[part], weights[part], length[part])
