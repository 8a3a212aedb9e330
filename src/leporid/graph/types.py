"""`KnnGraph`: the weighted neighbour graph LE and LEPORID are computed from."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

if TYPE_CHECKING:
    from leporid.graph.gpu import GraphTensors

__all__ = ["KnnGraph", "Method", "Side"]

Side = Literal["users", "items", "rows"]
Method = Literal["auto", "exact", "approximate"]


@dataclass(frozen=True, eq=False)
class KnnGraph:
    """A symmetric graph in CSR form: W_ij = sim(i, j) if j in top-K(i) or i in top-K(j)."""

    indptr: NDArray[np.int64]
    """int64[n + 1]."""
    indices: NDArray[np.int32]
    """int32[nnz], ascending within a row; no diagonal entry."""
    weights: NDArray[np.float32]
    """float32[nnz], all positive, symmetric to the bit."""
    side: Side
    k: int
    """The K actually used, at most n - 1."""
    similarity: str = "jaccard"
    tensors: GraphTensors | None = field(default=None, repr=False)
    """The same graph on the device that made it (`graph.gpu.DeviceGraph`)."""
    recall: float | None = None
    """Recall@K of an approximate graph, measured on a sample of rows; None for an exact one."""

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self.indptr) - 1

    @property
    def n_edges(self) -> int:
        """Number of stored entries (twice the number of undirected edges)."""
        return int(self.indptr[-1])

    def csr(self) -> sparse.csr_array:
        """The weights as a scipy matrix (shares memory)."""
        return sparse.csr_array((self.weights, self.indices, self.indptr), shape=(self.n, self.n))

    def degrees(self) -> NDArray[np.float64]:
        """float64[n]: d = W 1."""
        return self._degrees

    @cached_property
    def _degrees(self) -> NDArray[np.float64]:
        sums = np.zeros(self.n)
        filled = np.diff(self.indptr) > 0
        starts = self.indptr[:-1][filled]
        if len(starts):
            sums[filled] = np.add.reduceat(self.weights, starts, dtype=np.float64)
        return sums
