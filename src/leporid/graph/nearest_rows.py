"""Weighted sums over the neighbours that new rows have among the rows of a graph."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.errors import GraphError
from leporid.graph.kernels.nearest_rows import FittedColumns, Scratch, Sums, sum_neighbours
from leporid.graph.types import KnnGraph, binary_csr
from leporid.threads import on_each_thread, resolve_threads

BLOCK_ROWS = 1024
"""New rows in a block of sums."""


def choice_thresholds(graph: KnnGraph) -> NDArray[np.float32]:
    """float32[n]: a new row must be more similar than this for row j to choose it.

    That is the K-th largest weight of row j of W, and 0 where j has fewer than K neighbours. A tie
    goes to the smaller index, hence never to the new row.
    """
    thresholds = np.zeros(graph.n, dtype=np.float32)
    for row in np.flatnonzero(np.diff(graph.indptr) >= graph.k):
        weights = graph.weights[graph.indptr[row] : graph.indptr[row + 1]]
        rank = len(weights) - graph.k
        thresholds[row] = np.partition(weights, rank)[rank]
    return thresholds


class NearestRows:
    """Finds the neighbours of new rows among the fitted rows csr[n, columns].

    Fitted row j is a neighbour of a new row when it is in that row's top-K, or when the new row
    would be in the top-K of j: more similar than `thresholds[j]`, float32[n], where those are
    given.
    """

    def __init__(
        self,
        fitted: sparse.csr_array,
        thresholds: NDArray[np.float32] | None = None,
        threads: int | None = None,
    ) -> None:
        members = binary_csr(fitted, "fitted")
        if thresholds is None:
            thresholds = np.full(members.n, np.inf, np.float32)
        start = np.zeros(members.n_columns + 1, np.int64)
        np.cumsum(np.bincount(members.columns, minlength=members.n_columns), out=start[1:])
        of_entry = np.repeat(np.arange(members.n, dtype=np.int32), members.degrees)
        rows = of_entry[np.argsort(members.columns, kind="stable")]
        sizes = np.maximum(members.degrees, 1).astype(np.float64)
        self._fitted = FittedColumns(start, rows, sizes, np.asarray(thresholds, np.float32))
        self._threads = resolve_threads(threads)

    def sums(
        self,
        new: sparse.csr_array,
        table: NDArray[np.float32],
        k: int,
        without: NDArray[np.int64] | None = None,
    ) -> Iterator[tuple[slice, NDArray[np.float32], NDArray[np.float64]]]:
        """For each block of new rows: which rows, sum_j w_j table[j], and sum_j w_j.

        float32[rows, d] for `table` float32[n, d], and float64[rows]. Fitted row `without[i]` is
        no neighbour of new row i.
        """
        count, columns = new.shape
        if columns != len(self._fitted.start) - 1:
            raise GraphError(
                f"the new rows have {columns} columns and the fitted rows "
                f"{len(self._fitted.start) - 1}: both must use the same columns"
            )
        if count == 0:
            return
        members = binary_csr(new, "new")
        skip = np.full(count, -1, np.int64) if without is None else without
        scratch = [Scratch.empty(len(table)) for _ in range(min(self._threads, count))]
        for first in range(0, count, BLOCK_ROWS):
            part = slice(first, min(first + BLOCK_ROWS, count))
            sums = np.zeros((part.stop - first, table.shape[1]), np.float32)
            to = Sums(first, skip, table, np.zeros(1, np.int64), sums, np.zeros(len(sums)))

            def work(thread: int, to: Sums = to) -> None:
                sum_neighbours(members, self._fitted, k, scratch[thread], to)

            # Plain threads and not numba's: a service calls this from many of them.
            on_each_thread(work, len(scratch))
            yield part, to.sums, to.totals
