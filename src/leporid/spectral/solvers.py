"""What every solver hands back, the float64 check, and the two solvers that are not ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leporid.spectral.laplacian import LaplacianOperator
from leporid.spectral.spmm import BlockProduct, wide_product

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
    product: BlockProduct,
    dim: int,
    tol: float,
    dtype: str,
    seed: int,
    v0: NDArray[np.floating[Any]] | None = None,
) -> Solution:
    """scipy's `eigsh` around our product: the fall-back and the cross-check."""
    from scipy.sparse.linalg import LinearOperator, eigsh

    operator = product.operator
    n, products = operator.n, 0

    def multiply(vector: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        nonlocal products
        products += 1
        return wide_product(product, vector.reshape(n, -1))

    if v0 is None:
        start = np.random.default_rng(seed).standard_normal(n)
    else:
        start = np.asarray(v0, dtype=np.float64).reshape(n, -1).sum(axis=1)
    start[~operator.active] = 0.0
    values, vectors = eigsh(
        LinearOperator((n, n), matvec=multiply, matmat=multiply, dtype=np.dtype(dtype)),
        k=dim,
        which="LA",
        # ARPACK's tolerance is relative to the eigenvalue; small ones need the smaller bound.
        tol=0.1 * tol / operator.norm,
        v0=start.astype(dtype),
        ncv=min(n, max(2 * dim + 1, 20)),
        maxiter=50 * n,
    )
    order = np.argsort(-values, kind="stable")
    vectors[~operator.active] = 0.0
    return Solution(
        values[order].astype(np.float64), vectors[:, order], np.zeros(dim), products, "arpack"
    )


def finish(product: BlockProduct, solution: Solution) -> Solution:
    """Rayleigh-Ritz in the span of the vectors, and the residuals, with the float64 operator.

    One more product improves the eigenvalues to the square of the residual and undoes the
    rotation that float32 arithmetic leaves among close pairs.
    """
    from scipy.linalg import eigh

    vectors = solution.vectors.astype(np.float64)
    image = wide_product(product, vectors)
    small, gram = vectors.T @ image, vectors.T @ vectors
    values, rotation = eigh((small + small.T) / 2.0, (gram + gram.T) / 2.0)
    values, rotation = values[::-1].copy(), rotation[:, ::-1]
    vectors = vectors @ rotation
    residuals = np.linalg.norm(image @ rotation - vectors * values, axis=0)
    return Solution(values, vectors, residuals, solution.iterations, solution.solver)
