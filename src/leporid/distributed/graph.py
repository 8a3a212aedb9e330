"""`BlockGraph`: a KNN graph whose edges stay on the workers of a Dask cluster."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.distributed.blocks import GraphBlocks
from leporid.distributed.cluster import Cluster
from leporid.errors import ConfigError
from leporid.graph.directed import usable_k
from leporid.graph.matrix import members_of
from leporid.progress import ProgressLike

__all__ = ["BlockGraph", "DaskGraphs"]


class BlockGraph:
    """A `RemoteGraph` in blocks of rows: what solvers need is here, the edges are there."""

    def __init__(self, blocks: GraphBlocks, k: int) -> None:
        self._blocks, self._k = blocks, k

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self._blocks.sums.lengths)

    @property
    def n_edges(self) -> int:
        """Number of stored entries."""
        return int(self._blocks.sums.lengths.sum())

    @property
    def k(self) -> int:
        """Neighbours per row, at most n - 1."""
        return self._k

    @property
    def thresholds(self) -> NDArray[np.float32]:
        """float32[n]: the k-th similarity of each row, 0 where it has fewer neighbours."""
        return self._blocks.thresholds

    def degrees(self) -> NDArray[np.float64]:
        """float64[n]: d = W 1."""
        return self._blocks.sums.degrees

    def csr(self) -> sparse.csr_array:
        """The edges, brought to the client: the dense solver of small graphs needs them."""
        blocks = self._blocks.gather()
        columns = np.concatenate([block.columns for block in blocks]).astype(np.int32)
        weights = np.concatenate([block.weights for block in blocks])
        indptr = np.concatenate([[0], np.cumsum(self._blocks.sums.lengths)])
        return sparse.csr_array((weights, columns, indptr), shape=(self.n, self.n))

    def product(self, block: NDArray[Any]) -> NDArray[Any]:
        """float[n, 16]: W block, multiplied by the workers."""
        return self._blocks.multiply(block)

    def release(self) -> None:
        """Free the memory of the workers."""
        self._blocks.release()


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
        return BlockGraph(GraphBlocks(Cluster(self._client), members, k, progress), k)
