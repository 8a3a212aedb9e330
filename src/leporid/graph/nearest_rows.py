"""Weighted sums over the neighbours that new rows have among the rows of a graph.

Shared columns are counted through lists of the fitted rows of each column. A fitted row may choose
a new one however many are more similar, so there is no early threshold as in the search.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numba import float32, float64, int64, uint32, uint64
from numpy.typing import NDArray
from scipy import sparse

from leporid.errors import GraphError
from leporid.foundation import Integer, kernel, on_each_share, resolve_threads
from leporid.graph.kernels.search import kth_largest
from leporid.graph.types import BinaryCSR, binary_csr

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


class NewRows(NamedTuple):
    """The rows whose neighbours are summed."""

    members: BinaryCSR
    k: int
    """Fitted rows that a new row chooses itself."""
    skip: NDArray[np.int64]
    """int64[n]: the fitted row that is no neighbour of a new row; -1 for none."""


class BlockSums(NamedTuple):
    """The sums for a block of new rows, which begins at row `first`."""

    first: int
    sums: NDArray[np.float32]
    """float32[rows, d]: sum_j w_ij table[j]."""
    totals: NDArray[np.float64]
    """float64[rows]: sum_j w_ij."""


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
        self._fitted = FittedColumns(
            start=lists.indptr.astype(np.int64),
            rows=lists.indices.astype(np.int32),
            sizes=members.degrees.astype(np.float64),
            thresholds=np.asarray(thresholds, np.float32),
        )
        self._threads = resolve_threads(threads)

    def sums(
        self,
        new: sparse.csr_array,
        table: NDArray[np.float32],
        k: int,
        without: NDArray[np.int64] | None = None,
    ) -> Iterator[tuple[slice, NDArray[np.float32], NDArray[np.float64]]]:
        """Yield for each block of new rows: which rows, sum_j w_j table[j], and sum_j w_j.

        The sums are float32[rows, d] for `table` float32[n, d], and float64[rows]. Fitted row
        `without[i]` is no neighbour of new row i.
        """
        count, columns = new.shape
        if columns != len(self._fitted.start) - 1:
            raise GraphError(
                f"the new rows have {columns} columns and the fitted rows "
                f"{len(self._fitted.start) - 1}: both must use the same columns"
            )
        if count == 0:
            return
        skip = np.full(count, -1, np.int64) if without is None else without
        rows = NewRows(binary_csr(new, "new"), k, skip)
        threads = min(self._threads, count)
        scratch = np.zeros((threads, 3, len(table)), np.uint32)

        def sum_block(first: int, stop: int) -> BlockSums:
            sums = np.zeros((stop - first, table.shape[1]), np.float32)
            block = BlockSums(first, sums, totals=np.zeros(len(sums)))

            def work(thread: int, begin: int, end: int) -> None:
                space = scratch[thread]
                sum_neighbours(rows, self._fitted, table, space, begin, end, block)

            # Plain threads and not numba's: a service calls this from many of them.
            on_each_share(work, first, stop, threads)
            return block

        for first in range(0, count, BLOCK_ROWS):
            stop = min(first + BLOCK_ROWS, count)
            block = sum_block(first, stop)
            yield slice(first, stop), block.sums, block.totals


@kernel
def sum_neighbours(
    new: NewRows,
    fitted: FittedColumns,
    table: NDArray[np.float32],
    scratch: NDArray[np.uint32],
    begin: int,
    end: int,
    block: BlockSums,
) -> None:
    """Fill the sums of the new rows [begin, end), which lie in `block`.

    `scratch` is uint32[3, n], zero in its first row.
    """
    counters = scratch[0]
    rows = scratch[1]
    bits = scratch[2]
    weights = bits.view(np.float32)
    for row in range(begin, end):
        start = new.members.indptr[row]
        members = new.members.columns[start : new.members.indptr[row + 1]]
        for column in members:
            for at in range(fitted.start[column], fitted.start[column + 1]):
                counters[uint64(fitted.rows[uint64(at)])] += uint32(1)
        candidates = uint64(0)
        for position in range(uint64(len(counters))):
            if counters[position]:
                count = float64(counters[position])
                similarity = count / (len(members) + fitted.sizes[position] - count)
                rows[candidates] = uint32(position)
                weights[candidates] = float32(similarity)
                candidates += uint64(1)
        counters[:] = uint32(0)
        chosen = _choose(candidates, new.k, fitted, rows, bits)
        total = 0.0
        to = block.sums[row - block.first]
        for position in range(chosen):
            other = uint64(rows[position])
            weight = weights[position]
            if int64(other) != new.skip[row]:
                total += weight
                for column in range(uint64(len(to))):
                    to[column] += weight * table[other, column]
        block.totals[row - block.first] = total


@kernel
def _choose(
    candidates: Integer,
    k: int,
    fitted: FittedColumns,
    rows: NDArray[np.uint32],
    bits: NDArray[np.uint32],
) -> Integer:
    """Move the row's own top k and the rows that would choose it to the front; count them."""
    weights = bits.view(np.float32)
    bound = uint32(0)
    ties = uint64(0)
    if candidates > uint64(k):
        bound = uint32(kth_largest(bits, candidates, k, int64(32)))
        ties = uint64(k)
        for position in range(candidates):
            ties -= uint64(bits[position] > bound)
    filled = uint64(0)
    for position in range(candidates):
        is_chosen = bits[position] > bound
        if bits[position] == bound and ties > uint64(0):
            is_chosen = True
            ties -= uint64(1)
        threshold = fitted.thresholds[uint64(rows[position])]
        if is_chosen or weights[position] > threshold:
            rows[filled] = rows[position]
            weights[filled] = weights[position]
            filled += uint64(1)
    return filled
