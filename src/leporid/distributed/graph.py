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
from leporid.graph import binary_csr, usable_k
from leporid.progress import ProgressLike

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
        self, client: Any, rows: sparse.csr_array, k: int, *, device: str, progress: ProgressLike
    ) -> None:
        if device == "cuda":
            raise ConfigError("workers of a Dask cluster compute on their CPUs: use device='auto'")
        members = binary_csr(rows)
        self.n, self.k = members.n, usable_k(k, members.n - 1)
        self._cluster = cluster = Cluster(client)
        wanted = min(BLOCKS_PER_WORKER * cluster.workers, MAX_BLOCKS, self.n // MIN_ROWS)
        size = -(-self.n // max(wanted, 1))
        self._firsts = firsts = range(0, self.n, size)
        self._run = run = uuid.uuid4().hex[:8]
        self._products = 0
        stops, passing = [min(first + size, self.n) for first in firsts], []

        def each(name: str, task: Callable[..., Any], *values: Any) -> list[Any]:
            """A future for each block; a value that is no sequence is the same for all."""
            keys = [(f"leporid-{name}-{run}", block) for block in range(len(firsts))]
            lists = [v if isinstance(v, Sequence) else [v] * len(firsts) for v in values]
            passing.extend(futures := cluster.submit(keys, task, *lists))
            return futures

        def report(stage: str) -> Callable[[int], None]:
            progress.start(stage, self.n)
            return lambda block: progress.advance(stops[block] - firsts[block])

        matrix = cluster.keep((f"leporid-matrix-{run}", 0), members)
        lists = each("neighbours", blocks.block_neighbours, matrix, firsts, stops, self.k)
        cluster.wait(lists, report("neighbours"))

        limits = each("limits", blocks.thresholds, lists, self.k)
        reverse = each("reverse", blocks.reverse_edges, lists, self.n, size)
        # A task for every pair of blocks, so that only the part for one block travels to it.
        pieces = [each(f"shuffle-{block}", getitem, reverse, block) for block in range(len(firsts))]
        self._blocks = each("block", blocks.merge_block, lists, pieces, size)
        sums = each("sums", blocks.block_sums, self._blocks)
        cluster.wait(sums, report("graph"))
        self._lengths, self._degrees = blocks.joined(cluster.gather(sums))
        self.thresholds: NDArray[np.float32] = np.concatenate(cluster.gather(limits))
        # With the lists a lost block costs a merge, and not a search of all rows.
        self._kept = [matrix, *lists, *self._blocks]
        cluster.release(future for future in passing if future not in self._kept)

    @property
    def n_edges(self) -> int:
        return int(self._lengths.sum())

    def degrees(self) -> NDArray[np.float64]:
        return self._degrees

    def product(self, block: NDArray[Any]) -> NDArray[Any]:
        """float[n, 16]: W block, multiplied by the workers in the precision of `block`."""
        self._products += 1
        name, number = f"leporid-product-{self._run}", self._products
        panel = self._cluster.keep((f"leporid-panel-{self._run}", number), block)
        keys = [(name, number, position) for position in range(len(self._firsts))]
        parts = self._cluster.submit(keys, blocks.multiply_block, self._blocks, [panel] * len(keys))
        image = np.concatenate(self._cluster.gather(parts))
        self._cluster.release([panel, *parts])
        return image

    def csr(self) -> sparse.csr_array:
        """The edges, brought to the client: the dense solver of small graphs needs them."""
        rows = self._cluster.gather(self._blocks)
        indices, weights = (np.concatenate(parts) for parts in list(zip(*rows, strict=True))[1:])
        indptr = np.concatenate([[0], np.cumsum(self._lengths)])
        return sparse.csr_array((weights, indices, indptr), shape=(self.n, self.n))

    def release(self) -> None:
        """Free the workers' memory; there are no products afterwards."""
        self._cluster.release(self._kept)
