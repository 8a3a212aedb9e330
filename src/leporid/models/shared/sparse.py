"""Sparse kernels the classical models share, parallel over rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray
from scipy import sparse

from leporid.threads import one_thread_pool

__all__ = ["canonical", "rows_times", "top_k_products", "top_k_to_csr"]


def canonical(matrix: Any) -> sparse.csr_array:
    """float32 CSR with int32 columns and int64 row pointers, so that kernels compile once."""
    csr = sparse.csr_array(matrix)
    csr.sort_indices()
    data = csr.data.astype(np.float32, copy=False)
    indices = csr.indices.astype(np.int32, copy=False)
    out = sparse.csr_array(csr.shape, dtype=np.float32)
    out.data, out.indices, out.indptr = data, indices, csr.indptr.astype(np.int64, copy=False)
    return out


def rows_times(
    left: sparse.csr_array, rows: NDArray[np.int32], right: sparse.csr_array
) -> NDArray[np.float32]:
    """float32[len(rows), right.shape[1]]: `left[rows] @ right`, both sparse, the result dense."""
    out = np.zeros((len(rows), right.shape[1]), dtype=np.float32)
    with one_thread_pool():
        _rows_times(
            left.indptr,
            left.indices,
            left.data,
            np.ascontiguousarray(rows, dtype=np.int32),
            right.indptr,
            right.indices,
            right.data,
            out,
        )
    return out


def top_k_products(
    left: sparse.csr_array,
    right: sparse.csr_array,
    column_scale: NDArray[np.float64],
    k: int,
    normalize: bool,
) -> sparse.csr_array:
    """The `k` largest entries of each row of `left @ right * column_scale`, diagonal left out.

    left: [n, m], right: [m, n]. Equal entries go to the smaller column. With `normalize` the
    kept entries of a row sum to 1. Never holds more than one dense row a thread.
    """
    n = left.shape[0]
    k = max(1, min(k, n - 1)) if n > 1 else 1
    columns = np.full((n, k), -1, dtype=np.int32)
    values = np.zeros((n, k), dtype=np.float32)
    with one_thread_pool() as threads:
        _top_k_products(
            left.indptr,
            left.indices,
            left.data,
            right.indptr,
            right.indices,
            right.data,
            column_scale,
            normalize,
            columns,
            values,
            threads * 8,
        )
    return top_k_to_csr(columns, values, n)


def top_k_to_csr(
    columns: NDArray[np.int32], values: NDArray[np.float32], n_columns: int
) -> sparse.csr_array:
    """Padded lists (-1 where a row is shorter) as a canonical CSR matrix [len(columns), n]."""
    kept = columns >= 0
    indptr = np.zeros(len(columns) + 1, dtype=np.int64)
    np.cumsum(kept.sum(axis=1), out=indptr[1:])
    shape = (len(columns), n_columns)
    return canonical(sparse.csr_array((values[kept], columns[kept], indptr), shape=shape))


@njit(cache=True, parallel=True)
def _rows_times(a_ptr, a_idx, a_val, rows, b_ptr, b_idx, b_val, out):  # type: ignore[no-untyped-def]
    for r in prange(len(rows)):
        row = rows[r]
        for p in range(a_ptr[row], a_ptr[row + 1]):
            weight = a_val[p]
            middle = a_idx[p]
            for q in range(b_ptr[middle], b_ptr[middle + 1]):
                out[r, b_idx[q]] += weight * b_val[q]


@njit(cache=True, parallel=True)
def _top_k_products(  # type: ignore[no-untyped-def]
    a_ptr, a_idx, a_val, b_ptr, b_idx, b_val, scale, normalize, columns, values, blocks
):
    n, k = columns.shape
    for block in prange(blocks):
        sums = np.zeros(n)
        touched = np.empty(n, dtype=np.int32)
        for row in range(block, n, blocks):
            count = 0
            for p in range(a_ptr[row], a_ptr[row + 1]):
                middle = a_idx[p]
                weight = np.float64(a_val[p])
                for q in range(b_ptr[middle], b_ptr[middle + 1]):
                    column = b_idx[q]
                    if column == row:
                        continue
                    if sums[column] == 0.0:
                        touched[count] = column
                        count += 1
                    sums[column] += weight * b_val[q]
            found = np.sort(touched[:count])
            entries = np.empty(count)
            for p in range(count):
                entries[p] = sums[found[p]] * scale[found[p]]
                sums[found[p]] = 0.0
            order = np.argsort(-entries, kind="mergesort")[:k]
            total = 0.0
            for p in range(len(order)):
                total += entries[order[p]]
            for p in range(len(order)):
                entry = entries[order[p]]
                if entry <= 0.0:
                    break
                columns[row, p] = found[order[p]]
                values[row, p] = entry / total if normalize else entry
