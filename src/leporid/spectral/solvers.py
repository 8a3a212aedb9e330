"""What every solver hands back, the float64 check, and the two solvers that are not ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leporid.spectral.laplacian import LaplacianOperator
from leporid.spectral.spmm import exact_product
from leporid.threads import one_thread_pool

__all__ = ["Solution", "arpack", "dense", "finish"]


@dataclass(frozen=True, eq=False)
class Solution:
    """Eigenpairs of the operator as a solver found them, values descending."""

    values: NDArray[np.float64]
    """float64[d], of the operator (with its shift)."""
    vectors: NDArray[np.floating[Any]]
    """float[n, d]; zero on nodes without edges."""
    residuals: NDArray[np.float64]
    """float64[d]."""
    iterations: int
    solver: str


def dense(operator: LaplacianOperator, dim: int) -> Solution:
    """LAPACK's `eigh` on the dense matrix: for small graphs."""
    from scipy.linalg import eigh

    matrix = operator.dense()
    n = len(matrix)
    values, compact = eigh(matrix, subset_by_index=(n - dim, n - 1))
    vectors = np.zeros((operator.n, dim))
    vectors[operator.active] = compact[:, ::-1]
    return Solution(values[::-1].copy(), vectors, np.zeros(dim), 0, "dense")


def arpack(
    operator: LaplacianOperator,
    dim: int,
    tol: float,
    dtype: str,
    seed: int,
    threads: int | None,
    v0: NDArray[np.floating[Any]] | None = None,
) -> Solution:
    """scipy's `eigsh` around our product: the fall-back and the cross-check."""
    from scipy.sparse.linalg import LinearOperator, eigsh

    n, products = operator.n, 0

    def product(vector: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        nonlocal products
        products += 1
        return exact_product(operator, vector.reshape(n, -1))

    if v0 is None:
        start = np.random.default_rng(seed).standard_normal(n)
    else:
        start = np.asarray(v0, dtype=np.float64).reshape(n, -1).sum(axis=1)
    start[~operator.active] = 0.0
    with one_thread_pool(threads):
        linear = LinearOperator((n, n), matvec=product, matmat=product, dtype=np.dtype(dtype))
        # ARPACK's tolerance is relative to the eigenvalue; small ones need the smaller bound.
        values, vectors = eigsh(
            linear,
            k=dim,
            which="LA",
            tol=0.1 * tol,
            v0=start.astype(dtype),
            ncv=min(n, max(2 * dim + 1, 20)),
            maxiter=50 * n,
        )
    order = np.argsort(-values, kind="stable")
    vectors[~operator.active] = 0.0
    return Solution(
        values[order].astype(np.float64), vectors[:, order], np.zeros(dim), products, "arpack"
    )


def finish(operator: LaplacianOperator, solution: Solution, threads: int | None) -> Solution:
    """Rayleigh-Ritz in the span of the vectors and the residuals, with the float64 operator.

    One more product improves the eigenvalues to the square of the residual and undoes the
    rotation that float32 arithmetic leaves among close pairs.
    """
    vectors, _ = np.linalg.qr(solution.vectors.astype(np.float64))
    with one_thread_pool(threads):
        image = exact_product(operator, vectors)
        small = vectors.T @ image
        values, rotation = np.linalg.eigh((small + small.T) / 2.0)
        values, rotation = values[::-1].copy(), rotation[:, ::-1]
        vectors, image = vectors @ rotation, image @ rotation
    residuals = np.linalg.norm(image - vectors * values, axis=0)
    return Solution(values, vectors, residuals, solution.iterations, solution.solver)
