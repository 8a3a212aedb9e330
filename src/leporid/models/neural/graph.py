"""Graph models: their base class, and products with the user-item graph.

The nodes of the graph are all users, then all items. `A = D^-1/2 [[0, R], [R^T, 0]] D^-1/2` is
symmetric, so the gradient of `A x` is `A` times the gradient.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from leporid.foundation import setting
from leporid.models.closed_form.products import normalised
from leporid.models.neural.base import NeuralRecommender
from leporid.models.neural.bpr_loss import row_penalty, table_bpr_loss
from leporid.models.neural.layers import (
    SparseProduct,
    apply,
    csr_tensor,
    sparse_product,
)
from leporid.models.neural.sampler import Batch, Sampling
from leporid.models.neural.settings import TrainingConfig

_EDGES = 2**19
"""Edges whose vectors are gathered at once on an accelerator: bounds memory."""


@dataclass(frozen=True, kw_only=True)
class GraphConfig(TrainingConfig):
    batch_size: int = setting(2048, at_least=1)
    steps: int = setting(3000, at_least=1)
    lr: float = setting(5e-3, above=0)
    regularization: float = setting(1e-4, at_least=0)
    """lambda, on the layer-0 vectors of the batch."""


class GraphRecommender(NeuralRecommender):
    """Trained by BPR on the final vectors of users, then items, that the network returns."""

    config: GraphConfig
    supports_cuda_graph = True

    def sampling(self) -> Sampling:
        return Sampling("pairs", negatives=1)

    def loss(self, batch: Batch) -> Tensor:
        """Return BPR on the final vectors, L2 on those of layer 0, and what a model adds."""
        net = self.net
        first_item = self.train.n_users
        vectors: Tensor = net()
        loss = table_bpr_loss(
            vectors,
            vectors,
            batch.users,
            batch.positives + first_item,
            batch.negatives + first_item,
        )
        if self.config.regularization:
            items = torch.cat([batch.positives, batch.negatives.reshape(-1)])
            penalty = row_penalty(net.users.weight, batch.users, len(batch))
            penalty = penalty + row_penalty(net.items.weight, items, len(batch))
            loss = loss + self.config.regularization * penalty
        extra = self.vector_loss(vectors)
        return loss if extra is None else loss + extra

    def vector_loss(self, vectors: Tensor) -> Tensor | None:
        """Return a further term on the final vectors of users, then items."""
        return None

    def prepare(self) -> Tensor:
        """Return the final vectors of all users, then all items."""
        vectors: Tensor = self.net()
        return vectors

    def user_table(self) -> Tensor:
        return self.prepared()[: self.train.n_users]

    def encode(self, rows: Tensor | None, recent: Tensor | None) -> Tensor:
        assert rows is not None
        return rows

    def item_outputs(self) -> Tensor:
        return self.prepared()[self.train.n_users :]


def bipartite(train: sparse.csr_array) -> sparse.csr_array:
    """Return [[0, R], [R^T, 0]], float32[n_users + n_items, n_users + n_items], indices sorted."""
    blocks = sparse.block_array([[None, train], [train.T, None]])
    graph = blocks.tocsr().astype(np.float32)
    graph.sort_indices()
    return sparse.csr_array(graph)


class Propagation(nn.Module):
    """`A x` for the normalised user-item graph of the training data."""

    adjacency: Tensor

    def __init__(self, train: sparse.csr_array) -> None:
        super().__init__()
        graph = normalised(bipartite(train))
        adjacency = csr_tensor(
            _int32(graph.indptr),
            _int32(graph.indices),
            torch.from_numpy(graph.data),
            columns=graph.shape[1],
        )
        self.register_buffer("adjacency", adjacency, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return A x, float32[n_users + n_items, c] like x."""
        return apply(SparseProduct, self.adjacency, self.adjacency, x)


class EdgeProducts(nn.Module):
    """Products along the edges of the user-item graph, K weights on every directed edge.

    An edge goes from its head (the row) to its tail (the column); both directions of an interaction
    are edges. Columns of node matrices are K chunks, one per intent.
    """

    indptr: Tensor
    tail: Tensor
    mirror: Tensor
    head: Tensor

    def __init__(self, train: sparse.csr_array) -> None:
        super().__init__()
        graph = bipartite(train)
        nodes = np.arange(graph.shape[0])
        head = np.repeat(nodes, np.diff(graph.indptr))
        # Edges are sorted by (head, tail); sorting by (tail, head) lists their mirror images.
        mirror = np.lexsort((head, graph.indices))
        self.register_buffer("indptr", _int32(graph.indptr), persistent=False)
        self.register_buffer("tail", _int32(graph.indices), persistent=False)
        self.register_buffer("mirror", torch.from_numpy(mirror), persistent=False)
        self.register_buffer("head", _int32(head), persistent=False)

    @property
    def n_edges(self) -> int:
        return len(self.tail)

    def propagate(self, weight: Tensor, x: Tensor) -> Tensor:
        """Return out[h, k] = sum over e = (h, t) of weight[k, e] x[t, k].

        weight: [K, n_edges]; x: [n, K d].
        """
        return apply(_EdgeSum, weight, x, self)

    def affinity(
        self,
        a: Tensor,
        b: Tensor,
        intents: int,
    ) -> Tensor:
        """Return float32[K, n_edges], the dot product of chunk k of a[head] and of b[tail]."""
        return apply(
            _EdgeDot,
            a,
            b,
            intents,
            self,
        )

    def laplacian(self, weight: Tensor) -> Tensor:
        """Return weight / sqrt(D_k(head) D_k(tail)), float32[K, n_edges].

        D_k are the sums over a head.
        """
        return apply(_Laplacian, weight, self)


