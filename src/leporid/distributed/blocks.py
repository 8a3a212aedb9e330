"""What workers compute, block of rows by block of rows: neighbours, edges, products.

W_ij is an edge if j is in top-K(i) or i in top-K(j). The block of i has the first kind; of the
second kind each block sends it those j that chose i.

What travels in a product is the panel of 16 columns, to every worker, and each worker's rows of
the image, back. The sums are those of `graph.kernels.product`, in the same order: the same bits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.graph import (
    BLOCK,
    BinaryCSR,
    NeighbourLists,
    Similarity,
    add_rows,
    directed_neighbours,
    even_shares,
    huge_zeros,
    row_sums,
)
from leporid.progress import NullProgress
from leporid.threads import on_each_thread

T = TypeVar("T", bound=tuple[Any, ...])

one_at_a_time = threading.Lock()
"""A worker works on one block at a time, on all its threads: one layout of the rows in memory."""


def worker_threads() -> int:
    """Threads this worker was given; 1 outside a worker."""
    from distributed import get_worker

    try:
        return int(get_worker().state.nthreads)
    except ValueError:
        return 1


def writable(arrays: T) -> T:
    """The same named tuple with arrays that may be written to.

    Those that came over the wire, or from a worker's disk, may be read-only; numba would compile
    every kernel a second time for them.
    """
    make: Callable[..., T] = type(arrays)
    return make(
        *(
            np.require(value, requirements=["C", "W"]) if isinstance(value, np.ndarray) else value
            for value in arrays
        )
    )


class Rows(NamedTuple):
    """Rows of a CSR matrix. (Dask sees the size of arrays in tuples, not in scipy's.)"""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    weights: NDArray[np.float32]

    @classmethod
    def of(cls, matrix: sparse.csr_array) -> Rows:
        """The rows of a scipy matrix."""
        return cls(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data)

    def csr(self, columns: int) -> sparse.csr_array:
        """The rows as a scipy matrix."""
        return sparse.csr_array(self[::-1], shape=(len(self.indptr) - 1, columns))


def block_neighbours(members: BinaryCSR, first: int, stop: int, k: int) -> NeighbourLists:
    """The k most similar rows of each row in [first, stop), ascending; the row itself left out.

    The same lists, to the bit, as the search over all rows at once finds.
    """
    members = writable(members)
    start, end = members.indptr[[first, stop]]
    indptr = members.indptr[first : stop + 1] - start
    rows = BinaryCSR(indptr, members.columns[start:end], members.n_columns)
    own, jaccard = np.arange(first, stop), Similarity("jaccard")
    with one_at_a_time:
        return directed_neighbours(rows, members, k, jaccard, own, worker_threads(), NullProgress())


def joined(parts: list[tuple[NDArray[Any], ...]]) -> tuple[NDArray[Any], ...]:
    """Arrays of all rows from those of each block."""
    return tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True))


def thresholds(lists: NeighbourLists, k: int) -> NDArray[np.float32]:
    """float32[rows]: the k-th similarity of each row, 0 where it has fewer neighbours."""
    return np.where(lists.length == k, lists.weights.min(axis=1, initial=2.0), np.float32(0))


def reverse_edges(lists: NeighbourLists, n: int, size: int) -> list[Rows]:
    """For every block of `size` of the n rows, its edges to the block of these lists."""
    with one_at_a_time:
        reverse = lists.csr(n).T.tocsr()
    parts = [reverse[first : first + size] for first in range(0, n, size)]
    return [Rows.of(part) for part in parts]


def merge_block(lists: NeighbourLists, pieces: list[Rows], size: int) -> Rows:
    """A block's own neighbours and those that chose them, by block in order, as rows of W."""
    with one_at_a_time:
        others = sparse.hstack([piece.csr(size) for piece in pieces], format="csr")
        return Rows.of(lists.csr(others.shape[1]).maximum(others))


def block_sums(rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Lengths and degrees of a block's rows, summed as `KnnGraph.degrees` does."""
    return np.diff(rows.indptr), row_sums(rows.indptr, rows.weights)


def multiply_block(block: Rows, x: NDArray[Any]) -> NDArray[Any]:
    """float[rows, 16]: the block's rows of W x, for x float[n, 16]."""
    rows = writable(block)
    # Random rows of x are read: on huge pages, as `graph.kernels.product` does.
    wide = huge_zeros(x.shape, x.dtype)
    wide[:] = x
    out = np.zeros((len(rows.indptr) - 1, BLOCK), x.dtype)
    with one_at_a_time:
        threads = worker_threads()
        ends = even_shares(rows.indptr, threads)
        on_each_thread(
            lambda thread: add_rows(*rows, ends[thread], ends[thread + 1], wide, out), threads
        )
    return out
