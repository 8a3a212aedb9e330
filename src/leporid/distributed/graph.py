"""`BlockGraph`: a KNN graph whose edges stay on the workers of a Dask cluster.

W_ij is an edge if j is in top-K(i) or i in top-K(j). The block of i has the first kind; of the
second kind each block sends it those j that chose i.

What travels in a product is the panel of 16 columns, to every worker, and each worker's rows of
the image, back. The sums are those of `graph.kernels.product`, in the same order: the same bits.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from operator import getitem
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.distributed.cluster import Cluster, Future, one_at_a_time
from leporid.errors import ConfigError
from leporid.foundation import NullProgress, ProgressLike, on_each_thread
from leporid.graph import (
    BLOCK,
    BinaryCSR,
    Block,
    NeighbourLists,
    Similarity,
    add_rows,
    binary_csr,
    directed_neighbours,
    even_shares,
    huge_zeros,
    row_sums,
    usable_k,
)

if TYPE_CHECKING:
    from distributed import Client

T = TypeVar("T", bound=tuple[Any, ...])

BLOCKS_PER_WORKER = 4
"""Blocks are the unit of work, of progress, and of what has to be done again after a loss."""
MAX_BLOCKS = 64
"""The shuffle has a task for every pair of blocks."""
MIN_ROWS = 128
"""Smaller blocks would cost more in messages than they save."""


class BlockGraph:
    """The graph of `knn_graph(rows, k)`, to the bit, in block rows on the workers.

    The client has arrays of one number per row. The neighbour lists stay on the workers as well,
    and the scheduler has the matrix: Dask computes the blocks of a lost worker again from these.
    """

    def __init__(
        self,
        client: Client,
        rows: sparse.csr_array,
        k: int,
        *,
        device: str,
        progress: ProgressLike,
    ) -> None:
        if device == "cuda":
            raise ConfigError(
                "workers of a Dask cluster compute on their CPUs: use device='auto'"
            )
        members = binary_csr(rows)
        self.n = members.n
        self.k = usable_k(k, members.n - 1)
        self._cluster = cluster = Cluster(client)
        wanted = min(
            BLOCKS_PER_WORKER * cluster.workers,
            MAX_BLOCKS,
            self.n // MIN_ROWS,
        )
        size = -(-self.n // max(wanted, 1))
        self._firsts = firsts = range(0, self.n, size)
        self._run = run = uuid.uuid4().hex[:8]
        self._products = 0
        stops = [min(first + size, self.n) for first in firsts]
        blocks = range(len(firsts))
        submitted: list[Future] = []

        def each(
            name: str,
            task: Callable[..., object],
            *values: object,
        ) -> list[Future]:
            """Return a future for each block; a value that is no sequence is the same for all."""
            keys = [(f"leporid-{name}-{run}", block) for block in blocks]
            lists = [
                value if isinstance(value, Sequence) else [value] * len(blocks)
                for value in values
            ]
            futures = cluster.submit(keys, task, *lists)
            submitted.extend(futures)
            return futures

        def report(stage: str) -> Callable[[int], None]:
            progress.start(stage, self.n)
            return lambda block: progress.advance(stops[block] - firsts[block])

        matrix = cluster.keep((f"leporid-matrix-{run}", 0), members)
        lists = each("neighbours", block_neighbours, matrix, firsts, stops, self.k)
        cluster.wait(lists, report("neighbours"))

        limits = each("limits", thresholds, lists, self.k)
        reverse = each("reverse", reverse_edges, lists, self.n, size)
        # A task for every pair of blocks, so that only the part for one block travels to it.
        pieces = [each(f"shuffle-{block}", getitem, reverse, block) for block in blocks]
        self._blocks = each("block", merge_block, lists, pieces, size)
        sums = each("sums", block_sums, self._blocks)
        cluster.wait(sums, report("graph"))
        lengths, degrees = zip(*cluster.gather(sums), strict=True)
        self._lengths = np.concatenate(lengths)
        self._degrees = np.concatenate(degrees)
        self.thresholds: NDArray[np.float32] = np.concatenate(cluster.gather(limits))
        # With the lists a lost block costs a merge, and not a search of all rows.
        self._needed = [matrix, *lists, *self._blocks]
        cluster.release(future for future in submitted if future not in self._needed)

    @property
    def n_edges(self) -> int:
        return int(self._lengths.sum())

    def degrees(self) -> NDArray[np.float64]:
        return self._degrees

    def product(self, block: Block) -> Block:
        """Return W block, float[n, 16], multiplied by the workers in the precision of `block`."""
        self._products += 1
        number = self._products
        panel = self._cluster.keep((f"leporid-panel-{self._run}", number), block)
        name = f"leporid-product-{self._run}"
        keys = [(name, number, position) for position in range(len(self._firsts))]
        panels = [panel] * len(keys)
        parts = self._cluster.submit(keys, multiply_block, self._blocks, panels)
        image = np.concatenate(self._cluster.gather(parts))
        self._cluster.release([panel, *parts])
        return image

    def csr(self) -> sparse.csr_array:
        """Bring the edges to the client: the dense solver of small graphs needs them."""
        blocks: list[Rows] = self._cluster.gather(self._blocks)
        indices = np.concatenate([rows.indices for rows in blocks])
        weights = np.concatenate([rows.weights for rows in blocks])
        indptr = np.concatenate([[0], np.cumsum(self._lengths)])
        return sparse.csr_array((weights, indices, indptr), shape=(self.n, self.n))

    def release(self) -> None:
        """Free the workers' memory; there are no products afterwards."""
        self._cluster.release(self._needed)


