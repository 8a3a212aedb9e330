"""`BlockGraph`: a KNN graph whose edges stay on the workers of a Dask cluster."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.distributed import shuffle
from leporid.distributed.cluster import Cluster
from leporid.distributed.product import multiply_block, prepare_block
from leporid.errors import ConfigError
from leporid.graph import Members, column_bounds, members_of, usable_k
from leporid.progress import NullProgress, ProgressLike

BLOCKS_PER_WORKER = 4
"""Blocks are the unit of work, of progress, and of what has to be done again after a loss."""
MOST_BLOCKS = 64
"""The shuffle has a task for every pair of blocks."""
FEWEST_ROWS = 128
"""Smaller blocks would cost more in messages than they save."""


class BlockGraph:
    """A `RemoteGraph` in block rows; the client has arrays of one number per row.

    The neighbour lists stay on the workers as well, and the scheduler has the matrix: what is lost
    with a worker is that worker's share, and Dask computes it again from these. Where Dask gives
    up, all of it is made again.
    """

    def __init__(self, cluster: Cluster, members: Members, k: int, progress: ProgressLike) -> None:
        self._cluster, self._members, self._k = cluster, members, k
        n = members.n
        wanted = min(BLOCKS_PER_WORKER * len(cluster.threads), MOST_BLOCKS, n // FEWEST_ROWS)
        self._size = -(-n // max(wanted, 1))
        self._firsts = range(0, n, self._size)
        self._products = 0
        self._kept: list[Any] = []
        self._blocks: list[Any] = []
        cluster.persevere(lambda _attempt: self._build(progress), "the neighbour search")

    @property
    def n(self) -> int:
        """Number of nodes."""
        return self._members.n

    @property
    def n_edges(self) -> int:
        """Number of stored entries."""
        return int(self._sums.lengths.sum())

    @property
    def k(self) -> int:
        """Neighbours per row, at most n - 1."""
        return self._k

    @property
    def thresholds(self) -> NDArray[np.float32]:
        """float32[n]: the k-th similarity of each row, 0 where it has fewer neighbours."""
        return self._thresholds

    def degrees(self) -> NDArray[np.float64]:
        """float64[n]: d = W 1."""
        return self._sums.degrees

    def product(self, block: NDArray[Any]) -> NDArray[Any]:
        """float[n, 16]: W block, multiplied by the workers in the precision of `block`."""
        return self._cluster.persevere(lambda attempt: self._multiply(block, attempt), "a product")

    def csr(self) -> sparse.csr_array:
        """The edges, brought to the client: the dense solver of small graphs needs them."""

        def bring(attempt: int) -> list[Any]:
            self._repair(attempt)
            return self._cluster.gather(self._blocks)

        blocks = self._cluster.persevere(bring, "gathering the graph")
        columns = np.concatenate([block.columns for block in blocks]).astype(np.int32)
        weights = np.concatenate([block.weights for block in blocks])
        indptr = np.concatenate([[0], np.cumsum(self._sums.lengths)])
        return sparse.csr_array((weights, columns, indptr), shape=(self.n, self.n))

    def release(self) -> None:
        """Free the workers' memory."""
        self._cluster.release([*self._kept, *self._blocks])
        self._kept, self._blocks = [], []

    def _build(self, progress: ProgressLike) -> None:
        """Neighbours, shuffle, merge; what only served on the way is freed, also after an error."""
        self.release()
        passing: list[Any] = []
        try:
            self._build_with(passing, progress)
        finally:
            kept = {*self._kept, *self._blocks}
            self._cluster.release(future for future in passing if future not in kept)

    def _build_with(self, passing: list[Any], progress: ProgressLike) -> None:
        cluster, n, size, k = self._cluster, self._members.n, self._size, self._k
        self._run = run = uuid.uuid4().hex[:8]
        sizes = [min(first + size, n) - first for first in self._firsts]

        def each(name: str, task: Callable[..., Any], *values: Sequence[Any]) -> list[Any]:
            keys = [(f"leporid-{name}-{run}", block) for block in range(len(sizes))]
            passing.extend(futures := cluster.submit(keys, task, *values))
            return futures

        def same(value: Any) -> list[Any]:
            return [value] * len(sizes)

        def report(stage: str) -> Callable[[int], None]:
            progress.start(stage, n)
            return lambda block: progress.advance(sizes[block])

        matrix = cluster.keep((f"leporid-matrix-{run}", 0), self._members)
        passing.append(matrix)
        stops = [first + rows for first, rows in zip(self._firsts, sizes, strict=True)]
        lists = each(
            "neighbours", shuffle.block_neighbours, same(matrix), self._firsts, stops, same(k)
        )
        cluster.wait(lists, report("neighbours"))

        limited = each("limits", shuffle.block_limits, lists, same(k))
        (limits,) = cluster.submit([(f"leporid-limits-{run}", -1)], shuffle.join_limits, [limited])
        passing.append(limits)
        reverse = each(
            "reverse", shuffle.reverse_edges, lists, same(limits), self._firsts, same(size)
        )
        places = range(len(sizes))
        pieces = [
            cluster.submit(
                [(f"leporid-shuffle-{run}", source, target) for source in places],
                shuffle.piece_of,
                reverse,
                same(target),
            )
            for target in places
        ]
        passing.extend(piece for column in pieces for piece in column)
        rows = each("merge", shuffle.merge_block, lists, pieces)
        sums = each("sums", shuffle.block_sums, rows)
        cluster.wait(sums, report("graph"))
        parts = zip(*cluster.gather(sums), strict=True)
        self._sums = shuffle.RowSums(*(np.concatenate(arrays) for arrays in parts))
        self._thresholds = np.asarray(cluster.gather([limits])[0].least)

        bounds = column_bounds(n, int(self._sums.lengths.sum()))
        blocks = each("block", prepare_block, rows, same(bounds))
        cluster.wait(blocks)
        self._blocks = blocks
        # With these a lost block costs a merge, and not a search of all rows.
        self._kept = [matrix, *lists]

    def _multiply(self, x: NDArray[Any], attempt: int) -> NDArray[Any]:
        self._repair(attempt)
        self._products += 1
        name, number = f"leporid-product-{self._run}", self._products
        panel = self._cluster.send((f"leporid-panel-{self._run}", number), x)
        keys = [(name, number, place) for place in range(len(self._firsts))]
        parts = self._cluster.submit(keys, multiply_block, self._blocks, [panel] * len(keys))
        try:
            return np.concatenate(self._cluster.gather(parts))
        finally:
            self._cluster.release([panel, *parts])

    def _repair(self, attempt: int) -> None:
        """Make everything again where the first attempt found that blocks are gone for good."""
        gone = any(block.status in ("cancelled", "error") for block in self._blocks)
        if attempt and (gone or not self._blocks):
            self._build(NullProgress())


class DaskGraphs:
    """The `graph.remote.GraphBuilder` around a `distributed.Client`."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def knn_graph(
        self, rows: Any, k: int, *, device: str, solver: str, progress: ProgressLike
    ) -> BlockGraph:
        """`knn_graph` on the workers: the same edges, to the bit.

        Settings that have no meaning there are refused before any work is done.
        """
        if device == "cuda":
            raise ConfigError("workers of a Dask cluster compute on their CPUs: use device='auto'")
        if solver == "arpack":
            raise ConfigError(
                "solver='arpack' multiplies single vectors: use 'lanczos' with client="
            )
        members = members_of(rows)
        k = usable_k(k, members.n - 1)
        return BlockGraph(Cluster(self._client), members, k, progress)
