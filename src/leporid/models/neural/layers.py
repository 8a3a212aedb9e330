"""Layers that several networks share: dropout, causal attention, and sparse products.

On a CPU torch's own dropout is slow: here a number of 64 bits decides four entries.
"""

import warnings
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

_LANES = 4
"""Entries of a dropout that one random number decides."""
_HALF = 2**15
"""Half of the number of values of 16 bits."""


def apply(function: type[torch.autograd.Function], *arguments: object) -> Tensor:
    """Return what an autograd function returns (torch's `apply` carries no types)."""
    result: Tensor = function.apply(*arguments)  # type: ignore[no-untyped-call]
    return result


def csr_tensor(
    indptr: Tensor,
    indices: Tensor,
    values: Tensor,
    columns: int,
) -> Tensor:
    """Return a CSR matrix that shares its arguments' memory."""
    with warnings.catch_warnings():
        # torch announces once a process that its CSR tensors are in beta.
        warnings.filterwarnings("ignore", message=".*Sparse CSR tensor support.*")
        return torch.sparse_csr_tensor(
            indptr,
            indices,
            values,
            (len(indptr) - 1, columns),
            check_invariants=False,
        )


class SparseProduct(torch.autograd.Function):
    """A x with a constant A, given with its transpose, in float32 also under mixed precision."""

    @staticmethod
    def forward(
        ctx: Any,
        matrix: Tensor,
        transposed: Tensor,
        x: Tensor,
    ) -> Tensor:
        ctx.transposed = transposed
        return sparse_product(matrix, x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, None, Tensor]:
        return None, None, sparse_product(ctx.transposed, grads[0])


def sparse_product(matrix: Tensor, x: Tensor) -> Tensor:
    """Multiply in float32 also under mixed precision."""
    with torch.autocast(x.device.type, enabled=False):
        return matrix @ x.float().contiguous()


def dropout(
    x: Tensor,
    share: float,
    training: bool = True,
) -> Tensor:
    """Compute `functional.dropout`: a share of the entries zero, the others larger by as much."""
    if x.device.type != "cpu" or not training or not share:
        return functional.dropout(x, share, training)
    size = x.numel()
    words = torch.empty(-(-size // _LANES), dtype=torch.int64)
    words.random_(-(2**63), None)
    draws = words.view(torch.int16)[:size].view(x.shape)
    lowest_kept = min(round(2 * _HALF * share) - _HALF, _HALF - 1)
    keep = (draws >= lowest_kept).to(x.dtype)
    return x * keep.mul_(1 / (1 - share))


def causal_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    share: float,
    training: bool = True,
) -> Tensor:
    """Compute `scaled_dot_product_attention`, whose dropout on a CPU is slow: [B, heads, n, d]."""
    if query.device.type != "cpu" or not training or not share:
        return functional.scaled_dot_product_attention(
            query,
            key,
            value,
            dropout_p=share if training else 0.0,
            is_causal=True,
        )
    n = query.shape[-2]
    later = torch.full((n, n), -torch.inf, dtype=query.dtype)
    scaled = query * query.shape[-1] ** -0.5
    scores = scaled @ key.mT + later.triu_(1)
    return dropout(scores.softmax(dim=-1), share) @ value


def with_constant(vectors: Tensor) -> Tensor:
    """Append a column of ones: the last entry of an item's vector is then its bias."""
    return functional.pad(vectors, (0, 1), value=1.0)
