"""`Problem` and `Eigenpairs` of a solver, the float64 check, and LAPACK and ARPACK."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse.linalg import LinearOperator, eigsh

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
    init: NDArray[np.floating[Any]] | None = None
    """float[n, any]: the first block."""


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
        again = solve(replace(problem, dtype="float64", init=solution.vectors))
        return replace(again, iterations=again.iterations + solution.iterations)
    return solution


def dense(problem: Problem) -> Eigenpairs:
    """LAPACK's `eigh` on the dense matrix: for small graphs."""
    operator, dim, n = problem.operator, problem.dim, problem.operator.n_active
    values, compact = eigh(operator.dense(), subset_by_index=(n - dim, n - 1))
    vectors = np.zeros((operator.n, dim))
    vectors[operator.active] = compact[:, ::-1]
    return Eigenpairs(values[::-1].copy(), vectors, np.zeros(dim), 0, "dense")


def arpack(product: Product, problem: Problem) -> Eigenpairs:
    """scipy's `eigsh` around our product: the cross-check."""
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

    def largest(multiply: Callable[[NDArray[Any]], Any], dim: int, first: NDArray[Any]) -> Any:
        first = np.where(operator.active, first, 0.0).astype(dtype)
        linear = LinearOperator((n, n), matvec=multiply, dtype=dtype)
        values, vectors = eigsh(
            # The tolerance is relative to the eigenvalue; small ones need the smaller bound.
            linear, k=dim, which="LA", tol=0.1 * tol / operator.norm, v0=first,
            ncv=min(n, max(2 * dim + 1, 20)), maxiter=50 * n,
        )  # fmt: skip
        order = np.argsort(-values, kind="stable")
        return values[order], vectors[:, order]

    if problem.init is None:
        first = np.random.default_rng(problem.seed).standard_normal(n)
    else:
        first = np.asarray(problem.init, dtype=np.float64).reshape(n, -1).sum(axis=1)
    values, vectors = largest(multiply, dim, first)
    # A Krylov space of one vector holds one copy of a repeated eigenvalue: search what is
    # orthogonal to the vectors there are, until nothing there is larger.
    random = np.random.default_rng(problem.seed + 1)
    for _ in range(dim):
        others = partial(deflated, vectors.astype(np.float64))
        more_values, more = largest(others, min(4, dim), random.standard_normal(n))
        merged, before = np.concatenate([values, more_values]), values
        order = np.argsort(-merged, kind="stable")[:dim]
        values, vectors = merged[order], np.hstack([vectors, more])[:, order]
        if np.abs(values - before).max() <= tol:
            break
    vectors[~operator.active] = 0.0
    return Eigenpairs(values.astype(np.float64), vectors, np.zeros(dim), products, "arpack")


def _wide(array: Any) -> NDArray[np.float64]:
    return np.asarray(array, dtype=np.float64)


def finish(
    exact: Callable[[Any], Any],
    solution: Eigenpairs,
    put: Callable[[Any], Any] = _wide,
    get: Callable[[Any], NDArray[np.float64]] = _wide,
    take: Callable[[Any], NDArray[Any]] = _wide,
) -> Eigenpairs:
    """Rayleigh-Ritz in the span of the vectors, and the residuals, with the float64 operator.

    This improves the eigenvalues to the square of the residual and undoes the rotation that
    float32 leaves among close pairs. `put` moves tall float64 matrices to a device, `take` brings
    the vectors back; the projected problem V^T M V y = mu V^T V y is solved here.
    """
    vectors = put(solution.vectors)
    image = exact(vectors)
    small, gram = get(vectors.T @ image), get(vectors.T @ vectors)
    ascending, rotation = eigh((small + small.T) / 2.0, (gram + gram.T) / 2.0)
    values, turn = ascending[::-1].copy(), put(rotation[:, ::-1])
    vectors = vectors @ turn
    residuals = get(((image @ turn - vectors * put(values)) ** 2).sum(0)) ** 0.5
    return replace(solution, values=values, vectors=take(vectors), residuals=residuals)
