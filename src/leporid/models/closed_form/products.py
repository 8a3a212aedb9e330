"""Compiled products of sparse matrices, parallel over rows: what closed-form models are made of."""

from typing import Any

import numpy as np
from numba import prange
from numpy.typing import NDArray
from scipy import sparse

from leporid.graph import Neighbours, canonical
from leporid.kernel import kernel
from leporid.machine import one_thread_pool


def unit_size(matrix: sparse.csr_array) -> tuple[sparse.csr_array, float]:
    """The matrix over a power of two, by which its largest entry is about 1, and that power."""
    power = float(np.ldexp(1.0, int(np.frexp(matrix.data.max(initial=0.0))[1]) - 1))
    if power in (0.5, 1.0):  # no entries, or 1 already
        return matrix, 1.0
    out = sparse.csr_array(matrix.shape, dtype=np.float32)
    out.data = (matrix.data / power).astype(np.float32)
    out.indices, out.indptr = matrix.indices, matrix.indptr
    return out, power


def csr_parts(
    matrix: sparse.csr_array,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """A CSR matrix as kernels take it: row pointers, columns, values."""
    return matrix.indptr, matrix.indices, matrix.data


def normalised(profiles: sparse.csr_array, alpha: float = 0.5) -> sparse.csr_array:
    """float32[n_users, n_items]: D_U^-alpha X D_I^(alpha - 1), D the counts of users and items."""
    lengths = np.diff(profiles.indptr)
    users = np.maximum(lengths, 1.0) ** -alpha
    items = item_counts(profiles) ** (alpha - 1.0)
    data = np.repeat(users, lengths) * items[profiles.indices]
    return canonical(
        sparse.csr_array(
            (data, profiles.indices, profiles.indptr), shape=profiles.shape
        )
    )


def item_counts(profiles: sparse.csr_array) -> NDArray[np.float64]:
    """float64[n_items]: the users of each item (items without any: 1, so that it may divide)."""
    return np.maximum(np.bincount(profiles.indices, minlength=profiles.shape[1]), 1.0)


def rows_times(left: sparse.csr_array, right: sparse.csr_array) -> NDArray[np.float32]:
    """float32[left.shape[0], right.shape[1]]: `left @ right`, both sparse, the result dense."""
    out = np.zeros((left.shape[0], right.shape[1]), dtype=np.float32)
    with one_thread_pool():
        _rows_times(csr_parts(left), csr_parts(right), out)
    return out


def top_k_products(
    left: sparse.csr_array,
    right: sparse.csr_array,
    k: int,
    *,
    rows: NDArray[np.float64],
    columns: NDArray[np.float64],
    shrink: float = 0.0,
    own: NDArray[np.int32] | None = None,
) -> sparse.csr_array:
    """The `k` largest entries of each row of `left @ right / (rows x columns + shrink)`.

    Products must be positive. Entry own[i] of row i is left out (-1: none; by default the
    diagonal). Equal entries go to the smaller column.
    """
    n, width = left.shape[0], right.shape[1]
    own = np.arange(n, dtype=np.int32) if own is None else own
    k = max(1, min(k, width))
    found = np.full((n, k), -1, dtype=np.int32)
    values = np.zeros((n, k), dtype=np.float32)
    a, b = csr_parts(left), csr_parts(right)
    with one_thread_pool() as threads:
        below = rows, columns, shrink
        _top_k_products(a, b, below, own, found, values, threads * 8)
    return canonical(Neighbours(found, values, width).csr())


def top_k_of_columns(matrix: sparse.csr_array, k: int) -> sparse.csr_array:
    """The `k` largest entries of each column; of equal ones those in the first rows."""
    turned = canonical(matrix.T)
    column = np.repeat(np.arange(turned.shape[0]), np.diff(turned.indptr))
    order = np.lexsort((-turned.data, column))
    kept = order[np.arange(len(order)) - turned.indptr[column] < k]
    entries = turned.data[kept], (turned.indices[kept], column[kept])
    return canonical(sparse.csr_array(entries, shape=matrix.shape))


@kernel(parallel=True)
def _rows_times(a: Any, b: Any, out: Any) -> None:
    a_ptr, a_idx, a_val = a
    b_ptr, b_idx, b_val = b
    for row in prange(len(out)):
        for p in range(a_ptr[row], a_ptr[row + 1]):
            weight = a_val[p]
            middle = a_idx[p]
            for q in range(b_ptr[middle], b_ptr[middle + 1]):
                out[row, b_idx[q]] += weight * b_val[q]


@kernel(parallel=True)
def _top_k_products(
    a: Any, b: Any, below: Any, own: Any, columns: Any, values: Any, blocks: int
) -> None:
    a_ptr, a_idx, a_val = a
    b_ptr, b_idx, b_val = b
    row_scale, column_scale, shrink = below
    n, k = columns.shape
    for block in prange(blocks):
        sums = np.zeros(len(column_scale))
        touched = np.empty(len(column_scale), dtype=np.int32)
        for row in range(block, n, blocks):
            count = 0
            for p in range(a_ptr[row], a_ptr[row + 1]):
                middle = a_idx[p]
                weight = np.float64(a_val[p])
                for q in range(b_ptr[middle], b_ptr[middle + 1]):
                    column = b_idx[q]
                    if column == own[row]:
                        continue
                    if sums[column] == 0.0:
                        touched[count] = column
                        count += 1
                    sums[column] += weight * b_val[q]
            reached = np.sort(touched[:count])
            entries = sums[reached] / (row_scale[row] * column_scale[reached] + shrink)
            sums[reached] = 0.0
            order = np.argsort(-entries, kind="mergesort")[:k]
            for rank, p in enumerate(order):
                columns[row, rank] = reached[p]
                values[row, rank] = entries[p]
