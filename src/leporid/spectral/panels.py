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

# What np.dot calls inside numba: its threads can be limited only once it is loaded.
import scipy.linalg.cython_blas  # noqa: F401
from numpy.typing import NDArray

from leporid.graph import BLOCK, huge_zeros
from leporid.kernel import kernel
from leporid.spectral.laplacian import Product

Matrix = NDArray[np.float64]
ROWS = 2048
"""Rows of a panel: with 192 float32 columns it fills most of a second-level cache."""


@kernel(parallel=True)
def _project(basis: Any, used: int, x: Any, factor: Any, parts: Any) -> None:
    for p in numba.prange(len(basis)):
        x[p] = np.dot(x[p], factor)
        parts[p, :used] = np.dot(basis[p, :used], x[p])


@kernel(parallel=True)
def _subtract(basis: Any, used: int, x: Any, coefficients: Any, parts: Any) -> None:
    for p in numba.prange(len(basis)):
        x[p] -= np.dot(basis[p, :used].T, coefficients)
        parts[p] = np.dot(x[p].T, x[p])


@kernel(parallel=True)
def _append(basis: Any, used: int, x: Any, factor: Any) -> None:
    width = x.shape[2]
    for p in numba.prange(len(basis)):
        x[p] = np.dot(x[p], factor)
        basis[p, used : used + width] = x[p].T


@kernel(parallel=True)
def _rotate(basis: Any, used: int, rotation: Any) -> None:
    kept = rotation.shape[1]
    transposed = np.ascontiguousarray(rotation.T)
    for p in numba.prange(len(basis)):
        basis[p, :kept] = np.dot(transposed, basis[p, :used])


class PanelEngine:
    """What `Lanczos` does to large arrays, in memory and on numba's threads.

    The basis holds orthonormal columns, float32 or float64; all small matrices are float64.
    `gpu.TorchEngine` has the same methods.
    """

    width = BLOCK
    """Columns of a block."""
    used = 0
    """Columns of the basis in use; lowering it forgets the last ones."""

    def __init__(self, product: Product, n: int, capacity: int, dtype: str) -> None:
        self.product, self.n = product, n
        self.precision = float(np.finfo(dtype).eps)
        rows = min(ROWS, n)
        panels = -(-n // rows)
        self._columns = huge_zeros((panels, capacity, rows), dtype)
        self._block, self._image, self._scaled = (
            huge_zeros((panels, rows, BLOCK), dtype) for _ in range(3)
        )
        self._parts = np.zeros((panels, capacity, BLOCK), dtype=dtype)
        self._squares = np.zeros((panels, BLOCK, BLOCK), dtype=dtype)

    def load(self, block: Matrix) -> None:
        """float64[n, width] becomes the newest block."""
        flat = self._block.reshape(-1, BLOCK)
        flat[: self.n] = block
        flat[self.n :] = 0.0

    def multiply(self) -> None:
        """block = M block."""
        arrays = (self._block, self._scaled, self._image)
        self.product(*(array.reshape(-1, BLOCK) for array in arrays))
        self._block, self._image = self._image, self._block

    def project(self, factor: Matrix) -> Matrix:
        """block = block factor; returns float64[used, width] = basis^T block."""
        _project(self._columns, self.used, self._block, self._cast(factor), self._parts)
        return np.asarray(self._parts[:, : self.used].sum(axis=0, dtype=np.float64))

    def subtract(self, coefficients: Matrix) -> Matrix:
        """block = block - basis coefficients; returns float64[width, width] = block^T block."""
        _subtract(self._columns, self.used, self._block, self._cast(coefficients), self._squares)
        return np.asarray(self._squares.sum(axis=0, dtype=np.float64))

    def append(self, factor: Matrix) -> None:
        """block = block factor, and its columns join the basis."""
        _append(self._columns, self.used, self._block, self._cast(factor))
        self.used += BLOCK

    def replace(self, factor: Matrix, weak: NDArray[np.bool_], fresh: Matrix) -> None:
        """block = block factor, then `fresh` float64[n, weak.sum()] in place of weak columns."""
        flat = self._block.reshape(-1, BLOCK)
        flat[:] = flat @ self._cast(factor)
        flat[: self.n, weak] = fresh

    def rotate(self, rotation: Matrix) -> None:
        """The basis becomes basis rotation."""
        _rotate(self._columns, self.used, self._cast(rotation))
        self.used = rotation.shape[1]

    def vectors(self, count: int) -> NDArray[Any]:
        """float[n, count]: the first columns of the basis."""
        wide = self._columns[:, :count].transpose(0, 2, 1).reshape(-1, count)
        return np.ascontiguousarray(wide[: self.n])

    def _cast(self, small: Matrix) -> NDArray[Any]:
        return np.ascontiguousarray(small, dtype=self._columns.dtype)
