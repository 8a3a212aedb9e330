"""Products with the user-item graph: one constant CSR matrix, and edge-wise products for routing.

Nodes are all users, then all items. `A = D^-1/2 [[0, R], [R^T, 0]] D^-1/2` is symmetric, so the
gradient of `A x` is `A` times the gradient: no transposed copy, and nothing is rebuilt in a step.
"""

from __future__ import annotations

import warnings
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

__all__ = ["EdgeProducts", "Propagation", "bipartite", "normalized"]


def bipartite(train: sparse.csr_array) -> sparse.csr_array:
    """float32[n_users + n_items, n_users + n_items]: [[0, R], [R^T, 0]], indices sorted."""
    graph = sparse.block_array([[None, train], [train.T, None]]).tocsr().astype(np.float32)
    graph.sort_indices()
    return sparse.csr_array(graph)


def normalized(graph: sparse.csr_array) -> sparse.csr_array:
    """D^-1/2 W D^-1/2 of a symmetric matrix; a node without edges keeps its empty row."""
    degree = np.asarray(graph.sum(axis=1), dtype=np.float64).ravel()
    scale = np.zeros_like(degree)
    scale[degree > 0] = degree[degree > 0] ** -0.5
    rows = np.repeat(scale, np.diff(graph.indptr))
    values = (graph.data * rows * scale[graph.indices]).astype(np.float32)
    return sparse.csr_array((values, graph.indices, graph.indptr), shape=graph.shape)


