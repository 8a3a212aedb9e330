"""The same Lanczos on a torch device: cuSPARSE for the product, full-precision matrix products.

Small matrices stay in float64 on the host; only they cross the bus in each step.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from leporid.graph import KnnGraph, tensors_on
from leporid.spectral.lanczos import basis_size, lanczos
from leporid.spectral.laplacian import LaplacianOperator
from leporid.spectral.solvers import Eigenpairs, Problem, precise, ritz
from leporid.threads import one_thread_pool

if TYPE_CHECKING:
    import torch

WIDTH = 32
"""Columns of a block: a device is fed better by more than the 16 of the CPU."""


def torch_solution(problem: Problem, device: str) -> Eigenpairs:
    """Lanczos on a torch device; `device` may be any that torch has."""
    import torch

    columns = basis_size(problem.dim, WIDTH)[0] + WIDTH

    def solve(problem: Problem) -> Eigenpairs:
        engine = TorchEngine(problem.operator, columns, problem.dtype, device)
        return engine.finish(lanczos(problem, engine))

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")  # no TF32
    try:
        # The small dense problems are solved on the host; many BLAS threads only slow them down.
        with torch.inference_mode(), one_thread_pool(1):
            return precise(solve, problem)
    finally:
        torch.set_float32_matmul_precision(before)


class TorchEngine:
    """The `lanczos.Engine` that works on a torch device (any device)."""

    width = WIDTH

    def __init__(self, operator: LaplacianOperator, capacity: int, dtype: str, device: str) -> None:
        import torch

        graph = operator.graph
        assert isinstance(graph, KnnGraph)
        self.used = 0
        self.precision = float(np.finfo(dtype).eps)
        self._kind: torch.dtype = getattr(torch, dtype)
        self._device = torch.device(device)
        small = torch.int32 if graph.n_edges < 2**31 else torch.int64
        tensors = tensors_on(graph, self._device)
        self._indptr, self._indices = tensors.indptr.to(small), tensors.indices.to(small)
        self._weights = tensors.weights
        self._size = (graph.n, graph.n)
        self._scale = self._put(operator.scale, torch.float64)[:, None]
        self._diagonal = self._put(operator.diagonal, torch.float64)[:, None]
        self._matrix = self._csr(self._kind)
        # Transposed, so that the first columns of the basis are contiguous.
        self._rows = torch.zeros((capacity, graph.n), dtype=self._kind, device=self._device)
        self._block = torch.zeros((graph.n, WIDTH), dtype=self._kind, device=self._device)

    def load(self, block: NDArray[np.float64]) -> None:
        self._block = self._put(block, self._kind)

    def multiply(self) -> None:
        self._block = self._multiply(self._matrix, self._block)

    def project(self, factor: NDArray[np.float64]) -> NDArray[np.float64]:
        self._block = self._block @ self._put(factor, self._kind)
        return self._get(self._rows[: self.used] @ self._block)

    def subtract(self, coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
        small = self._put(coefficients, self._kind)
        self._block = self._block - self._rows[: self.used].T @ small
        return self._get(self._block.T @ self._block)

    def append(self, factor: NDArray[np.float64]) -> None:
        self._block = self._block @ self._put(factor, self._kind)
        self._rows[self.used : self.used + WIDTH] = self._block.T
        self.used += WIDTH

    def replace(
        self, factor: NDArray[np.float64], weak: NDArray[np.bool_], fresh: NDArray[np.float64]
    ) -> None:
        self._block = self._block @ self._put(factor, self._kind)
        self._block[:, self._put(np.flatnonzero(weak), None)] = self._put(fresh, self._kind)

    def rotate(self, rotation: NDArray[np.float64]) -> None:
        kept = rotation.shape[1]
        small = self._put(np.ascontiguousarray(rotation.T), self._kind)
        self._rows[:kept] = small @ self._rows[: self.used]
        self.used = kept

    def vectors(self, count: int) -> NDArray[Any]:
        return np.asarray(self._rows[:count].T.contiguous().cpu().numpy())

    def finish(self, solution: Eigenpairs) -> Eigenpairs:
        """`solvers.finish` without leaving the device: only d x d matrices do."""
        import torch

        vectors = self._put(solution.vectors, torch.float64)
        image = self._multiply(self._csr(torch.float64), vectors)
        values, rotation = ritz(self._get(vectors.T @ image), self._get(vectors.T @ vectors))
        turn = self._put(rotation, None)
        vectors = vectors @ turn
        residuals = (image @ turn - vectors * self._put(values, None)).norm(dim=0)
        return replace(
            solution, values=values, vectors=self._get(vectors), residuals=self._get(residuals)
        )

    def _csr(self, kind: torch.dtype) -> torch.Tensor:
        import torch

        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
            return torch.sparse_csr_tensor(
                self._indptr,
                self._indices,
                self._weights.to(kind),
                size=self._size,
                check_invariants=False,
            )

    def _multiply(self, matrix: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        scale, diagonal = self._scale.to(x.dtype), self._diagonal.to(x.dtype)
        return scale * (matrix @ (scale * x)) + diagonal * x

    def _put(self, array: NDArray[Any], kind: torch.dtype | None) -> torch.Tensor:
        import torch

        tensor = torch.from_numpy(np.ascontiguousarray(array))
        return tensor.to(device=self._device, dtype=kind)

    def _get(self, tensor: torch.Tensor) -> NDArray[np.float64]:
        return np.asarray(tensor.double().cpu().numpy())
