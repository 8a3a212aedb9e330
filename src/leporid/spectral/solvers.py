"""What a solver is asked for and hands back, the float64 check, and LAPACK and ARPACK."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from leporid.progress import NullProgress, ProgressLike
from leporid.spectral.laplacian import LaplacianOperator, Product, wide_product


@dataclass(frozen=True, eq=False)
class Problem:
    """The `dim` largest eigenpairs of the operator, to an absolute residual of `tol`."""

    operator: LaplacianOperator
    dim: int
    tol: float
    dtype: str = "float32"
    seed: int = 0
    progress: ProgressLike = field(default_factory=NullProgress)
    start: NDArray[np.floating[Any]] | None = None
    """float[n, any]: a block to start from."""


@dataclass(frozen=True, eq=False)
class Eigenpairs:
    """The algebraically largest eigenpairs of an operator, and how well they hold."""

    values: NDArray[np.float64]
    """float64[d], descending."""
    vectors: NDArray[Any]
    """float[n, d], orthonormal columns; zero on nodes without edges."""
    residuals: NDArray[np.float64]
    """float64[d]: ||M q - mu q|| in float64 arithmetic."""
    iterations: int
    """Products of the graph with a vector or a block."""
    solver: str


def precise(solve: Callable[[Problem], Eigenpairs], problem: Problem) -> Eigenpairs:
    """Solve; where float32 has lost too much to many restarts, again in float64 from there."""
    solution = solve(problem)
    if problem.dtype == "float32" and solution.residuals.max() > problem.tol:
        again = solve(replace(problem, dtype="float64", start=solution.vectors))
        return replace(again, iterations=again.iterations + solution.iterations)
    return solution


def dense(problem: Problem) -> Eigenpairs:
    """LAPACK's `eigh` on the dense matrix: for small graphs."""
    operator, dim = problem.operator, problem.dim
    matrix = operator.dense()
    n = len(matrix)
    values, compact = eigh(matrix, subset_by_index=(n - dim, n - 1))
    vectors = np.zeros((operator.n, dim))
    vectors[operator.active] = compact[:, ::-1]
    return Eigenpairs(values[::-1].copy(), vectors, np.zeros(dim), 0, "dense")


def arpack(product: Product, problem: Problem) -> Eigenpairs:
    """scipy's `eigsh` around our product: the fall-back and the cross-check."""
    operator, dim, dtype, tol = problem.operator, problem.dim, problem.dtype, problem.tol
    n, products = operator.n, 0

    def multiply(vector: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        nonlocal products
        products += 1
        return wide_product(product, vector.reshape(n, 1)).ravel()

    def deflated(basis: NDArray[np.float64], vector: NDArray[np.floating[Any]]) -> Any:
        inside = basis.T @ vector
        image = multiply(vector - basis @ inside)
        return image - basis @ (basis.T @ image + 2.0 * operator.norm * inside)

    if problem.start is None:
        first = np.random.default_rng(problem.seed).standard_normal(n)
    else:
        first = np.asarray(problem.start, dtype=np.float64).reshape(n, -1).sum(axis=1)
    first[~operator.active] = 0.0
    # ARPACK's tolerance is relative to the eigenvalue; small ones need the smaller bound.
    relative = 0.1 * tol / operator.norm
    values, vectors = _eigsh(multiply, dim, first.astype(dtype), relative)
    # A Krylov space of one vector holds one copy of a repeated eigenvalue: search what is
    # orthogonal to the vectors there are, until nothing there is larger.
    random = np.random.default_rng(problem.seed + 1)
    for _ in range(dim):
        fresh = random.standard_normal(n)
        fresh[~operator.active] = 0.0
        others = partial(deflated, vectors.astype(np.float64))
        more_values, more = _eigsh(others, min(4, dim), fresh.astype(dtype), relative)
        merged, before = np.concatenate([values, more_values]), values
        order = np.argsort(-merged, kind="stable")[:dim]
        values, vectors = merged[order], np.hstack([vectors, more])[:, order]
        if np.abs(values - before).max() <= tol:
            break
    vectors[~operator.active] = 0.0
    return Eigenpairs(values.astype(np.float64), vectors, np.zeros(dim), products, "arpack")


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
    exact: Callable[[NDArray[np.floating[Any]]], NDArray[np.float64]], solution: Eigenpairs
) -> Eigenpairs:
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
    values, rotation = eigh((small + small.T) / 2.0, (gram + gram.T) / 2.0)
    return values[::-1].copy(), rotation[:, ::-1]
