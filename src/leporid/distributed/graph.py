"""`BlockGraph`: a KNN graph whose edges stay on the workers of a Dask cluster."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from operator import getitem
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.distributed import blocks
from leporid.distributed.cluster import Cluster
from leporid.errors import ConfigError
from leporid.graph import BinaryCSR, GraphBuilder, Limits, binary_csr, column_bounds, usable_k
from leporid.progress import NullProgress, ProgressLike

BLOCKS_PER_WORKER = 4
"""Blocks are the unit of work, of progress, and of what has to be done again after a loss."""
MAX_BLOCKS = 64
"""The shuffle has a task for every pair of blocks."""
MIN_ROWS = 128
"""Smaller blocks would cost more in messages than they save."""


class BlockGraph:
    """A `RemoteGraph` in block rows; the client has arrays of one number per row.

    The neighbour lists stay on the workers as well, and the scheduler has the matrix: Dask computes
    the blocks of a lost worker again from these. Where Dask gives up, everything is built again.
    """

    def __init__(
        self, cluster: Cluster, members: BinaryCSR, k: int, progress: ProgressLike
    ) -> None:
        self._cluster, self._members, self._k = cluster, members, k
        n = members.n
        wanted = min(BLOCKS_PER_WORKER * len(cluster.threads), MAX_BLOCKS, n // MIN_ROWS)
        self._size = -(-n // max(wanted, 1))
        self._firsts = range(0, n, self._size)
        self._products = 0
        self._kept: list[Any] = []
        self._blocks: list[Any] = []
        cluster.retry(lambda _attempt: self._build(progress), "the neighbour search")

    @property
    def n(self) -> int:
        return self._members.n

    @property
    def n_edges(self) -> int:
        return int(self._lengths.sum())

    @property
    def k(self) -> int:
        return self._k

    @property
    def thresholds(self) -> NDArray[np.float32]:
        return self._limits.least

    def degrees(self) -> NDArray[np.float64]:
        return self._degrees

    def product(self, block: NDArray[Any]) -> NDArray[Any]:
        """float[n, 16]: W block, multiplied by the workers in the precision of `block`."""
        return self._cluster.retry(lambda attempt: self._multiply(block, attempt), "a product")

    def csr(self) -> sparse.csr_array:
        """The edges, brought to the client: the dense solver of small graphs needs them."""

        def bring(attempt: int) -> list[Any]:
            self._repair(attempt)
            return self._cluster.gather(self._blocks)

        rows = self._cluster.retry(bring, "gathering the graph")
        columns = np.concatenate([block.columns for block in rows]).astype(np.int32)
        weights = np.concatenate([block.weights for block in rows])
        indptr = np.concatenate([[0], np.cumsum(self._lengths)])
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
        cluster, n, size, k = self._cluster, self.n, self._size, self._k
        self._run = run = uuid.uuid4().hex[:8]
        firsts = self._firsts
        stops = [min(first + size, n) for first in firsts]
        count = len(firsts)

        def each(name: str, task: Callable[..., Any], *values: Any) -> list[Any]:
            """A future for each block; a value that is no sequence is the same for all."""
            keys = [(f"leporid-{name}-{run}", block) for block in range(count)]
            lists = [v if isinstance(v, Sequence) else [v] * count for v in values]
            passing.extend(futures := cluster.submit(keys, task, *lists))
            return futures

        def report(stage: str) -> Callable[[int], None]:
            progress.start(stage, n)
            return lambda block: progress.advance(stops[block] - firsts[block])

        matrix = cluster.keep((f"leporid-matrix-{run}", 0), self._members)
        passing.append(matrix)
        lists = each("neighbours", blocks.block_neighbours, matrix, firsts, stops, k)
        cluster.wait(lists, report("neighbours"))

        limited = each("limits", blocks.block_limits, lists, k)
        (limits,) = cluster.submit([(f"leporid-limits-{run}", -1)], blocks.joined, [limited])
        passing.append(limits)
        reverse = each("reverse", blocks.reverse_edges, lists, limits, firsts, size)
        # A task for every pair of blocks, so that only the part for one block travels to it.
        pieces = [each(f"shuffle-{block}", getitem, reverse, block) for block in range(count)]
        rows = each("merge", blocks.merge_block, lists, pieces, size)
        sums = each("sums", blocks.block_sums, rows)
        cluster.wait(sums, report("graph"))
        self._lengths, self._degrees = blocks.joined(cluster.gather(sums))
        self._limits = Limits(*cluster.gather([limits])[0])

        bounds = column_bounds(n, self.n_edges)
        ready = each("block", blocks.prepare_block, rows, bounds)
        cluster.wait(ready)
        # With the lists a lost block costs a merge, and not a search of all rows.
        self._blocks, self._kept = ready, [matrix, *lists]

    def _multiply(self, x: NDArray[Any], attempt: int) -> NDArray[Any]:
        self._repair(attempt)
        self._products += 1
        name, number = f"leporid-product-{self._run}", self._products
        panel = self._cluster.send((f"leporid-panel-{self._run}", number), x)
        keys = [(name, number, block) for block in range(len(self._firsts))]
        parts = self._cluster.submit(keys, blocks.multiply_block, self._blocks, [panel] * len(keys))
        try:
            return np.concatenate(self._cluster.gather(parts))
        finally:
            self._cluster.release([panel, *parts])

    def _repair(self, attempt: int) -> None:
        """Build everything again where the first attempt found blocks that Dask cannot restore."""
        gone = any(block.status in ("cancelled", "error") for block in self._blocks)
        if attempt and (gone or not self._blocks):
            self._build(NullProgress())


def graph_builder(client: Any) -> GraphBuilder:
    """`client` itself where it builds graphs, else `DaskGraphs` around a `distributed.Client`."""
    return client if isinstance(client, GraphBuilder) else DaskGraphs(client)


class DaskGraphs:
    """Builds graphs on the cluster of a `distributed.Client`."""

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
        members = binary_csr(rows)
        k = usable_k(k, members.n - 1)
        return BlockGraph(Cluster(self._client), members, k, progress)
