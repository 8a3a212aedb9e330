"""What every solver hands back, the float64 check, and the two solvers that are not ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leporid.spectral.laplacian import LaplacianOperator
from leporid.spectral.spmm import BlockProduct, GraphProduct, wide_product

__all__ = ["Solution", "arpack", "dense", "finish", "ritz"]


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
    product: BlockProduct | GraphProduct,
    dim: int,
    tol: float,
    dtype: str,
    seed: int,
    v0: NDArray[np.floating[Any]] | None = None,
) -> Solution:
    """scipy's `eigsh` around our product: the fall-back and the cross-check."""
    operator = product.operator
    n, products = operator.n, 0

    def multiply(vector: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        nonlocal products
        products += 1
        return wide_product(product, vector.reshape(n, 1)).ravel()

    if v0 is None:
        start = np.random.default_rng(seed).standard_normal(n)
    else:
        start = np.asarray(v0, dtype=np.float64).reshape(n, -1).sum(axis=1)
    start[~operator.active] = 0.0
    # ARPACK's tolerance is relative to the eigenvalue; small ones need the smaller bound.
    relative = 0.1 * tol / operator.norm
    values, vectors = _eigsh(multiply, dim, start.astype(dtype), relative)
    # A Krylov space of one vector holds one copy of a repeated eigenvalue: search what is
    # orthogonal to the vectors found, until nothing there is larger.
    random = np.random.default_rng(seed + 1)
    for _ in range(dim):
        fresh = random.standard_normal(n)
        fresh[~operator.active] = 0.0
        found, basis = values, vectors.astype(np.float64)

        def deflated(vector: NDArray[np.floating[Any]], basis: Any = basis) -> Any:
            inside = basis.T @ vector
            outside = vector - basis @ inside
            image = multiply(outside)
            return image - basis @ (basis.T @ image + 2.0 * operator.norm * inside)

        extra = min(4, dim)
        more, others = _eigsh(deflated, extra, fresh.astype(dtype), relative)
        merged = np.concatenate([values, more])
        order = np.argsort(-merged, kind="stable")[:dim]
        values = merged[order]
        vectors = np.hstack([vectors, others])[:, order]
        if np.abs(values - found).max() <= tol:
            break
    vectors[~operator.active] = 0.0
    return Solution(values.astype(np.float64), vectors, np.zeros(dim), products, "arpack")


def _eigsh(
    multiply: Callable[[NDArray[Any]], NDArray[Any]], dim: int, start: NDArray[Any], tol: float
) -> tuple[NDArray[Any], NDArray[Any]]:
    """`eigsh` for the largest values, in descending order."""
    from scipy.sparse.linalg import LinearOperator, eigsh

    n = len(start)
    linear = LinearOperator((n, n), matvec=multiply, dtype=start.dtype)
    basis = min(n, max(2 * dim + 1, 20))
    values, vectors = eigsh(linear, k=dim, which="LA", tol=tol, v0=start, ncv=basis, maxiter=50 * n)
    order = np.argsort(-values, kind="stable")
    return values[order], vectors[:, order]


def finish(
    exact: Callable[[NDArray[np.floating[Any]]], NDArray[np.float64]], solution: Solution
) -> Solution:
    """Rayleigh-Ritz in the span of the vectors, and the residuals, with the float64 operator.

    One more product improves the eigenvalues to the square of the residual and undoes the
    rotation that float32 arithmetic leaves among close pairs.
    """
    vectors = solution.vectors.astype(np.float64)
    image = exact(vectors)
    values, rotation = ritz(vectors.T @ image, vectors.T @ vectors)
    vectors = vectors @ rotation
    residuals = np.linalg.norm(image @ rotation - vectors * values, axis=0)
    return replace(solution, values=values, vectors=vectors, residuals=residuals)


def ritz(
    small: NDArray[np.float64], gram: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Values, descending, and rotation of the projected problem V^T M V y = mu V^T V y."""
    from scipy.linalg import eigh

    values, rotation = eigh((small + small.T) / 2.0, (gram + gram.T) / 2.0)
    return values[::-1].copy(), rotation[:, ::-1]
