"""Weighted sums over the neighbours that new rows have among the rows of a graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numba import int64, uint64
from numpy.typing import NDArray
from scipy import sparse

from leporid.graph.kernels.simd import fetch_add
from leporid.graph.new_rows import fitted_columns, new_row_blocks
from leporid.graph.types import KnnGraph
from leporid.kernel import kernel
from leporid.threads import on_each_thread, resolve_threads


def choice_thresholds(graph: KnnGraph) -> NDArray[np.float32]:
    """float32[n]: a new row must be more similar than this for row j to choose it.

    Row j of W holds its own top-K and, beyond it, rows that chose j; so its K-th largest weight
    is the K-th similarity of j, and 0 where j has fewer than K neighbours. A tie goes to the
    smaller index, hence never to the new row.
    """
    thresholds = np.zeros(graph.n, dtype=np.float32)
    for row in np.flatnonzero(np.diff(graph.indptr) >= graph.k):
        weights = graph.weights[graph.indptr[row] : graph.indptr[row + 1]]
        place = len(weights) - graph.k
        thresholds[row] = np.partition(weights, place)[place]
    return thresholds


class NearestRows:
    """The fitted rows csr[n, columns], made ready to find the neighbours of new ones.

    Fitted row j is a neighbour of a new row when it is among that row's own top-K, or when the
    new row would be among the top-K of j: when it is more similar than `thresholds[j]`, float32[n].
    Without thresholds only the first counts.
    """

    def __init__(
        self,
        fitted: sparse.csr_array,
        thresholds: NDArray[np.float32] | None = None,
        threads: int | None = None,
    ) -> None:
        if thresholds is None:
            thresholds = np.full(fitted.shape[0], np.inf, np.float32)
        self._columns = fitted_columns(fitted, thresholds)
        self._threads = resolve_threads(threads)

    def sums(
        self,
        new: sparse.csr_array,
        table: NDArray[np.float32],
        k: int,
        without: NDArray[np.int64] | None = None,
    ) -> Iterator[tuple[slice, NDArray[np.float32], NDArray[np.float64]]]:
        """For block after block of new rows: which rows, sum_j w_j table[j], and sum_j w_j.

        float32[rows, d] for `table` float32[n, d], and float64[rows]. Fitted row `without[i]` is
        no neighbour of new row i. Memory is one block, time is linear in the new rows.
        """
        if new.shape[0] == 0:
            return
        skip = np.full(new.shape[0], -1, np.int64) if without is None else without
        workers = min(self._threads, new.shape[0])
        for block in new_row_blocks(new, self._columns, k, workers):
            part = slice(block.first, block.first + len(block.length))
            sums = np.zeros((len(block.length), table.shape[1]), np.float32)
            totals = np.zeros(len(block.length))
            work = (*block[1:], skip[part], table, np.zeros(1, np.int64), sums, totals)
            # Plain threads as in `new_row_blocks`: a service places people from many of them.
            on_each_thread(lambda _, work=work: _sum_block(*work), workers)  # type: ignore[misc]
            yield part, sums, totals


@kernel
def _sum_block(
    indices: NDArray[np.int32],
    weights: NDArray[np.float32],
    length: NDArray[np.int64],
    skip: NDArray[np.int64],
    table: NDArray[np.float32],
    turn: NDArray[np.int64],
    sums: NDArray[np.float32],
    totals: NDArray[np.float64],
) -> None:
    """sums[i] = sum_j w_ij table[j] and totals[i] = sum_j w_ij; several threads share `turn`."""
    width: Any = uint64(table.shape[1])
    while True:
        row = fetch_add(turn, int64(1))
        if row >= len(length):
            break
        total = 0.0
        neighbours: Any = uint64(length[row])
        for position in range(neighbours):
            j = uint64(indices[row, position])
            if int64(j) == skip[row]:
                continue
            weight = weights[row, position]
            total += weight
            for column in range(width):
                sums[row, column] += weight * table[j, column]
        totals[row] = total
