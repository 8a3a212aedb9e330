"""Degrees, popularity regularisation, and the operator whose top eigenvectors are wanted.

With d = W 1 and d_max its largest entry, popularity regularisation replaces the degrees by

    d_reg = (1 - alpha) d + alpha d_max,

and the normalised Laplacian becomes L_regsym = I - A with A = D_reg^-1/2 W D_reg^-1/2. Its
smallest eigenvectors are the algebraically largest of A, which is what the solvers look for.
Laplacian Eigenmaps is alpha = 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.errors import ConfigError, GraphError
from leporid.graph.types import Graph, KnnGraph

__all__ = ["LaplacianOperator", "as_graph", "laplacian_operator", "regularized_degrees"]


def regularized_degrees(degrees: NDArray[np.float64], alpha: float) -> NDArray[np.float64]:
    """float64[n]: d_reg = (1 - alpha) d + alpha d_max."""
    if not 0.0 <= alpha <= 1.0:
        raise ConfigError(f"alpha must lie in [0, 1], not {alpha}")
    largest = float(degrees.max(initial=0.0))
    return (1.0 - alpha) * degrees + alpha * largest


@dataclass(frozen=True, eq=False)
class LaplacianOperator:
    """M = S W S + diag(diagonal): A itself, or the shifted negative of the unnormalised L_reg.

    W is the graph's own memory: the scaling is applied to the vectors, never to a copy of the
    edges.
    """

    graph: Graph
    scale: NDArray[np.float64]
    """float64[n]: the diagonal of S. D_reg^-1/2, or ones; zero for nodes without edges."""
    diagonal: NDArray[np.float64]
    """float64[n]: zeros, or shift - d_reg."""
    shift: float
    """eigenvalue of M minus this = the eigenvalue reported (0 for A)."""
    norm: float
    """A bound on the largest |eigenvalue|; residuals are divided by it (1 for A)."""
    active: NDArray[np.bool_]
    """bool[n]: nodes that have an edge; the others get the zero vector."""

    @property
    def n(self) -> int:
        """Number of nodes."""
        return self.graph.n

    @property
    def n_active(self) -> int:
        """Number of nodes that have an edge."""
        return int(self.active.sum())

    def dense(self) -> NDArray[np.float64]:
        """float64[n_active, n_active]: M on the nodes that have an edge."""
        dense: NDArray[np.float64] = self.graph.csr().astype(np.float64).toarray()
        dense *= self.scale[:, None] * self.scale
        dense[np.diag_indices(self.n)] += self.diagonal
        return dense[np.ix_(self.active, self.active)]


def laplacian_operator(
    graph: Graph, alpha: float = 0.5, normalized: bool = True
) -> LaplacianOperator:
    """The operator whose algebraically largest eigenvectors are the embedding.

    Normalised: A. Unnormalised: M = shift I - L_reg with L_reg = (1 - alpha) D - W + alpha d_max I
    and shift = 2 max(d_reg), so that the smallest eigenvalues of L_reg are the largest of M.
    """
    degrees = graph.degrees()
    regularized = regularized_degrees(degrees, alpha)
    active = degrees > 0.0
    scale = np.zeros(graph.n)
    if normalized:
        np.divide(1.0, np.sqrt(regularized), out=scale, where=active)
        return LaplacianOperator(graph, scale, np.zeros(graph.n), 0.0, 1.0, active)
    scale[active] = 1.0
    shift = 2.0 * float(regularized.max(initial=0.0))
    diagonal = np.where(active, shift - regularized, 0.0)
    return LaplacianOperator(graph, scale, diagonal, shift, max(shift, 1e-300), active)


def as_graph(graph: Any) -> Graph:
    """A graph as it is, or one from a symmetric, non-negative square matrix (sparse or dense).

    The diagonal is left out: a node is not its own neighbour. float32 weights.
    """
    if isinstance(graph, Graph):
        return graph
    if not sparse.issparse(graph):
        graph = np.asarray(graph)
        if graph.ndim != 2:
            raise GraphError(f"a graph must be a square matrix, not an array of {graph.ndim} axes")
    if graph.shape[0] != graph.shape[1]:
        raise GraphError(
            f"a graph must be a square matrix, not {graph.shape[0]} x {graph.shape[1]}"
        )
    csr = sparse.csr_array(graph, dtype=np.float32, copy=True)
    if not np.isfinite(csr.data).all():
        raise GraphError("the graph has weights that are NaN or inf: remove or replace them")
    if (csr.data < 0.0).any():
        raise GraphError("the graph has negative weights: LE and LEPORID need weights >= 0")
    csr.sum_duplicates()
    csr.setdiag(0.0)
    csr.eliminate_zeros()
    csr.sort_indices()
    difference = abs(csr - csr.T)
    if difference.nnz and difference.max() > 1e-5 * csr.data.max():
        raise GraphError("the graph is not symmetric: pass (W + W.T) / 2 or W.maximum(W.T)")
    if difference.nnz:
        csr = csr.maximum(csr.T).tocsr()
        csr.sort_indices()
    return KnnGraph(
        csr.indptr.astype(np.int64),
        csr.indices.astype(np.int32),
        csr.data,
        side="rows",
        k=int(np.diff(csr.indptr).max(initial=0)),
        similarity="precomputed",
    )
