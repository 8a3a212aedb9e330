"""Lanczos on a torch device: cuSPARSE and full-precision matrix products."""

import warnings

import numpy as np
import torch
from numpy.typing import NDArray

from leporid.embeddings import lanczos
from leporid.embeddings.arrays import BoolArray, Float64Array, FloatArray
from leporid.embeddings.lanczos import Eigenpairs, EigenProblem
from leporid.embeddings.laplacian import LaplacianOperator
from leporid.foundation import one_thread_pool
from leporid.graph import KnnGraph, tensors_on

WIDTH = 32
"""Columns of a block; the CPU has 16."""


def torch_solution(problem: EigenProblem, device: str) -> Eigenpairs:
    """Solve by Lanczos on any torch device."""
    columns, _ = lanczos.basis_size(problem.dim, WIDTH)
    capacity = columns + WIDTH

    def solve(problem: EigenProblem) -> Eigenpairs:
        engine = TorchEngine(problem.operator, capacity, problem.dtype, device)
        solution = lanczos.Lanczos(problem, engine).solve()
        return lanczos.finish(
            engine.exact,
            solution,
            engine.put,
            engine.get,
            engine.take,
        )

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")  # no TF32
    try:
        # Many BLAS threads slow down the small dense problems on the host.
        with torch.inference_mode(), one_thread_pool(1):
            return lanczos.precise(solve, problem)
    finally:
        torch.set_float32_matmul_precision(before)


class TorchEngine:
    """`PanelEngine` on any torch device; the methods are described there."""

    width = WIDTH
    used = 0

    def __init__(
        self,
        operator: LaplacianOperator,
        capacity: int,
        dtype: str,
        device: str,
    ) -> None:
        graph = operator.graph
        assert isinstance(graph, KnnGraph)
        self.precision = float(np.finfo(dtype).eps)
        self._kind = torch.float32 if dtype == "float32" else torch.float64
        self._device = torch.device(device)
        index = torch.int32 if graph.n_edges < 2**31 else torch.int64
        tensors = tensors_on(graph, self._device)
        self._indptr = tensors.indptr.to(index)
        self._indices = tensors.indices.to(index)
        self._weights = tensors.weights
        self._matrix = self._csr(self._kind)
        self._scale = self.put(operator.scale)[:, None]
        self._diagonal = self.put(operator.diagonal)[:, None]
        # Transposed, so that the first columns of the basis are contiguous.
        self._rows = torch.zeros(
            (capacity, graph.n),
            dtype=self._kind,
            device=self._device,
        )
        self._block = torch.zeros(
            (graph.n, WIDTH),
            dtype=self._kind,
            device=self._device,
        )

    def load(self, block: Float64Array) -> None:
        self._block = self.put(block, self._kind)

    def multiply(self) -> None:
        self._block = self._multiply(self._matrix, self._block)

    def project(self, factor: Float64Array) -> Float64Array:
        self._block = self._block @ self.put(factor, self._kind)
        return self.get(self._rows[: self.used] @ self._block)

    def subtract(self, coefficients: Float64Array) -> Float64Array:
        basis = self._rows[: self.used].T
        self._block = self._block - basis @ self.put(coefficients, self._kind)
        return self.get(self._block.T @ self._block)

    def append(self, factor: Float64Array) -> None:
        self._block = self._block @ self.put(factor, self._kind)
        self._rows[self.used : self.used + WIDTH] = self._block.T
        self.used += WIDTH

    def replace(
        self, factor: Float64Array, weak: BoolArray, fresh: Float64Array
    ) -> None:
        self._block = self._block @ self.put(factor, self._kind)
        self._block[:, self.put(np.flatnonzero(weak))] = self.put(fresh, self._kind)

    def rotate(self, rotation: Float64Array) -> None:
        rotated = rotation.shape[1]
        factor = self.put(rotation.T, self._kind)
        self._rows[:rotated] = factor @ self._rows[: self.used]
        self.used = rotated

    def vectors(self, count: int) -> torch.Tensor:
        """float[n, count], on the device."""
        return self._rows[:count].T.contiguous()

    def exact(self, x: torch.Tensor) -> torch.Tensor:
        """M x in float64."""
        return self._multiply(self._csr(torch.float64), x)

    def _csr(self, kind: torch.dtype) -> torch.Tensor:
        n = len(self._indptr) - 1
        with warnings.catch_warnings():
            for message in (
                "Sparse CSR tensor support is in beta",
                "Sparse invariant checks are",
            ):
                warnings.filterwarnings("ignore", message=message)
            return torch.sparse_csr_tensor(
                self._indptr,
                self._indices,
                self._weights.to(kind),
                size=(n, n),
                check_invariants=False,
            )

    def _multiply(self, matrix: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        scale = self._scale.to(x.dtype)
        diagonal = self._diagonal.to(x.dtype)
        return scale * (matrix @ (scale * x)) + diagonal * x

    def put(
        self,
        array: NDArray[np.generic] | torch.Tensor,
        kind: torch.dtype | None = None,
    ) -> torch.Tensor:
        """Move to the device, as `kind`; without one, only tensors change, to float64."""
        if isinstance(array, torch.Tensor):
            return array.to(kind or torch.float64)
        tensor = torch.from_numpy(np.ascontiguousarray(array))
        return tensor.to(device=self._device, dtype=kind)

    def get(self, tensor: torch.Tensor) -> Float64Array:
        return np.asarray(tensor.double().cpu().numpy())

    def take(self, tensor: torch.Tensor) -> FloatArray:
        """Move to the host, in the precision of the solve."""
        return np.asarray(tensor.to(self._kind).cpu().numpy())