class Propagation(nn.Module):
    """`A x` for the normalised user-item graph of the training data."""

    adjacency: Tensor

    def __init__(self, train: sparse.csr_array) -> None:
        super().__init__()
        graph = normalized(bipartite(train))
        tensor = csr_tensor(
            _int32(graph.indptr), _int32(graph.indices), torch.from_numpy(graph.data)
        )
        self.register_buffer("adjacency", tensor, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """float32[n_users + n_items, c] to the same shape."""
        return _apply(_SymmetricProduct, self.adjacency, x)


class EdgeProducts(nn.Module):
    """Products along the edges of the user-item graph, K weights on every directed edge.

    An edge e goes from its head (the row) to its tail (the column); both directions of an
    interaction are edges. Columns of node matrices are K chunks, one an intent.
    """

    indptr: Tensor
    tail: Tensor
    mirror: Tensor
    head: Tensor

    def __init__(self, train: sparse.csr_array) -> None:
        super().__init__()
        graph = bipartite(train)
        head = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
        # Edges are sorted by (head, tail); sorting by (tail, head) lists their mirror images.
        mirror = np.lexsort((head, graph.indices))
        self.register_buffer("indptr", _int32(graph.indptr), persistent=False)
        self.register_buffer("tail", _int32(graph.indices), persistent=False)
        self.register_buffer("mirror", torch.from_numpy(mirror), persistent=False)
        self.register_buffer("head", torch.from_numpy(head), persistent=False)

    @property
    def n_edges(self) -> int:
        """Directed edges: twice the interactions."""
        return len(self.tail)

    def propagate(self, weight: Tensor, x: Tensor) -> Tensor:
        """out[h, k] = sum over edges e = (h, t) of weight[k, e] * x[t, k].

        weight: float32[K, n_edges]; x and the result: float32[n, K * d].
        """
        return _apply(_EdgeSum, weight, x, self.indptr, self.tail, self.mirror)

    def affinity(self, a: Tensor, b: Tensor, intents: int) -> Tensor:
        """float32[K, n_edges]: the dot product of chunk k of a[head] and of b[tail]."""
        return _apply(_EdgeDot, a, b, intents, self.indptr, self.tail, self.mirror)

    def laplacian(self, weight: Tensor) -> Tensor:
        """float32[K, n_edges]: weight / sqrt(D_k(head) D_k(tail)), D_k the sums over a head."""
        ones = weight.new_ones(len(self.indptr) - 1, weight.shape[0])
        degree = self.propagate(weight, ones).T
        root = degree.clamp(min=1e-12).rsqrt()
        return weight * root[:, self.head] * root[:, self.tail]


def csr_tensor(indptr: Tensor, indices: Tensor, values: Tensor) -> Tensor:
    """A square CSR matrix that shares its arguments' memory."""
    n = len(indptr) - 1
    with warnings.catch_warnings():
        # torch announces once a process that its CSR tensors are in beta.
        warnings.filterwarnings("ignore", message=".*Sparse CSR tensor support.*")
        return torch.sparse_csr_tensor(indptr, indices, values, (n, n), check_invariants=False)


def _apply(function: Any, *arguments: Any) -> Tensor:
    """An autograd function's result (`apply` carries no types)."""
    return cast(Tensor, function.apply(*arguments))


def _int32(array: NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.asarray(array, dtype=np.int32))


class _SymmetricProduct(torch.autograd.Function):
    """A x with a constant symmetric A, in float32 also under mixed precision."""

    @staticmethod
    def forward(ctx: Any, adjacency: Tensor, x: Tensor) -> Tensor:
        ctx.adjacency = adjacency
        return _product(adjacency, x)

    @staticmethod
    def backward(ctx: Any, *grad: Tensor) -> tuple[None, Tensor]:
        return None, _product(ctx.adjacency, grad[0])


def _product(matrix: Tensor, x: Tensor) -> Tensor:
    with torch.autocast(x.device.type, enabled=False):
        return matrix @ x.float().contiguous()


def _chunked_product(
    weight: Tensor, x: Tensor, indptr: Tensor, tail: Tensor, order: Tensor | None
) -> Tensor:
    """`EdgeProducts.propagate`, or with `order` (mirror) its transpose."""
    parts = x.chunk(weight.shape[0], dim=1)
    products = []
    for values, part in zip(weight, parts, strict=True):
        values = values.contiguous() if order is None else values[order]
        products.append(_product(csr_tensor(indptr, tail, values), part))
    return torch.cat(products, dim=1)


def _chunked_dots(a: Tensor, b: Tensor, intents: int, indptr: Tensor, tail: Tensor) -> Tensor:
    """`EdgeProducts.affinity`: K sampled matrix products, never a [n_edges, d] array."""
    pattern = csr_tensor(indptr, tail, torch.zeros(len(tail), device=a.device))
    with torch.autocast(a.device.type, enabled=False):
        return torch.stack(
            [
                torch.sparse.sampled_addmm(
                    pattern, u.float().contiguous(), v.float().contiguous().T, beta=0.0
                ).values()
                for u, v in zip(a.chunk(intents, dim=1), b.chunk(intents, dim=1), strict=True)
            ]
        )


class _EdgeSum(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, x: Tensor, indptr: Tensor, tail: Tensor, mirror: Tensor
    ) -> Tensor:
        ctx.save_for_backward(weight, x, indptr, tail, mirror)
        return _chunked_product(weight, x, indptr, tail, None)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None, None, None]:
        weight, x, indptr, tail, mirror = ctx.saved_tensors
        grad_weight = grad_x = None
        if ctx.needs_input_grad[0]:
            grad_weight = _chunked_dots(grads[0], x, len(weight), indptr, tail)
        if ctx.needs_input_grad[1]:
            grad_x = _chunked_product(weight, grads[0], indptr, tail, mirror)
        return grad_weight, grad_x, None, None, None


class _EdgeDot(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, a: Tensor, b: Tensor, intents: int, indptr: Tensor, tail: Tensor, mirror: Tensor
    ) -> Tensor:
        ctx.save_for_backward(a, b, indptr, tail, mirror)
        return _chunked_dots(a, b, intents, indptr, tail)

    @staticmethod
    def backward(
        ctx: Any, *grads: Tensor
    ) -> tuple[Tensor | None, Tensor | None, None, None, None, None]:
        a, b, indptr, tail, mirror = ctx.saved_tensors
        grad_a = grad_b = None
        if ctx.needs_input_grad[0]:
            grad_a = _chunked_product(grads[0], b, indptr, tail, None)
        if ctx.needs_input_grad[1]:
            grad_b = _chunked_product(grads[0], a, indptr, tail, mirror)
        return grad_a, grad_b, None, None, None, None
