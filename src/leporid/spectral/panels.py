"""Dense algebra on a tall basis, row panel by row panel, on as many threads as the kernels have.

BLAS runs single-threaded inside each panel. The basis is stored as [panels, columns, rows], so that
the first j columns of a panel are one contiguous matrix. Sums over panels are taken in a fixed
order in float64: the result does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from leporid.graph import BLOCK, huge_zeros
from leporid.spectral.lanczos import Matrix
from leporid.spectral.laplacian import Product
from leporid.threads import on_each_share

ROWS = 2048
"""Rows of a panel: with 192 float32 columns it fills most of a second-level cache."""


class PanelEngine:
    """The `Engine` in memory and on threads; the basis is float32 or float64."""

    width = BLOCK
    used = 0

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
        flat = self._block.reshape(-1, BLOCK)
        flat[: self.n] = block
        flat[self.n :] = 0.0

    def multiply(self) -> None:
        arrays = (self._block, self._scaled, self._image)
        self.product(*(array.reshape(-1, BLOCK) for array in arrays))
        self._block, self._image = self._image, self._block

    def project(self, factor: Matrix) -> Matrix:
        factor, parts = self._cast(factor), self._parts[:, : self.used]

        def project(p: int, columns: NDArray[Any], block: NDArray[Any]) -> None:
            block[:] = block @ factor
            np.dot(columns, block, out=parts[p])

        self._on_panels(project)
        return np.asarray(parts.sum(axis=0, dtype=np.float64))

    def subtract(self, coefficients: Matrix) -> Matrix:
        coefficients = self._cast(coefficients)

        def subtract(p: int, columns: NDArray[Any], block: NDArray[Any]) -> None:
            block -= columns.T @ coefficients
            np.dot(block.T, block, out=self._squares[p])

        self._on_panels(subtract)
        return np.asarray(self._squares.sum(axis=0, dtype=np.float64))

    def append(self, factor: Matrix) -> None:
        factor, self.used = self._cast(factor), self.used + BLOCK

        def append(_: int, columns: NDArray[Any], block: NDArray[Any]) -> None:
            block[:] = block @ factor
            columns[-BLOCK:] = block.T

        self._on_panels(append)

    def replace(self, factor: Matrix, weak: NDArray[np.bool_], fresh: Matrix) -> None:
        flat = self._block.reshape(-1, BLOCK)
        flat[:] = flat @ self._cast(factor)
        flat[: self.n, weak] = fresh

    def rotate(self, rotation: Matrix) -> None:
        rows, kept = self._cast(rotation.T), rotation.shape[1]

        def rotate(_: int, columns: NDArray[Any], block: NDArray[Any]) -> None:
            columns[:kept] = rows @ columns

        self._on_panels(rotate)
        self.used = kept

    def vectors(self, count: int) -> NDArray[Any]:
        wide = self._columns[:, :count].transpose(0, 2, 1).reshape(-1, count)
        return np.ascontiguousarray(wide[: self.n])

    def _on_panels(self, work: Callable[[int, NDArray[Any], NDArray[Any]], None]) -> None:
        """`work(p, columns, block)` for each panel: its number, part of the basis and block."""

        def share(_: int, first: int, stop: int) -> None:
            for p in range(first, stop):
                work(p, self._columns[p, : self.used], self._block[p])

        panels = len(self._block)
        on_each_share(share, 0, panels, min(numba.get_num_threads(), panels))

    def _cast(self, small: Matrix) -> NDArray[Any]:
        return np.ascontiguousarray(small, dtype=self._columns.dtype)
