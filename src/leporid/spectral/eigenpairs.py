"""`laplacian_eigenpairs`: a graph in, the top eigenpairs of its operator out."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from leporid.errors import ConfigError, LeporidWarning
from leporid.graph.types import KnnGraph
from leporid.progress import ProgressLike, make_progress
from leporid.spectral.gpu import resolve_device
from leporid.spectral.lanczos import basis_size, lanczos
from leporid.spectral.laplacian import LaplacianOperator, as_graph, laplacian_operator
from leporid.spectral.panels import PanelEngine
from leporid.spectral.solvers import Solution, arpack, dense, finish
from leporid.spectral.spmm import BLOCK, BlockProduct, GraphProduct, wide_product
from leporid.threads import one_thread_pool

__all__ = ["Eigenpairs", "Solver", "laplacian_eigenpairs"]

Solver = Literal["auto", "lanczos", "arpack", "dense"]
Device = Literal["auto", "cpu", "cuda"]

FLOAT32_REACHES = 3e-7
"""Smaller tolerances are solved for in float64, whatever `dtype` says."""
ONE_THREAD_BELOW = 200_000
"""Graphs with fewer edges are solved on one thread: waking others costs more. Same bits."""
DENSE_BELOW = 1200
"""Below this many nodes, LAPACK on the dense matrix is as fast as anything."""


@dataclass(frozen=True, eq=False)
class Eigenpairs:
    """The algebraically largest eigenpairs of A, and how well they hold."""

    values: NDArray[np.float64]
    """float64[d], descending. Eigenvalues of A; of -L_reg when `normalized=False`."""
    vectors: NDArray[np.float32]
    """float32[n, d], orthonormal columns; the entry of largest magnitude is positive."""
    residuals: NDArray[np.float64]
    """float64[d]: ||A q - mu q|| in float64 arithmetic (over the norm when unnormalised)."""
    iterations: int
    """Products of the graph with a vector or a block."""
    solver: str


def laplacian_eigenpairs(
    graph: Any,
    dim: int,
    *,
    alpha: float = 0.5,
    normalized: bool = True,
    solver: Solver = "auto",
    tol: float = 1e-6,
    dtype: Literal["float32", "float64"] = "float32",
    seed: int = 0,
    device: Device = "auto",
    threads: int | None = None,
    progress: bool | ProgressLike | None = None,
    v0: NDArray[np.floating[Any]] | None = None,
) -> Eigenpairs:
    """The `dim` largest eigenpairs of A = D_reg^-1/2 W D_reg^-1/2, the first included.

    `graph` is a `KnnGraph` or a symmetric non-negative scipy matrix. `tol` bounds the residual;
    float32 arithmetic reaches about 3e-7; `dtype="float64"` goes to 1e-12, and is taken by itself
    where float32 falls short. `v0` (float[n, any])
    is a block to start from, for instance the embedding of yesterday's graph. Where the graph
    has fewer than `dim` nodes with edges, the last columns are zero with eigenvalue 0, and one
    warning counts them. The same seed on the same machine gives the same bits.
    """
    if dim < 1:
        raise ConfigError(f"dim must be at least 1, not {dim}")
    if solver not in get_args(Solver):
        raise ConfigError(f"solver must be one of {list(get_args(Solver))}, not {solver!r}")
    if device not in get_args(Device):
        raise ConfigError(f"device must be one of {list(get_args(Device))}, not {device!r}")
    if dtype not in ("float32", "float64"):
        raise ConfigError(f"dtype must be 'float32' or 'float64', not {dtype!r}")
    if not tol > 0.0:
        raise ConfigError(f"tol must be positive, not {tol}")
    operator = laplacian_operator(as_graph(graph), alpha, normalized)
    n_active = operator.n_active
    _warn_isolated(operator)
    found = min(dim, n_active)
    reporter = make_progress(progress)
    kind: Solver = _choose(solver, n_active, found)
    wanted = tol * operator.norm
    if tol < FLOAT32_REACHES:
        dtype = "float64"
    if found == 0:
        solution = Solution(np.zeros(0), np.zeros((operator.n, 0)), np.zeros(0), 0, kind)
    elif kind == "lanczos" and _here(operator) and resolve_device(device) == "cuda":
        solution = torch_solution(operator, found, wanted, dtype, seed, reporter, v0, "cuda")
    else:
        small = operator.graph.n_edges < ONE_THREAD_BELOW
        with one_thread_pool(1 if small else threads):
            solution = _on_cpu(operator, kind, found, wanted, dtype, seed, reporter, v0)
    _warn_unconverged(operator, solution, tol)
    return _padded(operator, solution, dim)


def torch_solution(
    operator: LaplacianOperator,
    dim: int,
    tol: float,
    dtype: str,
    seed: int,
    progress: ProgressLike,
    v0: NDArray[np.floating[Any]] | None,
    device: str,
) -> Solution:
    """Lanczos on a torch device; `device` may be any that torch has."""
    from leporid.spectral.gpu import WIDTH, TorchEngine, full_precision

    columns, _ = basis_size(dim, WIDTH)

    def solve(dtype: str, start: NDArray[np.floating[Any]] | None) -> Solution:
        engine = TorchEngine(operator, columns + WIDTH, dtype, device)
        solution = lanczos(operator, engine, dim, tol, seed, progress, start)
        return engine.finish(solution)

    # The small dense problems are solved on the host; many BLAS threads only slow them down.
    with full_precision(), one_thread_pool(1):
        return _precise(solve, dtype, v0, tol)


def _choose(solver: Solver, n: int, dim: int) -> Solver:
    """The solver for `n` nodes with edges: a Krylov space needs more rows than its basis."""
    columns, _ = basis_size(dim, 2 * BLOCK)
    if solver == "auto":
        return "dense" if n < max(DENSE_BELOW, 2 * columns) else "lanczos"
    if (solver == "arpack" and n <= dim + 4) or (solver == "lanczos" and n < columns + 2 * BLOCK):
        return "dense"
    return solver


def _on_cpu(
    operator: LaplacianOperator,
    solver: Solver,
    dim: int,
    tol: float,
    dtype: str,
    seed: int,
    progress: ProgressLike,
    v0: NDArray[np.floating[Any]] | None,
) -> Solution:
    prepare = BlockProduct.prepare if _here(operator) else GraphProduct
    product = prepare(operator)
    exact = partial(wide_product, product)
    if solver == "dense":
        return finish(exact, dense(operator, dim))
    columns, _ = basis_size(dim, BLOCK)

    def solve(dtype: str, start: NDArray[np.floating[Any]] | None) -> Solution:
        if solver == "arpack":
            return finish(exact, arpack(product, dim, tol, dtype, seed, start))
        engine = PanelEngine(product, columns + BLOCK, dtype)
        return finish(exact, lanczos(operator, engine, dim, tol, seed, progress, start))

    return _precise(solve, dtype, v0, tol)


def _here(operator: LaplacianOperator) -> bool:
    """Whether the edges of the graph are in this process, to be multiplied by our kernels."""
    return isinstance(operator.graph, KnnGraph)


def _precise(
    solve: Callable[[str, NDArray[np.floating[Any]] | None], Solution],
    dtype: str,
    v0: NDArray[np.floating[Any]] | None,
    tol: float,
) -> Solution:
    """Solve; where float32 has lost too much to many restarts, again in float64 from there."""
    solution = solve(dtype, v0)
    if dtype == "float32" and solution.residuals.max() > tol:
        again = solve("float64", solution.vectors)
        return replace(again, iterations=again.iterations + solution.iterations)
    return solution


def _warn_isolated(operator: LaplacianOperator) -> None:
    isolated = operator.n - operator.n_active
    if isolated:
        warnings.warn(
            f"{isolated} of {operator.n} nodes have no edges: their vectors are zero",
            LeporidWarning,
            stacklevel=3,
        )


def _warn_unconverged(operator: LaplacianOperator, solution: Solution, tol: float) -> None:
    residuals = solution.residuals / operator.norm
    unconverged = int((residuals > tol).sum())
    if unconverged:
        warnings.warn(
            f"{unconverged} of {len(residuals)} eigenvectors have not converged to tol={tol:.1e} "
            f"after {solution.iterations} products (worst residual {residuals.max():.1e}): "
            f"raise tol or lower dim",
            LeporidWarning,
            stacklevel=3,
        )


def _padded(operator: LaplacianOperator, solution: Solution, dim: int) -> Eigenpairs:
    """Fix the signs, cast, and fill up to `dim` columns with zeros."""
    missing = dim - len(solution.values)
    if missing:
        warnings.warn(
            f"the graph has {operator.n_active} nodes with edges, fewer than dim={dim}: "
            f"the last {missing} columns are zero",
            LeporidWarning,
            stacklevel=3,
        )
    vectors = np.zeros((operator.n, dim), dtype=np.float32)
    vectors[:, : len(solution.values)] = solution.vectors
    if operator.n:
        peak = np.abs(vectors).argmax(axis=0)
        negative = vectors[peak, np.arange(dim)] < 0.0
        vectors[:, negative] *= -1.0
    values = np.concatenate([solution.values - operator.shift, np.zeros(missing)])
    residuals = np.concatenate([solution.residuals / operator.norm, np.zeros(missing)])
    return Eigenpairs(values, vectors, residuals, solution.iterations, solution.solver)
