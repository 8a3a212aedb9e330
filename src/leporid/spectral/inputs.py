"""The door of the estimators: any matrix becomes a binary CSR matrix, or a clear error."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from leporid.errors import DataError

__all__ = ["NotNumbersError", "interaction_rows"]


class NotNumbersError(DataError, TypeError):
    """The matrix holds something that is no number."""


def interaction_rows(
    X: Any, estimator: str, n_features: int | None = None, binary: bool = True
) -> sparse.csr_array:
    """csr float32[m, n_features] with sorted indices and no stored zeros; a copy.

    `binary` replaces every value by 1. With `n_features` the number of columns is checked.
    """
    if sparse.issparse(X):
        if np.iscomplexobj(X):
            raise DataError("Complex data not supported: give real numbers")
        rows = sparse.csr_array(X, copy=True)
    else:
        array = np.asarray(X)
        if array.ndim != 2:
            raise DataError(
                f"expected a matrix with two axes, got an array with {array.ndim}: Reshape your "
                f"data with X.reshape(-1, 1), or X.reshape(1, -1) for a single row"
            )
        if np.iscomplexobj(array):
            raise DataError("Complex data not supported: give real numbers")
        try:
            rows = sparse.csr_array(array.astype(np.float64))
        except (TypeError, ValueError) as error:
            raise NotNumbersError(f"the matrix must hold numbers: {error}") from None
    if rows.data.dtype.kind == "f" and not np.isfinite(rows.data).all():
        raise DataError(f"the matrix given to {estimator} contains NaN or inf")
    if rows.shape[0] == 0:
        raise DataError(f"Found array with 0 sample(s): {estimator} needs rows")
    if n_features is not None and rows.shape[1] != n_features:
        raise DataError(
            f"X has {rows.shape[1]} features, but {estimator} is expecting {n_features} "
            f"features as input"
        )
    if rows.shape[1] == 0:
        raise DataError(
            f"Found array with 0 feature(s) (shape={rows.shape}) while a minimum of 1 is required."
        )
    rows = rows.astype(np.float32)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    rows.sort_indices()
    if binary:
        rows.data[:] = 1.0
    return rows
