"""Rows of ascending indices in CSR form, as the kernels of this room read them."""

from __future__ import annotations

from typing import Any

import numba

__all__ = ["in_row"]


@numba.njit(cache=True)
def in_row(indptr: Any, indices: Any, row: Any, value: Any) -> bool:
    """Whether `value` is among the indices of a row; by bisection."""
    low, high = indptr[row], indptr[row + 1]
    while low < high:
        middle = (low + high) >> 1
        if indices[middle] < value:
            low = middle + 1
        else:
            high = middle
    return bool(low < indptr[row + 1] and indices[low] == value)