def _int32(array: NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.asarray(array, dtype=np.int32))


def _square(edges: EdgeProducts, values: Tensor) -> Tensor:
    """Return the square matrix of the graph with these values on its edges."""
    n_nodes = len(edges.indptr) - 1
    return csr_tensor(
        edges.indptr,
        edges.tail,
        values,
        columns=n_nodes,
    )


def _chunked_product(
    weight: Tensor,
    x: Tensor,
    edges: EdgeProducts,
    mirrored: bool = False,
) -> Tensor:
    """Compute `EdgeProducts.propagate`, or its transpose if `mirrored`."""
    products = []
    chunks = x.chunk(weight.shape[0], dim=1)
    for values, chunk in zip(weight, chunks, strict=True):
        if mirrored:
            values = values.index_select(0, edges.mirror)
        products.append(sparse_product(_square(edges, values.contiguous()), chunk))
    return torch.cat(products, dim=1)


def _chunked_dots(
    a: Tensor,
    b: Tensor,
    intents: int,
    edges: EdgeProducts,
) -> Tensor:
    """Compute `EdgeProducts.affinity` without an array of size [n_edges, d]."""
    a = a.float()
    b = b.float()
    if a.device.type != "cpu":
        # The sampled product is far slower than plain gathers there.
        return _gathered_dots(a, b, intents, edges)
    pattern = _square(edges, torch.zeros(len(edges.tail)))
    products = []
    with torch.autocast("cpu", enabled=False):
        for left, right in zip(
            a.chunk(intents, dim=1),
            b.chunk(intents, dim=1),
            strict=True,
        ):
            product = torch.sparse.sampled_addmm(
                pattern,
                left.contiguous(),
                right.contiguous().T,
                beta=0.0,
            )
            products.append(product.values())
        return torch.stack(products)


def _gathered_dots(
    a: Tensor,
    b: Tensor,
    intents: int,
    edges: EdgeProducts,
) -> Tensor:
    """Compute `EdgeProducts.affinity` for `_EDGES` edges at a time."""
    dots = torch.empty(intents, len(edges.tail), device=a.device)
    for first in range(0, len(edges.tail), _EDGES):
        part = slice(first, first + _EDGES)
        heads = a.index_select(0, edges.head[part])
        tails = b.index_select(0, edges.tail[part])
        products = (heads * tails).view(len(heads), intents, -1)
        dots[:, part] = products.sum(dim=2).T
    return dots


def _row_sums(
    weight: Tensor,
    edges: EdgeProducts,
    mirrored: bool = False,
) -> Tensor:
    """Return float32[K, n], sums over the edges of each head, or of each tail if `mirrored`."""
    ones = weight.new_ones(len(edges.indptr) - 1, weight.shape[0])
    return _chunked_product(weight, ones, edges, mirrored).T


class _Laplacian(torch.autograd.Function):
    """Implement `EdgeProducts.laplacian`: l_e = w_e r_h r_t with r = D^-1/2.

    The gradient through D of a head is -1/2 r^2 times the sums of g_e l_e over all its edges.
    """

    @staticmethod
    def forward(ctx: Any, weight: Tensor, edges: EdgeProducts) -> Tensor:
        root = _row_sums(weight, edges).clamp(min=1e-12).rsqrt()
        scale = root.index_select(1, edges.head)
        scale.mul_(root.index_select(1, edges.tail))
        ctx.save_for_backward(weight, root, scale)
        ctx.edges = edges
        return weight * scale

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        weight, root, scale = ctx.saved_tensors
        result = grads[0] * scale
        flow = result * weight
        sums = _row_sums(flow, ctx.edges)
        sums = sums + _row_sums(flow, ctx.edges, mirrored=True)
        through = sums.mul_(root).mul_(root).mul_(-0.5)
        return result.add_(through.index_select(1, ctx.edges.head)), None


class _EdgeSum(torch.autograd.Function):
    """Implement `EdgeProducts.propagate` with its gradients."""

    @staticmethod
    def forward(
        ctx: Any,
        weight: Tensor,
        x: Tensor,
        edges: EdgeProducts,
    ) -> Tensor:
        ctx.save_for_backward(weight, x)
        ctx.edges = edges
        return _chunked_product(weight, x, edges)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        weight, x = ctx.saved_tensors
        grad_weight = None
        grad_x = None
        if ctx.needs_input_grad[0]:
            grad_weight = _chunked_dots(grads[0], x, len(weight), ctx.edges)
        if ctx.needs_input_grad[1]:
            grad_x = _chunked_product(
                weight,
                grads[0],
                ctx.edges,
                mirrored=True,
            )
        return grad_weight, grad_x, None


class _EdgeDot(torch.autograd.Function):
    """Implement `EdgeProducts.affinity` with its gradients."""

    @staticmethod
    def forward(
        ctx: Any, a: Tensor, b: Tensor, intents: int, edges: EdgeProducts
    ) -> Tensor:
        ctx.save_for_backward(a, b)
        ctx.edges = edges
        return _chunked_dots(a, b, intents, edges)

    @staticmethod
    def backward(
        ctx: Any, *grads: Tensor
    ) -> tuple[Tensor | None, Tensor | None, None, None]:
        a, b = ctx.saved_tensors
        grad_a = None
        grad_b = None
        if ctx.needs_input_grad[0]:
            grad_a = _chunked_product(grads[0], b, ctx.edges)
        if ctx.needs_input_grad[1]:
            grad_b = _chunked_product(
                grads[0],
                a,
                ctx.edges,
                mirrored=True,
            )
        return grad_a, grad_b, None, None
