"""`KnnGraph`, the graph LE and LEPORID are computed from, and `Graph`, what a solver needs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Side = Literal["users", "items", "rows"]


@runtime_checkable
class Graph(Protocol):
    """A symmetric weighted graph, wherever its edges are: all that an eigensolver asks of it."""

    @property
    def n(self) -> int:
        """Number of nodes."""

    @property
    def n_edges(self) -> int:
        """Number of stored entries (twice the number of undirected edges)."""

    @property
    def k(self) -> int:
        """Neighbours per row, at most n - 1."""

    def degrees(self) -> NDArray[np.float64]:
        """float64[n]: d = W 1."""

    def csr(self) -> sparse.csr_array:
        """float32[n, n]: the weights as a scipy matrix in this process."""

    def product(self, block: NDArray[Any]) -> NDArray[Any]:
        """float[n, c]: W block for block float[n, c], in the precision of `block`."""


@dataclass(frozen=True, eq=False, repr=False)
class KnnGraph:
    """A `Graph` in CSR form: W_ij = sim(i, j) if j in top-K(i) or i in top-K(j)."""

    indptr: NDArray[np.int64]
    """int64[n + 1]: where each row starts."""
    indices: NDArray[np.int32]
    """int32[nnz]: the neighbours, ascending within a row; never the row itself."""
    weights: NDArray[np.float32]
    """float32[nnz]: their similarities, all positive, symmetric to the bit."""
    side: Side
    """What the nodes are."""
    k: int
    similarity: str = "jaccard"
    """Name of the similarity."""

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(n={self.n}, n_edges={self.n_edges}, side={self.side!r}, "
            f"k={self.k}, similarity={self.similarity!r})"
        )

    @property
    def n(self) -> int:
        return len(self.indptr) - 1

    @property
    def n_edges(self) -> int:
        return int(self.indptr[-1])

    def csr(self) -> sparse.csr_array:
        """The weights as a scipy matrix (shares memory)."""
        return sparse.csr_array((self.weights, self.indices, self.indptr), shape=(self.n, self.n))

    def degrees(self) -> NDArray[np.float64]:
        return self._degrees

    @cached_property
    def _degrees(self) -> NDArray[np.float64]:
        return row_sums(self.indptr, self.weights)

    def product(self, block: NDArray[Any]) -> NDArray[Any]:
        """float[n, c]: W block; the solver prepares a faster one (`graph.kernels.product`)."""
        return np.asarray(self.csr().astype(block.dtype, copy=False) @ block)


def row_sums(indptr: NDArray[np.int64], weights: NDArray[np.float32]) -> NDArray[np.float64]:
    """float64[n]: the sum of each row of a CSR matrix."""
    sums = np.zeros(len(indptr) - 1)
    filled = np.diff(indptr) > 0
    starts = indptr[:-1][filled]
    if len(starts):
        sums[filled] = np.add.reduceat(weights, starts, dtype=np.float64)
    return sums
