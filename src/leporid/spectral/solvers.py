"""`Problem` and `Eigenpairs` of a solver, the float64 check, and LAPACK."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from leporid.progress import NullProgress, ProgressLike
from leporid.spectral.laplacian import LaplacianOperator


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
