"""`laplacian_eigenpairs`: a graph in, the top eigenpairs of its operator out."""

from functools import partial
from typing import Any, Literal

import numpy as np
from scipy import sparse
from scipy.linalg import eigh

from leporid.embeddings import lanczos
from leporid.embeddings.arrays import FloatArray
from leporid.embeddings.lanczos import Eigenpairs, EigenProblem
from leporid.embeddings.laplacian import (
    LaplacianOperator,
    laplacian_operator,
    wide_product,
)
from leporid.errors import ConfigError, GraphError, warn
from leporid.foundation import ProgressLike, checked, make_progress, one_thread_pool
from leporid.graph import BLOCK, Graph, KnnGraph, checked_csr, uses_gpu

Solver = Literal["auto", "lanczos", "dense"]
Device = Literal["auto", "cpu", "cuda"]

FLOAT32_REACHES = 3e-7
"""Smaller tolerances are solved for in float64."""
ONE_THREAD_BELOW = 200_000
"""Graphs with fewer edges are solved on one thread: waking others costs more. Same bits."""
DENSE_BELOW = 1200
"""Below this many nodes, LAPACK on the dense matrix is as fast as anything."""


def laplacian_eigenpairs(  # noqa: PLR0913 - public: the options of a solver
    graph: Any,
    dim: int,
    *,
    alpha: float = 0.5,
    normalized: bool = True,
    solver: Solver = "auto",
    tol: float = 1e-6,
    seed: int = 0,
    device: Device = "auto",
    threads: int | None = None,
    progress: bool | ProgressLike | None = None,
) -> Eigenpairs:
    """Compute the `dim` largest eigenpairs of A = D_reg^-1/2 W D_reg^-1/2, the first included.

    `values` are those of A, or of -L_reg when `normalized=False`, where residuals are relative to
    the norm; `vectors` are float32, the entry of largest magnitude in each column positive.

    `graph` is a `Graph` or a symmetric non-negative scipy matrix. `tol` bounds the residual;
    float32 arithmetic reaches about 3e-7, and float64, which also takes over where float32 falls
    short, 1e-12. Where the graph has fewer than `dim` nodes with edges, the last columns are zero
    with eigenvalue 0. The same seed on the same machine gives the same bits.
    """
    _check_arguments(dim, alpha, tol, seed, solver, device)
    operator = laplacian_operator(as_graph(graph), alpha, normalized)
    n_isolated = operator.n - operator.n_active
    if n_isolated:
        warn(
            f"{n_isolated} of {operator.n} nodes have no edges: their vectors are zero"
        )
    rank = min(dim, operator.n_active)
    problem = EigenProblem(
        operator,
        rank,
        tol * operator.norm,
        "float64" if tol < FLOAT32_REACHES else "float32",
        seed,
        make_progress(progress),
    )
    solution = _solve(problem, solver, device, threads)
    residuals = solution.residuals / operator.norm
    n_unconverged = int((residuals > tol).sum())
    if n_unconverged:
        warn(
            f"{n_unconverged} of {len(residuals)} eigenvectors have not converged "
            f"to tol={tol:.1e} after {solution.iterations} products (worst residual "
            f"{residuals.max():.1e}): raise tol or lower dim"
        )
    if rank < dim:
        warn(
            f"the graph has {rank} nodes with edges, fewer than dim={dim}: "
            f"the last {dim - rank} columns are zero"
        )
    return _padded(operator, solution, dim)


def _check_arguments(
    dim: int,
    alpha: float,
    tol: float,
    seed: int,
    solver: Solver,
    device: Device,
) -> None:
    checked(native(dim), int, "dim")
    checked(native(alpha), float, "alpha")
    checked(native(tol), float, "tol")
    checked(native(seed), int, "seed")
    if dim < 1:
        raise ConfigError(f"dim must be at least 1, not {dim}")
    if not tol > 0.0:
        raise ConfigError(f"tol must be positive, not {tol}")
    checked(solver, Solver, "solver")
    checked(device, Device, "device")


