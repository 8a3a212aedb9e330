"""Compiled products of sparse matrices, parallel over rows: what closed-form models are made of."""

from typing import TypeAlias

import numpy as np
from numba import prange
from numpy.typing import NDArray
from scipy import sparse

from leporid.foundation import kernel, one_thread_pool
from leporid.graph import Neighbours, canonical

CSR: TypeAlias = tuple[
    NDArray[np.integer],
    NDArray[np.integer],
    NDArray[np.float32],
]
"""A sparse matrix as kernels take it: row pointers, columns, values."""


def unit_size(matrix: sparse.csr_array) -> tuple[sparse.csr_array, float]:
    """Divide a matrix by a power of two so that its largest entry is about 1.

    Returns the matrix and the power.
    """
    _, exponent = np.frexp(matrix.data.max(initial=0.0))
    power = float(np.ldexp(1.0, int(exponent) - 1))
    if power in (0.5, 1.0):  # no entries, or 1 already
        return matrix, 1.0
    divided = sparse.csr_array(matrix.shape, dtype=np.float32)
    divided.data = (matrix.data / power).astype(np.float32)
    divided.indices = matrix.indices
    divided.indptr = matrix.indptr
    return divided, power


def csr_parts(matrix: sparse.csr_array) -> CSR:
    """Return a sparse matrix as kernels take it: row pointers, columns, values."""
    return matrix.indptr, matrix.indices, matrix.data


def normalised(profiles: sparse.csr_array, alpha: float = 0.5) -> sparse.csr_array:
    """Return float32[n_users, n_items]: D_U^-alpha X D_I^(alpha - 1).

    D_U and D_I are the counts of users and items.
    """
    lengths = np.diff(profiles.indptr)
    users = np.maximum(lengths, 1.0) ** -alpha
    items = item_counts(profiles) ** (alpha - 1.0)
    data = np.repeat(users, lengths) * items[profiles.indices]
    rows = (data, profiles.indices, profiles.indptr)
    return canonical(sparse.csr_array(rows, shape=profiles.shape))


def item_counts(profiles: sparse.csr_array) -> NDArray[np.float64]:
    """Return float64[n_items]: the users of each item; 1 for none, so that it may divide."""
    counts = np.bincount(profiles.indices, minlength=profiles.shape[1])
    return np.maximum(counts, 1.0)


def rows_times(left: sparse.csr_array, right: sparse.csr_array) -> NDArray[np.float32]:
    """Return the dense float32 product `left @ right` of two sparse matrices."""
    shape = (left.shape[0], right.shape[1])
    out = np.zeros(shape, dtype=np.float32)
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
    """Return the `k` largest entries of each row of `left @ right / (rows x columns + shrink)`.

    Products must be positive. Entry own[i] of row i is left out (-1: none; by default the
    diagonal). Equal entries go to the smaller column.
    """
    n = left.shape[0]
    width = right.shape[1]
    if own is None:
        own = np.arange(n, dtype=np.int32)
    k = max(1, min(k, width))
    best = np.full((n, k), -1, dtype=np.int32)
    values = np.zeros((n, k), dtype=np.float32)
    with one_thread_pool() as threads:
        _top_k_products(
            csr_parts(left),
            csr_parts(right),
            (rows, columns, shrink),
            own,
            best,
            values,
            threads * 8,
        )
    return canonical(Neighbours(best, values, width).csr())


def top_k_of_columns(matrix: sparse.csr_array, k: int) -> sparse.csr_array:
    """Return the `k` largest entries of each column; of equal ones those in the first rows."""
    turned = canonical(matrix.T)
    lengths = np.diff(turned.indptr)
    column = np.repeat(np.arange(turned.shape[0]), lengths)
    order = np.lexsort((-turned.data, column))
    rank = np.arange(len(order)) - turned.indptr[column]
    largest = order[rank < k]
    places = (turned.indices[largest], column[largest])
    entries = (turned.data[largest], places)
    return canonical(sparse.csr_array(entries, shape=matrix.shape))


@kernel(parallel=True)
def _rows_times(
    a: CSR,
    b: CSR,
    out: NDArray[np.float32],
) -> None:
    """Add the product of two sparse matrices to a dense one, row by row."""
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
    a: CSR,
    b: CSR,
    denominator: tuple[NDArray[np.float64], NDArray[np.float64], float],
    own: NDArray[np.int32],
    columns: NDArray[np.int32],
    values: NDArray[np.float32],
    blocks: int,
) -> None:
    """Write the columns and values of the largest entries of each row."""
    a_ptr, a_idx, a_val = a
    b_ptr, b_idx, b_val = b
    row_scale, column_scale, shrink = denominator
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
            divisors = row_scale[row] * column_scale[reached] + shrink
            entries = sums[reached] / divisors
            sums[reached] = 0.0
            order = np.argsort(-entries, kind="mergesort")[:k]
            for rank, p in enumerate(order):
                columns[row, rank] = reached[p]
                values[row, rank] = entries[p]
