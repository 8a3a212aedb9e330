"""Weighted sums over the neighbours that new rows have among the rows of a graph.

Shared columns are counted through lists of the fitted rows of each column. A fitted row may choose
a new one however many are more similar, so there is no early threshold as in the search.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numba import float32, float64, int64, uint32, uint64
from numpy.typing import NDArray
from scipy import sparse

from leporid.errors import GraphError
from leporid.graph.kernels.search import kth_largest
from leporid.graph.types import BinaryCSR, binary_csr
from leporid.kernel import kernel
from leporid.machine import on_each_share, resolve_threads

BLOCK_ROWS = 1024
"""New rows in a block of sums."""


class FittedColumns(NamedTuple):
    """The fitted rows of each column, int32 and ascending, and what their similarities need."""

    start: NDArray[np.int64]
    rows: NDArray[np.int32]
    sizes: NDArray[np.float64]
    """float64[n]: items of each fitted row."""
    thresholds: NDArray[np.float32]
    """float32[n]: a new row must be more similar than this for row j to choose it."""


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
        lists = members.take(np.arange(members.n)).tocsc()
        start, rows = lists.indptr.astype(np.int64), lists.indices.astype(np.int32)
        sizes = members.degrees.astype(np.float64)
        self._fitted = FittedColumns(
            start, rows, sizes, np.asarray(thresholds, np.float32)
        )
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
        threads = min(self._threads, count)
        scratch = np.zeros((threads, 3, len(table)), np.uint32)
        for first in range(0, count, BLOCK_ROWS):
            part = slice(first, min(first + BLOCK_ROWS, count))
            sums = np.zeros((part.stop - first, table.shape[1]), np.float32)
            totals = np.zeros(len(sums))

            def work(
                thread: int, begin: int, end: int, to: Any = (first, sums, totals)
            ) -> None:
                space = scratch[thread]
                sum_neighbours(
                    members, self._fitted, k, skip, table, space, begin, end, *to
                )

            # Plain threads and not numba's: a service calls this from many of them.
            on_each_share(work, first, part.stop, threads)
            yield part, sums, totals


@kernel
def sum_neighbours(
    new: BinaryCSR,
    fitted: FittedColumns,
    k: int,
    skip: NDArray[np.int64],
    table: NDArray[np.float32],
    scratch: NDArray[np.uint32],
    begin: int,
    end: int,
    first: int,
    sums: NDArray[np.float32],
    totals: NDArray[np.float64],
) -> None:
    """sums[i - first] = sum_j w_ij table[j] and totals[i - first] = sum_j w_ij, begin <= i < end.

    `scratch` is uint32[3, n], zero in its first row.
    """
    counters, rows, bits = scratch[0], scratch[1], scratch[2]
    weights = bits.view(np.float32)
    for row in range(begin, end):
        members = new.columns[new.indptr[row] : new.indptr[row + 1]]
        for column in members:
            for at in range(fitted.start[column], fitted.start[column + 1]):
                counters[uint64(fitted.rows[uint64(at)])] += uint32(1)
        candidates: Any = uint64(0)
        for position in range(uint64(len(counters))):
            if counters[position]:
                count = float64(counters[position])
                similarity = count / (len(members) + fitted.sizes[position] - count)
                rows[candidates], weights[candidates] = (
                    uint32(position),
                    float32(similarity),
                )
                candidates += uint64(1)
        counters[:] = uint32(0)
        chosen = _choose(candidates, k, fitted, rows, bits)
        total = 0.0
        to = sums[row - first]
        for position in range(chosen):
            other, weight = uint64(rows[position]), weights[position]
            if int64(other) != skip[row]:
                total += weight
                for column in range(uint64(len(to))):
                    to[column] += weight * table[other, column]
        totals[row - first] = total


@kernel
def _choose(
    candidates: Any, k: int, fitted: FittedColumns, rows: Any, bits: Any
) -> Any:
    """Move the row's own top k and the rows that would choose it to the front; their number."""
    weights = bits.view(np.float32)
    bound = uint32(0)
    ties: Any = uint64(0)
    if candidates > uint64(k):
        bound = uint32(kth_largest(bits, candidates, k, int64(32)))
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