def worker_threads() -> int:
    """Return the threads this worker was given; 1 outside a worker."""
    from distributed import get_worker

    try:
        return int(get_worker().state.nthreads)
    except ValueError:
        return 1


def writable(arrays: T) -> T:
    """Return a named tuple with its arrays copied where they may not be written to.

    Arrays that came over the wire, or from a worker's disk, may be read-only; numba would compile
    every kernel a second time for them.
    """
    values: list[object] = []
    for value in arrays:
        if isinstance(value, np.ndarray):
            value = np.require(value, requirements=["C", "W"])
        values.append(value)
    make: Callable[..., T] = type(arrays)
    return make(*values)


class Rows(NamedTuple):
    """Rows of a CSR matrix. (Dask sees the size of arrays in tuples, not in scipy's.)"""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    weights: NDArray[np.float32]

    @classmethod
    def of(cls, matrix: sparse.csr_array) -> Rows:
        """Take the rows of a scipy matrix."""
        return cls(
            indptr=matrix.indptr.astype(np.int64),
            indices=matrix.indices.astype(np.int32),
            weights=matrix.data,
        )

    def csr(self, columns: int) -> sparse.csr_array:
        """Return the rows as a scipy matrix."""
        return sparse.csr_array(
            (self.weights, self.indices, self.indptr),
            shape=(len(self.indptr) - 1, columns),
        )


def block_neighbours(
    members: BinaryCSR,
    first: int,
    stop: int,
    k: int,
) -> NeighbourLists:
    """Find the k most similar rows of each row in [first, stop), ascending, without itself.

    The lists are, to the bit, those that the search over all rows at once finds.
    """
    members = writable(members)
    start, end = members.indptr[[first, stop]]
    indptr = members.indptr[first : stop + 1] - start
    rows = BinaryCSR(indptr, members.columns[start:end], members.n_columns)
    with one_at_a_time:
        return directed_neighbours(
            rows,
            members,
            k,
            Similarity("jaccard"),
            own=np.arange(first, stop),
            threads=worker_threads(),
            progress=NullProgress(),
        )


def thresholds(lists: NeighbourLists, k: int) -> NDArray[np.float32]:
    """Return float32[rows], the k-th similarity of each row, 0 where it has fewer neighbours."""
    least = lists.weights.min(axis=1, initial=2.0)
    return np.where(lists.length == k, least, np.float32(0))


def reverse_edges(lists: NeighbourLists, n: int, size: int) -> list[Rows]:
    """Return, for every block of `size` of the n rows, its edges to the block of these lists."""
    with one_at_a_time:
        reverse = lists.csr(n).T.tocsr()
    parts = [reverse[first : first + size] for first in range(0, n, size)]
    return [Rows.of(part) for part in parts]


def merge_block(lists: NeighbourLists, pieces: list[Rows], size: int) -> Rows:
    """Merge a block's own neighbours with those that chose them, by block in order, into W."""
    with one_at_a_time:
        others = sparse.hstack([piece.csr(size) for piece in pieces], format="csr")
        return Rows.of(lists.csr(others.shape[1]).maximum(others))


def block_sums(rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return lengths and degrees of a block's rows, summed as `KnnGraph.degrees` does."""
    return np.diff(rows.indptr), row_sums(rows.indptr, rows.weights)


def multiply_block(block: Rows, x: Block) -> Block:
    """Return the block's rows of W x, float[rows, 16], for x float[n, 16]."""
    rows = writable(block)
    # Random rows of x are read: on huge pages, as `graph.kernels.product` does.
    x_on_huge_pages = huge_zeros(x.shape, x.dtype)
    x_on_huge_pages[:] = x
    out = np.zeros((len(rows.indptr) - 1, BLOCK), x.dtype)
    with one_at_a_time:
        threads = worker_threads()
        ends = even_shares(rows.indptr, threads)

        def work(thread: int) -> None:
            first = ends[thread]
            stop = ends[thread + 1]
            add_rows(*rows, first, stop, x_on_huge_pages, out)

        on_each_thread(work, threads)
    return out
