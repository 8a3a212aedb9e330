"""From whatever the caller has to sets of columns: a checked, binary CSR matrix."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.errors import GraphError


class Members(NamedTuple):
    """Each row as the set of its columns, without repetition, in CSR form."""

    indptr: NDArray[np.int64]
    """int64[n + 1]."""
    columns: NDArray[np.int32]
    """int32[nnz], ascending within a row."""
    n_columns: int

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1

    @property
    def degrees(self) -> NDArray[np.int64]:
        """int64[n]: size of each row's set."""
        return np.diff(self.indptr)

    def take(self, rows: NDArray[np.int64]) -> sparse.csr_array:
        """float32 csr[len(rows), n_columns] with ones: these rows, wherever the columns lie."""
        begins, ends = self.indptr[rows], self.indptr[rows + 1]
        indptr = np.concatenate([[0], np.cumsum(ends - begins)])
        places = np.arange(indptr[-1]) + np.repeat(begins - indptr[:-1], ends - begins)
        columns = self.columns[places]
        parts = np.ones(len(columns), np.float32), columns, indptr
        return sparse.csr_array(parts, shape=(len(rows), self.n_columns))


def members_of(X: Any, name: str = "X") -> Members:
    """The members (nonzero entries) of each row of a matrix.

    Takes any scipy sparse matrix, a 2-D array, or something with a `.csr()` method such as
    `Interactions`. Repeated entries are summed first; explicit zeros are no members.
    """
    if isinstance(X, Members):
        return X
    if not sparse.issparse(X) and callable(getattr(X, "csr", None)):
        X = X.csr()
    if not sparse.issparse(X):
        X = np.asarray(X)
        if X.ndim != 2 or X.dtype.kind not in "bifu":
            raise GraphError(
                f"{name} must be a sparse matrix or a 2-D array of numbers, not "
                f"{X.dtype} with {X.ndim} dimensions"
            )
    matrix = sparse.csr_array(X)
    if matrix.shape[0] == 0 or matrix.shape[1] == 0:
        raise GraphError(f"{name} is empty (shape {matrix.shape}): it needs a row and a column")
    if matrix.dtype.kind in "fc" and np.isnan(matrix.data).any():
        count = int(np.isnan(matrix.data).sum())
        raise GraphError(f"{name} holds {count} NaN values; remove them first")
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    if np.count_nonzero(matrix.data) < matrix.nnz:
        matrix = matrix.copy()
        matrix.eliminate_zeros()
    return Members(
        matrix.indptr.astype(np.int64),
        np.ascontiguousarray(matrix.indices, dtype=np.int32),
        int(matrix.shape[1]),
    )
