"""The blocks of a KNN graph on the workers of a Dask cluster: how they are made and multiplied."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leporid.distributed.cluster import Cluster
from leporid.distributed.product import RowBlock, column_bounds, multiply_block, prepare_block
from leporid.distributed.shuffle import (
    RowSums,
    block_limits,
    block_neighbours,
    block_sums,
    join_limits,
    merge_block,
    piece_of,
    reverse_edges,
)
from leporid.graph.kernels.symmetrise import Limits
from leporid.graph.matrix import Members
from leporid.progress import NullProgress, ProgressLike

__all__ = ["GraphBlocks"]

BLOCKS_PER_WORKER = 4
"""Blocks are the unit of work, of progress, and of what has to be done again after a loss."""
MOST_BLOCKS = 64
"""The shuffle has a task for every pair of blocks."""
FEWEST_ROWS = 128
"""Smaller blocks would cost more in messages than they save."""


class GraphBlocks:
    """Block rows of W on the workers; the client has arrays of one number per row.

    The neighbour lists stay on the workers as well, and the scheduler has the matrix: what is lost
    with a worker is that worker's share, and Dask computes it again from these. Where Dask gives
    up, all of it is made again.
    """

    sums: RowSums
    """Of all rows."""
    thresholds: NDArray[np.float32]
    """float32[n]: the k-th similarity of each row, 0 where it has fewer neighbours."""

    def __init__(self, cluster: Cluster, members: Members, k: int, progress: ProgressLike) -> None:
        self._cluster, self._members, self._k = cluster, members, k
        n = members.n
        wanted = min(BLOCKS_PER_WORKER * len(cluster.threads), MOST_BLOCKS, n // FEWEST_ROWS)
        self.size = -(-n // max(wanted, 1))
        self._firsts = range(0, n, self.size)
        self._products = 0
        self._kept: list[Any] = []
        self._blocks: list[Any] = []
        cluster.persevere(lambda _attempt: self._build(progress), "the neighbour search")

    def __len__(self) -> int:
        return len(self._firsts)

    def multiply(self, x: NDArray[Any]) -> NDArray[Any]:
        """float[n, 16]: W x, in the precision of x."""
        return self._cluster.persevere(lambda attempt: self._multiply(x, attempt), "a product")

    def gather(self) -> list[RowBlock]:
        """All blocks, brought here."""

        def bring(attempt: int) -> list[RowBlock]:
            self._repair(attempt)
            return self._cluster.gather(self._blocks)

        return self._cluster.persevere(bring, "gathering the graph")

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
        cluster, n, size, k = self._cluster, self._members.n, self.size, self._k
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
        lists = each("neighbours", block_neighbours, same(matrix), self._firsts, stops, same(k))
        cluster.wait(lists, report("neighbours"))

        parts = each("limits", block_limits, lists, same(k))
        (limits,) = cluster.submit([(f"leporid-limits-{run}", -1)], join_limits, [parts])
        passing.append(limits)
        reverse = each("reverse", reverse_edges, lists, same(limits), self._firsts, same(size))
        places = range(len(sizes))
        pieces = [
            cluster.submit(
                [(f"leporid-shuffle-{run}", source, target) for source in places],
                piece_of,
                reverse,
                same(target),
            )
            for target in places
        ]
        passing.extend(piece for column in pieces for piece in column)
        rows = each("merge", merge_block, lists, pieces)
        sums = each("sums", block_sums, rows)
        cluster.wait(sums, report("graph"))
        gathered: list[RowSums] = cluster.gather(sums)
        self.sums = RowSums(*(np.concatenate(arrays) for arrays in zip(*gathered, strict=True)))
        known: Limits = cluster.gather([limits])[0]
        self.thresholds = np.asarray(known.least)

        bounds = column_bounds(n, int(self.sums.lengths.sum()))
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
        keys = [(name, number, place) for place in range(len(self))]
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
