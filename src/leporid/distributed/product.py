"""W x, block of rows by block of rows: each worker multiplies the edges it has.

What travels in a product is the panel of 16 columns, to every worker, and each worker's rows of
the image, back. The sums are those of `graph.kernels.product`, in the same order: the same bits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from leporid.distributed.shuffle import Rows
from leporid.distributed.worker import one_at_a_time, worker_threads, writable
from leporid.graph import BLOCK, add_edges, huge_zeros
from leporid.kernel import kernel
from leporid.threads import on_each_thread


class RowBlock(NamedTuple):
    """A block of rows of W, made ready for products."""

    columns: NDArray[Any]
    """uint16[nnz] where all columns fit, else uint32."""
    weights: NDArray[np.float32]
    cuts: NDArray[np.int64]
    """int64[panels + 1, rows]: where each row's edges enter the next panel of columns."""


def prepare_block(rows: Rows, bounds: NDArray[np.int64]) -> RowBlock:
    """Narrow the column numbers and cut the rows."""
    n = int(bounds[-1])
    indptr, indices, weights = writable(rows)
    columns = indices.astype(np.uint16) if n <= 1 << 16 else indices.view(np.uint32)
    cuts = np.empty((len(bounds), len(rows.indptr) - 1), np.int64)
    _cut(indptr, indices, bounds.copy(), cuts)
    return RowBlock(columns, weights, cuts)


def multiply_block(block: RowBlock, x: NDArray[Any]) -> NDArray[Any]:
    """float[rows, 16]: the block's rows of W x, for x float[n, 16]."""
    columns, weights, cuts = writable(block)
    rows = cuts.shape[1]
    # Random rows of x are read: on huge pages, as there.
    wide = huge_zeros(x.shape, x.dtype)
    wide[:] = x
    out = np.zeros((rows, BLOCK), x.dtype)
    with one_at_a_time:
        threads = worker_threads()
        shares = np.searchsorted(cuts[-1], np.linspace(0, len(columns), threads + 1)[1:-1])
        ends = [0, *(int(share) for share in shares), rows]
        on_each_thread(
            lambda t: _multiply(cuts, columns, weights, ends[t], ends[t + 1], wide, out), threads
        )
    return out


@kernel
def _cut(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    bounds: NDArray[np.int64],
    cuts: NDArray[np.int64],
) -> None:
    for i in range(len(indptr) - 1):
        row = indices[indptr[i] : indptr[i + 1]]
        for panel in range(len(bounds)):
            cuts[panel, i] = indptr[i] + np.searchsorted(row, bounds[panel])


@kernel
def _multiply(
    cuts: NDArray[np.int64],
    columns: NDArray[Any],
    weights: NDArray[np.float32],
    first: int,
    stop: int,
    x: NDArray[Any],
    out: NDArray[Any],
) -> None:
    for panel in range(len(cuts) - 1):
        for i in range(first, stop):
            start, end = cuts[panel, i], cuts[panel + 1, i]
            if start < end:
                add_edges(columns, weights, x, out, start, end, np.int64(i))
