"""Block Lanczos with thick restart, for the algebraically largest eigenpairs.

Every step multiplies the newest block of 16 columns by the operator, orthogonalises the image
against the whole basis (twice: once is not enough, twice is), and appends it. The projected
matrix is filled with the coefficients of that orthogonalisation. When the basis is full, the
best Ritz vectors are kept and the newest block couples to them, as in

    A V = V T + X R E^T      (E picks the columns of the last block),

so that ||R y_last|| is the residual of the Ritz vector V y at no cost. After a restart the same
relation holds with V Y in place of V.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leporid.errors import LeporidWarning
from leporid.progress import ProgressLike
from leporid.spectral.laplacian import LaplacianOperator
from leporid.spectral.panels import Basis
from leporid.spectral.solvers import Solution
from leporid.spectral.spmm import BLOCK, BlockProduct, huge_zeros

__all__ = ["basis_size", "lanczos"]

MAX_PRODUCTS = 4000
"""Give up (with a warning) after so many products with a block."""
CHECK_EVERY = 2
"""Products between two looks at the residuals."""
CLUSTER = 1e-4
"""A block of 16 finds at most 16 copies of an eigenvalue; as many within this call for a check."""


def basis_size(dim: int) -> tuple[int, int]:
    """(columns of the basis, columns kept at a restart) for `dim` wanted vectors."""
    kept = -(-3 * dim // (2 * BLOCK)) * BLOCK
    return 2 * kept, kept


def lanczos(
    product: BlockProduct,
    dim: int,
    tol: float,
    dtype: str,
    seed: int,
    progress: ProgressLike,
    v0: NDArray[np.floating[Any]] | None = None,
) -> Solution:
    """The `dim` largest eigenpairs to an absolute residual of about `tol`.

    Needs more nodes with edges than the basis has columns.
    """
    return _Lanczos(product, dim, tol, dtype, seed, progress).solve(v0)


class _Lanczos:
    """The state of one solve: the basis V, the projected matrix T, the newest block X."""

    def __init__(
        self,
        product: BlockProduct,
        dim: int,
        tol: float,
        dtype: str,
        seed: int,
        progress: ProgressLike,
    ) -> None:
        self.product, self.dim, self.tol, self.progress = product, dim, tol, progress
        self.operator: LaplacianOperator = product.operator
        self.random = np.random.default_rng(seed)
        self.capacity, self.kept = basis_size(dim)
        self.basis = Basis(self.operator.n, self.capacity + BLOCK, BLOCK, dtype)
        shape = (self.basis.padded, BLOCK)
        self.block, self.image, self.scaled = (huge_zeros(shape, dtype) for _ in range(3))
        self.projected = np.zeros((self.capacity, self.capacity))
        self.coupling = np.zeros((BLOCK, BLOCK))
        self.products = 0
        # What rounding leaves of a vector that lies in the basis already, and the smallest
        # eigenvalue of a Gram matrix that rounding does not drown.
        precision = float(np.finfo(dtype).eps)
        self.noise = 0.5 * precision * self.operator.norm
        self.resolution = 16.0 * precision

    def solve(self, v0: NDArray[np.floating[Any]] | None) -> Solution:
        """Restart until the wanted pairs have converged, then look for missed copies."""
        self.progress.start("eigenvectors", None)
        self._begin(v0)
        values, residuals = self._converge()
        while self._may_miss_copies(values) and self.products < MAX_PRODUCTS:
            # The converged vectors stay; a fresh random block searches what is orthogonal
            # to them. Neglecting their coupling changes A by no more than the residuals.
            self.basis.used = self.dim
            self.projected[:] = 0.0
            self.projected[range(self.dim), range(self.dim)] = values
            self.block[:] = 0.0
            self._orthonormalize(self.block)
            again, residuals = self._converge()
            gained = float(np.abs(again - values).max())
            values = again
            if gained <= 10.0 * self.tol:
                break
        unconverged = int((residuals > self.tol).sum())
        if unconverged:
            warnings.warn(
                f"{unconverged} of {self.dim} eigenvectors have not converged to tol="
                f"{self.tol / self.operator.norm:.1e} after {self.products} products "
                f"(worst residual {residuals.max() / self.operator.norm:.1e}): "
                f"raise tol or use dtype='float64'",
                LeporidWarning,
                stacklevel=5,
            )
        return Solution(values, self.basis.vectors(self.dim), residuals, self.products, "lanczos")

    def _begin(self, v0: NDArray[np.floating[Any]] | None) -> None:
        """The first block: random, or random combinations of a given start."""
        n = self.operator.n
        start = self.random.standard_normal((n, BLOCK))
        if v0 is not None:
            given = np.asarray(v0, dtype=np.float64).reshape(n, -1)
            mixed = given @ self.random.standard_normal((given.shape[1], BLOCK))
            start = mixed + 1e-3 * np.abs(mixed).max(initial=0.0) * start
        start[~self.operator.active] = 0.0
        self.block[:n] = start
        self._orthonormalize(self.block)

    def _converge(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Steps and restarts; leaves the wanted Ritz vectors in the first columns."""
        while True:
            self._step()
            used = self.basis.used - BLOCK
            full = used + BLOCK > self.capacity
            if not full and (used < self.dim or self.products % CHECK_EVERY):
                continue
            values, vectors = np.linalg.eigh(self.projected[:used, :used])
            values, vectors = values[::-1], vectors[:, ::-1]
            residuals = np.linalg.norm(self.coupling @ vectors[used - BLOCK :], axis=0)
            worst = float(residuals[: self.dim].max())
            self.progress.advance(0, residual=worst / self.operator.norm)
            done = worst <= 0.5 * self.tol or self.products >= MAX_PRODUCTS
            if not (done or full):
                continue
            kept = self.dim if done else self.kept
            self.basis.used = used
            self.basis.rotate(vectors[:, :kept])
            if done:
                return values[: self.dim].copy(), residuals[: self.dim]
            self.projected[:] = 0.0
            self.projected[range(kept), range(kept)] = values[:kept]
            self.basis.append(self.block, np.eye(BLOCK))

    def _step(self) -> None:
        """One product, one row of blocks of T, one new block in the basis."""
        self.product(self.block, self.scaled, self.image)
        self.products += 1
        self.progress.advance(1)
        self.block, self.image = self.image, self.block
        coefficients = self._orthonormalize(self.block)
        used = len(coefficients)
        newest = slice(used - BLOCK, used)
        self.projected[:used, newest] = coefficients
        self.projected[newest, :used] = coefficients.T
        diagonal = self.projected[newest, newest]
        self.projected[newest, newest] = (diagonal + diagonal.T) / 2.0

    def _orthonormalize(self, block: NDArray[Any]) -> NDArray[np.float64]:
        """block = V C + Q R: Q replaces the block and joins the basis, R is kept, C returned.

        Columns that lie in the basis already (an invariant subspace was found) are replaced by
        random ones with a zero row in R, which leaves the Lanczos relation true.
        """
        coefficients = np.zeros((self.basis.used, BLOCK))
        remainder, factor = np.eye(BLOCK), np.eye(BLOCK)
        replaced = False
        for turn in range(8):
            part = self.basis.project(block, factor)
            gram = self.basis.subtract(block, part)
            coefficients += part @ remainder
            lengths = np.sqrt(np.maximum(np.diag(gram), 1e-200))
            gram = gram / np.outer(lengths, lengths)
            squares, directions = np.linalg.eigh((gram + gram.T) / 2.0)
            # Directions the Gram matrix cannot resolve are stretched by a bounded factor and
            # judged again in the next turn; `factor` and its inverse stay exact either way.
            roots = np.sqrt(np.maximum(squares, self.resolution))
            factor = (directions / roots) / lengths[:, None]
            remainder = ((directions * roots).T * lengths) @ remainder
            weak = np.linalg.norm(remainder, axis=1) <= self.noise
            if weak.any() and not replaced:
                remainder[weak] = 0.0
                factor = self._replace(block, factor, weak)
                replaced = True
            elif turn >= 1 and squares[0] > 0.5:
                break
        self.basis.append(block, factor)
        self.coupling = remainder
        return coefficients

    def _replace(
        self, block: NDArray[Any], factor: NDArray[np.float64], weak: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """Apply the factor, then put random vectors in place of the weak columns."""
        block[:] = block @ factor.astype(block.dtype)
        fresh = self.random.standard_normal((self.operator.n, int(weak.sum())))
        fresh[~self.operator.active] = 0.0
        fresh /= np.linalg.norm(fresh, axis=0)
        block[: self.operator.n, weak] = fresh
        return np.eye(BLOCK)

    def _may_miss_copies(self, values: NDArray[np.float64]) -> bool:
        """Whether as many close values as a block has columns were found."""
        if len(values) < BLOCK:
            return False
        window = values[: len(values) - BLOCK + 1] - values[BLOCK - 1 :]
        return bool(window.min() <= CLUSTER * self.operator.norm)
