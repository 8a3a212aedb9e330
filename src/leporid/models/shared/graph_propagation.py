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

_EDGES = 2**19
"""Edges whose vectors are gathered at once on an accelerator: bounds memory."""


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
        self.register_buffer("head", _int32(head), persistent=False)

    @property
    def n_edges(self) -> int:
        """Directed edges: twice the interactions."""
        return len(self.tail)

    def propagate(self, weight: Tensor, x: Tensor) -> Tensor:
        """out[h, k] = sum over edges e = (h, t) of weight[k, e] * x[t, k].

        weight: float32[K, n_edges]; x and the result: float32[n, K * d].
        """
        return _apply(_EdgeSum, weight, x, self.indptr, self.head, self.tail, self.mirror)

    def affinity(self, a: Tensor, b: Tensor, intents: int) -> Tensor:
        """float32[K, n_edges]: the dot product of chunk k of a[head] and of b[tail]."""
        return _apply(_EdgeDot, a, b, intents, self.indptr, self.head, self.tail, self.mirror)

    def laplacian(self, weight: Tensor) -> Tensor:
        """float32[K, n_edges]: weight / sqrt(D_k(head) D_k(tail)), D_k the sums over a head."""
        return _apply(_Laplacian, weight, self.indptr, self.head, self.tail, self.mirror)


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
        values = values.contiguous() if order is None else values.index_select(0, order)
        products.append(_product(csr_tensor(indptr, tail, values), part))
    return torch.cat(products, dim=1)


def _chunked_dots(
    a: Tensor, b: Tensor, intents: int, indptr: Tensor, head: Tensor, tail: Tensor
) -> Tensor:
    """`EdgeProducts.affinity` without an array of size [n_edges, d]."""
    a, b = a.float(), b.float()
    if a.device.type == "cpu":
        return _sampled_dots(a, b, intents, indptr, tail)
    # The sampled product of CUDA is far slower than plain gathers.
    return _gathered_dots(a, b, intents, head, tail)


def _gathered_dots(a: Tensor, b: Tensor, intents: int, head: Tensor, tail: Tensor) -> Tensor:
    out = torch.empty(intents, len(tail), device=a.device)
    for start in range(0, len(tail), _EDGES):
        part = slice(start, start + _EDGES)
        product = a.index_select(0, head[part]) * b.index_select(0, tail[part])
        out[:, part] = product.view(len(product), intents, -1).sum(dim=2).T
    return out


def _sampled_dots(a: Tensor, b: Tensor, intents: int, indptr: Tensor, tail: Tensor) -> Tensor:
    pattern = csr_tensor(indptr, tail, torch.zeros(len(tail), device=a.device))
    with torch.autocast(a.device.type, enabled=False):
        return torch.stack(
            [
                torch.sparse.sampled_addmm(
                    pattern, u.contiguous(), v.contiguous().T, beta=0.0
                ).values()
                for u, v in zip(a.chunk(intents, dim=1), b.chunk(intents, dim=1), strict=True)
            ]
        )


def _row_sums(weight: Tensor, indptr: Tensor, tail: Tensor, order: Tensor | None) -> Tensor:
    """float32[K, n]: sums over the edges of each head, or with `order` (mirror) of each tail."""
    ones = weight.new_ones(len(indptr) - 1, weight.shape[0])
    return _chunked_product(weight, ones, indptr, tail, order).T


class _Laplacian(torch.autograd.Function):
    """l_e = w_e r_h r_t with r = D^-1/2.

    Backward of g: g_e r_h r_t, and through D of the head -1/2 r^2 (sums of g_e l_e over the
    edges that leave it and over those that enter it).
    """

    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, indptr: Tensor, head: Tensor, tail: Tensor, mirror: Tensor
    ) -> Tensor:
        degree = _row_sums(weight, indptr, tail, None)
        root = degree.clamp(min=1e-12).rsqrt()
        scale = root.index_select(1, head).mul_(root.index_select(1, tail))
        ctx.save_for_backward(weight, root, scale, indptr, head, tail, mirror)
        return weight * scale

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None, None]:
        weight, root, scale, indptr, head, tail, mirror = ctx.saved_tensors
        result = grads[0] * scale
        flow = result * weight
        sums = _row_sums(flow, indptr, tail, None) + _row_sums(flow, indptr, tail, mirror)
        through = sums.mul_(root).mul_(root).mul_(-0.5)
        return result.add_(through.index_select(1, head)), None, None, None, None


class _EdgeSum(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        weight: Tensor,
        x: Tensor,
        indptr: Tensor,
        head: Tensor,
        tail: Tensor,
        mirror: Tensor,
    ) -> Tensor:
        ctx.save_for_backward(weight, x, indptr, head, tail, mirror)
        return _chunked_product(weight, x, indptr, tail, None)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        weight, x, indptr, head, tail, mirror = ctx.saved_tensors
        grad_weight = grad_x = None
        if ctx.needs_input_grad[0]:
            grad_weight = _chunked_dots(grads[0], x, len(weight), indptr, head, tail)
        if ctx.needs_input_grad[1]:
            grad_x = _chunked_product(weight, grads[0], indptr, tail, mirror)
        return grad_weight, grad_x, None, None, None, None


class _EdgeDot(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        a: Tensor,
        b: Tensor,
        intents: int,
        indptr: Tensor,
        head: Tensor,
        tail: Tensor,
        mirror: Tensor,
    ) -> Tensor:
        ctx.save_for_backward(a, b, indptr, tail, mirror)
        return _chunked_dots(a, b, intents, indptr, head, tail)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        a, b, indptr, tail, mirror = ctx.saved_tensors
        grad_a = grad_b = None
        if ctx.needs_input_grad[0]:
            grad_a = _chunked_product(grads[0], b, indptr, tail, None)
        if ctx.needs_input_grad[1]:
            grad_b = _chunked_product(grads[0], a, indptr, tail, mirror)
        return grad_a, grad_b, None, None, None, None, None
