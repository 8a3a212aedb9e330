"""Input validation: a matrix becomes interactions or a graph, or a clear error."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from leporid.errors import DataError, GraphError
from leporid.graph import Graph, KnnGraph


class NotNumbersError(DataError, TypeError):
    """The matrix holds something that is no number."""


def interaction_rows(X: Any, estimator: str, n_features: int | None = None) -> sparse.csr_array:
    """csr float32[m, n_features] with sorted indices and no stored zeros; a copy.

    With `n_features` the number of columns is checked.
    """
    X = X if sparse.issparse(X) else np.asarray(X)
    if np.iscomplexobj(X):
        raise DataError("Complex data not supported: give real numbers")
    try:
        X = X if sparse.issparse(X) else X.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise NotNumbersError(f"the matrix must hold numbers: {error}") from None
    if X.ndim != 2:
        raise DataError(
            f"the matrix has {X.ndim} axes, not 2: Reshape your data with X.reshape(-1, 1), or "
            f"X.reshape(1, -1) for a single row"
        )
    rows = sparse.csr_array(X, copy=True)
    if rows.data.dtype.kind == "f" and not np.isfinite(rows.data).all():
        raise DataError(f"the matrix given to {estimator} contains NaN or inf")
    if rows.shape[0] == 0:
        raise DataError(f"Found array with 0 sample(s): {estimator} needs rows")
    columns = rows.shape[1]
    if n_features not in (None, columns):
        raise DataError(
            f"X has {columns} features, but {estimator} is expecting {n_features} features as input"
        )
    if columns == 0:
        raise DataError(f"0 feature(s) (shape={rows.shape}) while a minimum of 1 is required.")
    rows = rows.astype(np.float32)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    rows.sort_indices()
    return rows


def as_graph(graph: Any) -> Graph:
    """A graph as it is, or one from a symmetric, non-negative square matrix (sparse or dense).

    The diagonal is left out: a node is not its own neighbour. float32 weights.
    """
    if isinstance(graph, Graph):
        return graph
    graph = graph if sparse.issparse(graph) else np.asarray(graph)
    if graph.ndim != 2 or graph.shape[0] != graph.shape[1]:
        raise GraphError(f"a graph must be a square matrix, not of shape {graph.shape}")
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
    if difference.nnz:
        if difference.max() > 1e-5 * csr.data.max():
            raise GraphError("the graph is not symmetric: pass (W + W.T) / 2 or W.maximum(W.T)")
        csr = csr.maximum(csr.T).tocsr()
        csr.sort_indices()
    indptr, indices = csr.indptr.astype(np.int64), csr.indices.astype(np.int32)
    k = int(np.diff(indptr).max(initial=0))
    return KnnGraph(indptr, indices, csr.data, side="rows", k=k, similarity="precomputed")
