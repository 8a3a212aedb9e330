"""Block Lanczos with thick restart, for the algebraically largest eigenpairs.

Every step multiplies the newest block of 16 columns by the operator, orthogonalises the image
against the whole basis twice, and appends it. The coefficients fill the projected matrix. When the
basis is full, the best Ritz vectors are kept and the newest block couples to them, as in

    A V = V T + X R E^T      (E picks the columns of the last block),

so that ||R y_last|| is the residual of the Ritz vector V y. After a restart the same relation
holds with V Y for V.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numba
import numpy as np
from scipy.linalg import eigh

from leporid.embeddings.arrays import BoolArray, Float64Array, FloatArray
from leporid.embeddings.laplacian import LaplacianOperator, Product
from leporid.foundation import NullProgress, ProgressLike, on_each_share
from leporid.graph import BLOCK, huge_zeros

MAX_PRODUCTS = 2000
"""Products with a block, at most."""
CHECK_EVERY = 2
"""Products between two checks of the residuals, at least."""
FASTEST = 3.0
"""A product divides the residual by no more than this (measured: 2.5); checks that cannot end the
work are left out."""
CLUSTER = 1e-4
"""A block finds at most as many copies of an eigenvalue as it has columns; that many values within
this distance call for a second search."""
ROWS = 2048
"""Rows of a panel: with 192 float32 columns it fills most of a second-level cache."""


@dataclass(frozen=True, eq=False)
class EigenProblem:
    """The `dim` largest eigenpairs of the operator, to an absolute residual of `tol`."""

    operator: LaplacianOperator
    dim: int
    tol: float
    dtype: str = "float32"
    seed: int = 0
    progress: ProgressLike = field(default_factory=NullProgress)
    init: FloatArray | None = None
    """float[n, any]: the first block."""


@dataclass(frozen=True, eq=False)
class Eigenpairs:
    """The algebraically largest eigenpairs of an operator, and how well they hold."""

    values: Float64Array
    """float64[d], descending."""
    vectors: FloatArray
    """float[n, d], orthonormal columns; zero on nodes without edges."""
    residuals: Float64Array
    """float64[d]: ||M q - mu q|| in float64 arithmetic."""
    iterations: int
    """Products of the graph with a vector or a block."""
    solver: str


def precise(
    solve: Callable[[EigenProblem], Eigenpairs],
    problem: EigenProblem,
) -> Eigenpairs:
    """Solve; where float32 has lost too much to many restarts, again in float64 from there."""
    solution = solve(problem)
    if problem.dtype == "float32" and solution.residuals.max() > problem.tol:
        refined = solve(replace(problem, dtype="float64", init=solution.vectors))
        iterations = solution.iterations + refined.iterations
        return replace(refined, iterations=iterations)
    return solution


def basis_size(dim: int, width: int) -> tuple[int, int]:
    """(columns of the basis, columns kept at a restart) for `dim` vectors."""
    restarted = -(-3 * dim // (2 * width)) * width
    return restarted + max(restarted, 6 * width), restarted


class PanelEngine:
    """The large arrays of `Lanczos`: an orthonormal basis and the newest block.

    Small matrices are float64; the basis is float32 or float64, with room for `basis_size` columns
    and one more block. It lies in row panels, [panels, columns, rows]: BLAS runs single-threaded
    inside each, and sums over panels are taken in a fixed order in float64, so the result does not
    depend on the number of threads. `lanczos_gpu.TorchEngine` has the same methods on a device.
    """

    width = BLOCK
    """Columns of a block."""
    used = 0
    """Columns of the basis in use; lowering it forgets the last ones."""

    def __init__(
        self,
        product: Product,
        n: int,
        capacity: int,
        dtype: str,
    ) -> None:
        self.product = product
        self.n = n
        self.precision = float(np.finfo(dtype).eps)
        rows = min(ROWS, n)
        panels = -(-n // rows)
        self._columns = huge_zeros((panels, capacity, rows), dtype)
        self._block = huge_zeros((panels, rows, BLOCK), dtype)
        self._image = huge_zeros((panels, rows, BLOCK), dtype)
        self._scaled = huge_zeros((panels, rows, BLOCK), dtype)
        self._parts = np.zeros((panels, capacity, BLOCK), dtype=dtype)
        self._squares = np.zeros((panels, BLOCK, BLOCK), dtype=dtype)

    def load(self, block: Float64Array) -> None:
        """Take float64[n, width] as the newest block."""
        flat = self._block.reshape(-1, BLOCK)
        flat[: self.n] = block
        flat[self.n :] = 0.0

    def multiply(self) -> None:
        """Set block = M block."""
        self.product(
            self._block.reshape(-1, BLOCK),
            self._scaled.reshape(-1, BLOCK),
            self._image.reshape(-1, BLOCK),
        )
        self._block, self._image = self._image, self._block

    def project(self, factor: Float64Array) -> Float64Array:
        """Set block = block factor; return float64[used, width] = basis^T block."""
        cast_factor = self._cast(factor)
        parts = self._parts[:, : self.used]

        def project(p: int, columns: FloatArray, block: FloatArray) -> None:
            block[:] = block @ cast_factor
            np.dot(columns, block, out=parts[p])

        self._on_panels(project)
        return np.asarray(parts.sum(axis=0, dtype=np.float64))

    def subtract(self, coefficients: Float64Array) -> Float64Array:
        """Set block = block - basis coefficients; return float64[width, width] = block^T block."""
        cast_coefficients = self._cast(coefficients)

        def subtract(p: int, columns: FloatArray, block: FloatArray) -> None:
            block -= columns.T @ cast_coefficients
            np.dot(block.T, block, out=self._squares[p])

        self._on_panels(subtract)
        return np.asarray(self._squares.sum(axis=0, dtype=np.float64))

    def append(self, factor: Float64Array) -> None:
        """Set block = block factor, and add its columns to the basis."""
        cast_factor = self._cast(factor)
        self.used += BLOCK

        def append(_: int, columns: FloatArray, block: FloatArray) -> None:
            block[:] = block @ cast_factor
            columns[-BLOCK:] = block.T

        self._on_panels(append)

    def replace(
        self, factor: Float64Array, weak: BoolArray, fresh: Float64Array
    ) -> None:
        """Set block = block factor, then its weak columns to `fresh`, float64[n, weak.sum()]."""
        flat = self._block.reshape(-1, BLOCK)
        flat[:] = flat @ self._cast(factor)
        flat[: self.n, weak] = fresh

    def rotate(self, rotation: Float64Array) -> None:
        """Set basis = basis rotation."""
        cast_rotation = self._cast(rotation.T)
        rotated = rotation.shape[1]

        def rotate(_: int, columns: FloatArray, block: FloatArray) -> None:
            columns[:rotated] = cast_rotation @ columns

        self._on_panels(rotate)
        self.used = rotated

    def vectors(self, count: int) -> FloatArray:
        """float[n, count]: the first columns of the basis."""
        columns = self._columns[:, :count].transpose(0, 2, 1).reshape(-1, count)
        return np.ascontiguousarray(columns[: self.n])

    def _on_panels(self, work: Callable[[int, FloatArray, FloatArray], None]) -> None:
        """Call `work(p, columns, block)` for each panel: number, part of the basis, block."""

        def share(_: int, first: int, stop: int) -> None:
            for p in range(first, stop):
                work(p, self._columns[p, : self.used], self._block[p])

        panels = len(self._block)
        on_each_share(share, 0, panels, min(numba.get_num_threads(), panels))

    def _cast(self, small: Float64Array) -> FloatArray:
        return np.ascontiguousarray(small, dtype=self._columns.dtype)


class Lanczos:
    """The state of one solve: the basis V, the projected matrix T, the newest block X.

    The graph has more nodes with edges than the engine has columns.
    """

    def __init__(self, problem: EigenProblem, engine: Any) -> None:
        self.operator = problem.operator
        self.engine = engine
        self.progress = problem.progress
        self.dim = problem.dim
        self.tol = problem.tol
        self.init = problem.init
        self.random = np.random.default_rng(problem.seed)
        self.capacity, self.restart_columns = basis_size(self.dim, engine.width)
        self.projected = np.zeros((self.capacity, self.capacity))
        self.coupling = np.zeros((engine.width, engine.width))
        self.products = 0
        self.next_check = 0
        # What rounding leaves of a vector that lies in the basis already, and the smallest
        # eigenvalue of a Gram matrix that rounding does not drown.
        self.noise = 0.5 * engine.precision * self.operator.norm
        self.resolution = 16.0 * engine.precision

    def solve(self) -> Eigenpairs:
        """Iterate and restart to a residual of about `tol`, then look for missed copies."""
        self.progress.start("eigenvectors", None)
        self.engine.load(self._first_block())
        self._orthonormalize()
        values, residuals = self._converge()
        while self.products < MAX_PRODUCTS and self._may_miss_copies(values):
            # The converged vectors stay; a fresh random block searches what is orthogonal
            # to them. Neglecting their coupling changes A by no more than the residuals.
            self.engine.used = self.dim
            self.projected[:] = 0.0
            self.projected[range(self.dim), range(self.dim)] = values
            self.engine.load(self._random(self.engine.width))
            self._orthonormalize()
            previous = values
            values, residuals = self._converge()
            if np.abs(values - previous).max() <= 10.0 * self.tol:
                break
        vectors = self.engine.vectors(self.dim)
        return Eigenpairs(values, vectors, residuals, self.products, "lanczos")

    def _first_block(self) -> Float64Array:
        """float64[n, width]: random, or random combinations of the initial vectors."""
        fresh = self._random(self.engine.width)
        if self.init is None:
            return fresh
        initial = np.asarray(self.init, dtype=np.float64).reshape(self.operator.n, -1)
        shape = (initial.shape[1], self.engine.width)
        mixed = initial @ self.random.standard_normal(shape)
        mixed[~self.operator.active] = 0.0
        return np.asarray(mixed + 1e-3 * np.abs(mixed).max(initial=0.0) * fresh)

    def _converge(self) -> tuple[Float64Array, Float64Array]:
        """Step and restart; leave the best Ritz vectors in the first columns."""
        width = self.engine.width
        while True:
            self._step()
            used = self.engine.used - width
            full = used + width > self.capacity
            early = self.products < self.next_check or self.products % CHECK_EVERY
            if not full and (used < self.dim or early):
                continue
            ascending, vectors = np.linalg.eigh(self.projected[:used, :used])
            values = ascending[::-1]
            vectors = vectors[:, ::-1]
            residuals = np.linalg.norm(self.coupling @ vectors[used - width :], axis=0)
            worst = float(residuals[: self.dim].max())
            self.progress.advance(0, residual=worst / self.operator.norm)
            needed = np.log(max(1.0, worst / (0.5 * self.tol))) / np.log(FASTEST)
            self.next_check = self.products + int(needed)
            done = worst <= 0.5 * self.tol or self.products >= MAX_PRODUCTS
            if not (done or full):
                continue
            columns = self.dim if done else self.restart_columns
            self.engine.used = used
            self.engine.rotate(vectors[:, :columns])
            if done:
                return values[: self.dim].copy(), residuals[: self.dim]
            self.projected[:] = 0.0
            diagonal = range(columns)
            self.projected[diagonal, diagonal] = values[:columns]
            self.engine.append(np.eye(width))

    def _step(self) -> None:
        """Add one product, one row of blocks of T, one new block in the basis."""
        self.engine.multiply()
        self.products += 1
        self.progress.advance(1)
        coefficients = self._orthonormalize()
        used = len(coefficients)
        newest = slice(used - self.engine.width, used)
        self.projected[:used, newest] = coefficients
        self.projected[newest, :used] = coefficients.T
        diagonal = self.projected[newest, newest]
        self.projected[newest, newest] = (diagonal + diagonal.T) / 2.0

    def _orthonormalize(self) -> Float64Array:
        """Split block = V C + Q R: Q replaces the block and joins the basis, R is kept, C returned.

        Columns that lie in the basis already (an invariant subspace was found) are replaced by
        random ones with a zero row in R, which leaves the Lanczos relation true.
        """
        width = self.engine.width
        coefficients = np.zeros((self.engine.used, width))
        remainder = np.eye(width)
        factor = np.eye(width)
        replaced = False
        for turn in range(8):
            part = self.engine.project(factor)
            gram = self.engine.subtract(part)
            coefficients += part @ remainder
            lengths = np.sqrt(np.maximum(np.diag(gram), 1e-60))
            gram = gram / np.outer(lengths, lengths)
            squares, directions = np.linalg.eigh((gram + gram.T) / 2.0)
            # Directions the Gram matrix cannot resolve are stretched by a bounded factor and
            # checked again in the next turn.
            roots = np.sqrt(np.maximum(squares, self.resolution))
            factor = (directions / roots) / lengths[:, None]
            remainder = ((directions * roots).T * lengths) @ remainder
            weak = np.linalg.norm(remainder, axis=1) <= self.noise
            if weak.any() and not replaced:
                remainder[weak] = 0.0
                self.engine.replace(factor, weak, self._random(int(weak.sum())))
                factor = np.eye(width)
                replaced = True
            elif turn >= 1 and squares[0] > 0.5:
                break
        self.engine.append(factor)
        self.coupling = remainder
        return coefficients

    def _random(self, columns: int) -> Float64Array:
        """float64[n, columns]: random unit columns, zero on nodes without edges."""
        fresh = self.random.standard_normal((self.operator.n, columns))
        fresh[~self.operator.active] = 0.0
        return np.asarray(fresh / np.linalg.norm(fresh, axis=0))

    def _may_miss_copies(self, values: Float64Array) -> bool:
        """Whether as many values as a block has columns are close."""
        width = self.engine.width
        distances = values[: max(len(values) - width + 1, 0)] - values[width - 1 :]
        return bool((distances <= CLUSTER * self.operator.norm).any())


def _wide(array: FloatArray) -> Float64Array:
    return np.asarray(array, dtype=np.float64)


def finish(
    exact: Callable[[Any], Any],
    solution: Eigenpairs,
    put: Callable[[Any], Any] = _wide,
    get: Callable[[Any], Float64Array] = _wide,
    take: Callable[[Any], FloatArray] = _wide,
) -> Eigenpairs:
    """Do Rayleigh-Ritz in the span of the vectors, and residuals, with the float64 operator.

    This improves the eigenvalues to the square of the residual and undoes the rotation that
    float32 leaves among close pairs. `put` moves tall float64 matrices to a device, `take` brings
    the vectors back; the projected problem V^T M V y = mu V^T V y is solved here.
    """
    vectors = put(solution.vectors)
    image = exact(vectors)
    projected = get(vectors.T @ image)
    gram = get(vectors.T @ vectors)
    projected = (projected + projected.T) / 2.0
    gram = (gram + gram.T) / 2.0
    ascending, rotation = eigh(projected, gram)
    values = ascending[::-1].copy()
    turn = put(rotation[:, ::-1])
    vectors = vectors @ turn
    differences = image @ turn - vectors * put(values)
    residuals = get((differences**2).sum(0)) ** 0.5
    return replace(solution, values=values, vectors=take(vectors), residuals=residuals)
