"""The same Lanczos on a torch device: cuSPARSE for the product, full-precision matrix products.

Small matrices stay in float64 on the host; only they cross the bus in each step.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from leporid.errors import ConfigError, MissingExtraError
from leporid.graph.gpu import tensors_on
from leporid.graph.types import KnnGraph
from leporid.spectral.laplacian import LaplacianOperator
from leporid.spectral.solvers import Solution, ritz

if TYPE_CHECKING:
    import torch

__all__ = ["TorchEngine", "full_precision", "resolve_device"]

WIDTH = 32
"""Columns of a block: a device is fed better by more than the 16 of the CPU."""


def resolve_device(device: str) -> str:
    """'cpu' or 'cuda' for the usual `device=` argument.

    'auto' imports torch only where it is loaded already or an NVIDIA driver is present.
    """
    if device not in ("auto", "cpu", "cuda"):
        raise ConfigError(f"device must be 'auto', 'cpu' or 'cuda', not {device!r}")
    if device == "cpu":
        return "cpu"
    installed = "torch" in sys.modules or importlib.util.find_spec("torch") is not None
    if device == "auto":
        driver = "torch" in sys.modules or os.path.exists("/dev/nvidiactl")
        if not (installed and driver):
            return "cpu"
    elif not installed:
        raise MissingExtraError("device='cuda'", "torch")
    import torch

    if torch.cuda.is_available():
        return "cuda"
    if device == "cuda":
        raise ConfigError("device='cuda' was asked for, but torch sees no GPU: use device='cpu'")
    return "cpu"


@contextmanager
def full_precision() -> Iterator[None]:
    """Matrix products in true float32 (no TF32); the caller's setting comes back afterwards."""
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.inference_mode():
            yield
    finally:
        torch.set_float32_matmul_precision(before)


class TorchEngine:
    """The basis and the newest block of a Lanczos run on a torch device (any device)."""

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
        """float64[n, width] becomes the newest block."""
        self._block = self._put(block, self._kind)

    def multiply(self) -> None:
        """block = M block."""
        self._block = self._multiply(self._matrix, self._block)

    def project(self, factor: NDArray[np.float64]) -> NDArray[np.float64]:
        """block = block factor; returns float64[used, width] = basis^T block."""
        self._block = self._block @ self._put(factor, self._kind)
        return self._get(self._rows[: self.used] @ self._block)

    def subtract(self, coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
        """block = block - basis coefficients; returns float64[width, width] = block^T block."""
        small = self._put(coefficients, self._kind)
        self._block = self._block - self._rows[: self.used].T @ small
        return self._get(self._block.T @ self._block)

    def append(self, factor: NDArray[np.float64]) -> None:
        """block = block factor, and its columns join the basis."""
        self._block = self._block @ self._put(factor, self._kind)
        self._rows[self.used : self.used + WIDTH] = self._block.T
        self.used += WIDTH

    def replace(
        self, factor: NDArray[np.float64], weak: NDArray[np.bool_], fresh: NDArray[np.float64]
    ) -> None:
        """block = block factor, then `fresh` float64[n, weak.sum()] in place of weak columns."""
        self._block = self._block @ self._put(factor, self._kind)
        self._block[:, self._put(np.flatnonzero(weak), None)] = self._put(fresh, self._kind)

    def rotate(self, rotation: NDArray[np.float64]) -> None:
        """The basis becomes basis rotation, rotation float64[used, kept]."""
        kept = rotation.shape[1]
        small = self._put(np.ascontiguousarray(rotation.T), self._kind)
        self._rows[:kept] = small @ self._rows[: self.used]
        self.used = kept

    def vectors(self, count: int) -> NDArray[Any]:
        """float[n, count]: the first columns of the basis."""
        return np.asarray(self._rows[:count].T.contiguous().cpu().numpy())

    def finish(self, solution: Solution) -> Solution:
        """`solvers.finish` without leaving the device: only d x d matrices do."""
        import torch

        vectors = self._put(solution.vectors, torch.float64)
        image = self._multiply(self._csr(torch.float64), vectors)
        values, rotation = ritz(self._get(vectors.T @ image), self._get(vectors.T @ vectors))
        turn = self._put(rotation, None)
        vectors = vectors @ turn
        residuals = (image @ turn - vectors * self._put(values, None)).norm(dim=0)
        return replace(
            solution,
            values=values,
            vectors=self._get(vectors),
            residuals=self._get(residuals),
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
