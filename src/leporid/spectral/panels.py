"""Dense algebra on a tall basis, row panel by row panel, from numba's own threads.

BLAS runs single-threaded inside each panel, so only one pool of threads exists. The basis is
stored as [panels, columns, rows]: the first j columns of a panel are then one contiguous matrix,
whatever j. Sums over panels are taken in a fixed order in float64: the result does not depend on
the number of threads.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import scipy.linalg.cython_blas  # noqa: F401  (what np.dot calls inside numba; its threads are limited only once it is loaded)
from numpy.typing import NDArray

__all__ = ["ROWS", "Basis"]

ROWS = 2048
"""Rows of a panel: with 192 float32 columns it fills most of a second-level cache."""


@numba.njit(parallel=True, cache=True)
def _project(basis: Any, used: int, x: Any, factor: Any, parts: Any) -> None:
    """x = x factor, then parts[p] = basis[p]^T x[p]."""
    for p in numba.prange(len(basis)):
        x[p] = np.dot(x[p], factor)
        parts[p, :used] = np.dot(basis[p, :used], x[p])


@numba.njit(parallel=True, cache=True)
def _subtract(basis: Any, used: int, x: Any, coefficients: Any, parts: Any) -> None:
    """x = x - basis coefficients, then parts[p] = x[p]^T x[p]."""
    for p in numba.prange(len(basis)):
        x[p] -= np.dot(basis[p, :used].T, coefficients)
        parts[p] = np.dot(x[p].T, x[p])


@numba.njit(parallel=True, cache=True)
def _append(basis: Any, used: int, x: Any, factor: Any) -> None:
    """x = x factor, and its columns become the next ones of the basis."""
    width = x.shape[2]
    for p in numba.prange(len(basis)):
        x[p] = np.dot(x[p], factor)
        basis[p, used : used + width] = x[p].T


@numba.njit(parallel=True, cache=True)
def _rotate(basis: Any, used: int, rotation: Any) -> None:
    """The first columns become basis rotation."""
    kept = rotation.shape[1]
    transposed = np.ascontiguousarray(rotation.T)
    for p in numba.prange(len(basis)):
        basis[p, :kept] = np.dot(transposed, basis[p, :used])


class Basis:
    """Orthonormal columns, float32 or float64, with room for `capacity` of them."""

    def __init__(self, n: int, capacity: int, width: int, dtype: Any) -> None:
        from leporid.spectral.spmm import huge_zeros

        rows = min(ROWS, n)
        self.panels = -(-n // rows)
        self.rows = rows
        self.n = n
        self.used = 0
        self._columns = huge_zeros((self.panels, capacity, rows), dtype)
        self._parts = np.zeros((self.panels, capacity, width), dtype=dtype)
        self._squares = np.zeros((self.panels, width, width), dtype=dtype)

    @property
    def padded(self) -> int:
        """Rows of a block: n rounded up to whole panels."""
        return self.panels * self.rows

    def project(self, x: NDArray[Any], factor: NDArray[np.float64]) -> NDArray[np.float64]:
        """x = x factor in place; returns float64[used, width] = basis^T x."""
        _project(self._columns, self.used, self._panelled(x), factor.astype(x.dtype), self._parts)
        return np.asarray(self._parts[:, : self.used].sum(axis=0, dtype=np.float64))

    def subtract(self, x: NDArray[Any], coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
        """x = x - basis coefficients in place; returns float64[width, width] = x^T x."""
        _subtract(
            self._columns,
            self.used,
            self._panelled(x),
            coefficients.astype(x.dtype),
            self._squares,
        )
        return np.asarray(self._squares.sum(axis=0, dtype=np.float64))

    def append(self, x: NDArray[Any], factor: NDArray[np.float64]) -> None:
        """x = x factor in place; its columns join the basis."""
        _append(self._columns, self.used, self._panelled(x), factor.astype(x.dtype))
        self.used += x.shape[1]

    def rotate(self, rotation: NDArray[np.float64]) -> None:
        """Keep only basis rotation, rotation float64[used, kept]."""
        _rotate(self._columns, self.used, rotation.astype(self._columns.dtype))
        self.used = rotation.shape[1]

    def vectors(self, count: int) -> NDArray[Any]:
        """float[n, count]: the first columns as an ordinary matrix."""
        wide = self._columns[:, :count].transpose(0, 2, 1).reshape(self.padded, count)
        return np.ascontiguousarray(wide[: self.n])

    def _panelled(self, x: NDArray[Any]) -> NDArray[Any]:
        return x.reshape(self.panels, self.rows, x.shape[1])
