"""`BlockGraph`: a KNN graph whose edges stay on the workers of a Dask cluster."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.distributed.blocks import GraphBlocks
from leporid.distributed.cluster import Cluster
from leporid.errors import GraphError
from leporid.graph.directed import usable_k
from leporid.graph.matrix import Members
from leporid.graph.types import KnnGraph
from leporid.progress import ProgressLike
from leporid.spectral.laplacian import LaplacianOperator

__all__ = ["BlockGraph", "ClusterProduct"]


class BlockGraph(KnnGraph):
    """What solvers need of the graph, here; its edges, there."""

    blocks: GraphBlocks

    def __init__(self, blocks: GraphBlocks, k: int) -> None:
        indptr = np.concatenate([[0], np.cumsum(blocks.sums.lengths)])
        # Frozen as its base is, but without the two arrays of edges.
        self.__dict__.update(
            indptr=indptr,
            side="rows",
            k=k,
            similarity="jaccard",
            tensors=None,
            blocks=blocks,
            _degrees=blocks.sums.degrees,
        )

    @classmethod
    def build(
        cls, cluster: Cluster, members: Members, k: int, progress: ProgressLike
    ) -> BlockGraph:
        """`knn_graph` on a cluster: the same edges, to the bit."""
        k = usable_k(k, members.n - 1)
        return cls(GraphBlocks(cluster, members, k, progress), k)

    @property
    def n_edges(self) -> int:
        """Number of stored entries."""
        return int(self.indptr[-1])

    @property
    def indices(self) -> NoReturn:
        """Not here."""
        raise GraphError("the edges of this graph are on the workers of a Dask cluster")

    weights = indices

    def csr(self) -> sparse.csr_array:
        """The edges brought here after all: the dense solver of small graphs needs them."""
        made = self.blocks.gather()
        columns = np.concatenate([block.columns for block in made]).astype(np.int32)
        weights = np.concatenate([block.weights for block in made])
        return sparse.csr_array((weights, columns, self.indptr), shape=(self.n, self.n))

    def block_product(self, operator: LaplacianOperator) -> ClusterProduct:
        """What solvers multiply with."""
        return ClusterProduct(operator, self.blocks)


class ClusterProduct:
    """M x = S W S x + diagonal x with W on the workers; `spectral.spmm.BlockProduct` elsewhere."""

    def __init__(self, operator: LaplacianOperator, blocks: GraphBlocks) -> None:
        self.operator = operator
        self._blocks = blocks

    def __call__(self, x: NDArray[Any], scaled: NDArray[Any], out: NDArray[Any]) -> None:
        """out = M x for x, out float[>= n, 16]; rows past n are zero; `scaled` is work space."""
        n = self.operator.n
        scale = self.operator.scale.astype(x.dtype)[:, None]
        np.multiply(scale, x[:n], out=scaled[:n])
        np.multiply(scale, self._blocks.multiply(scaled[:n]), out=out[:n])
        out[:n] += self.operator.diagonal.astype(x.dtype)[:, None] * x[:n]
        out[n:] = 0.0