def _solve(
    problem: EigenProblem,
    solver: Solver,
    device: Device,
    threads: int | None,
) -> Eigenpairs:
    operator = problem.operator
    uses_lanczos = _uses_lanczos(problem, solver)
    if problem.dim == 0:
        return Eigenpairs(
            np.zeros(0),
            np.zeros((operator.n, 0)),
            np.zeros(0),
            0,
            "lanczos" if uses_lanczos else "dense",
        )
    # A remote graph multiplies there; the rest of the work is done here.
    is_local = isinstance(operator.graph, KnnGraph)
    if uses_lanczos and is_local and uses_gpu(device, operator.n):
        from leporid.embeddings.lanczos_gpu import torch_solution

        return torch_solution(problem, "cuda")
    is_small = operator.graph.n_edges < ONE_THREAD_BELOW
    with one_thread_pool(1 if is_small else threads):
        product = operator.product()
        exact = partial(wide_product, product)
        if not uses_lanczos:
            return lanczos.finish(exact, dense(problem))
        columns, _ = lanczos.basis_size(problem.dim, BLOCK)
        capacity = columns + BLOCK

        def solve(problem: EigenProblem) -> Eigenpairs:
            engine = lanczos.PanelEngine(product, operator.n, capacity, problem.dtype)
            return lanczos.finish(exact, lanczos.Lanczos(problem, engine).solve())

        return lanczos.precise(solve, problem)


def _uses_lanczos(problem: EigenProblem, solver: Solver) -> bool:
    """Whether Lanczos solves the problem: a Krylov space needs more rows than its basis."""
    if solver == "dense":
        return False
    columns, _ = lanczos.basis_size(problem.dim, 2 * BLOCK)
    if solver == "auto":
        return problem.operator.n_active >= max(DENSE_BELOW, 2 * columns)
    return problem.operator.n_active >= columns + 2 * BLOCK


def dense(problem: EigenProblem) -> Eigenpairs:
    """Solve by LAPACK's `eigh` on the dense matrix: for small graphs.

    All eigenpairs are computed: where many eigenvalues are equal, as in a complete graph, LAPACK's
    solvers for some of the eigenpairs fail or return too few.
    """
    operator = problem.operator
    dim = problem.dim
    ascending, compact = eigh(operator.dense(), driver="evd", overwrite_a=True)
    values = ascending[::-1][:dim].copy()
    vectors = np.zeros((operator.n, dim))
    vectors[operator.active] = compact[:, ::-1][:, :dim]
    return Eigenpairs(values, vectors, np.zeros(dim), 0, "dense")


def _padded(operator: LaplacianOperator, solution: Eigenpairs, dim: int) -> Eigenpairs:
    """Fix the signs; make missing columns and nodes without edges zero."""
    missing = dim - len(solution.values)
    vectors = np.zeros((operator.n, dim), dtype=np.float32)
    vectors[:, : dim - missing] = solution.vectors
    vectors[~operator.active] = 0.0
    if operator.n:
        vectors *= column_signs(vectors)
    values = np.pad(solution.values - operator.shift, (0, missing))
    residuals = np.pad(solution.residuals / operator.norm, (0, missing))
    return Eigenpairs(values, vectors, residuals, solution.iterations, solution.solver)


def as_graph(graph: Any) -> Graph:
    """Return a graph as it is, or make one of a symmetric, non-negative square matrix.

    The diagonal is left out: a node is not its own neighbour. float32 weights.
    """
    if isinstance(graph, Graph):
        return graph
    csr = checked_csr(graph, "the graph").astype(np.float32)
    if csr.shape[0] != csr.shape[1]:
        raise GraphError(f"a graph must be a square matrix, not of shape {csr.shape}")
    if (csr.data < 0.0).any():
        raise GraphError(
            "the graph has negative weights: LE and LEPORID need weights >= 0"
        )
    csr -= sparse.diags_array(csr.diagonal(), format="csr")
    if abs(csr - csr.T).max() > 1e-5 * csr.max():
        raise GraphError(
            "the graph is not symmetric: pass (W + W.T) / 2 or W.maximum(W.T)"
        )
    csr = csr.maximum(csr.T).tocsr()
    csr.eliminate_zeros()
    indptr = csr.indptr.astype(np.int64)
    return KnnGraph(
        indptr,
        csr.indices.astype(np.int32),
        csr.data,
        side="rows",
        k=int(np.diff(indptr).max(initial=0)),
        similarity="precomputed",
    )


def native(value: object) -> object:
    """Return a number of numpy as Python's own, and anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def column_signs(vectors: FloatArray) -> FloatArray:
    """+1 or -1 per column, by which the entry of largest magnitude becomes positive."""
    peak = vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])]
    return np.where(peak < 0, -1, 1).astype(vectors.dtype)
