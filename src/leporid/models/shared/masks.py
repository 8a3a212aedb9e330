"""Dropout that does not wait for random numbers: on a CPU torch's own takes several times as long.

A number of 64 bits decides four entries, 16 bits each: a share is met to 1 / 65,536.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

_LANES = 4
_HALF = 2**15


def dropout(x: Tensor, share: float, training: bool = True) -> Tensor:
    """`functional.dropout`: a share of the entries zero, the others larger by as much."""
    if x.device.type != "cpu" or not training or not share:
        return functional.dropout(x, share, training)
    words = torch.empty(-(-x.numel() // _LANES), dtype=torch.int64).random_(-(2**63), None)
    draws = words.view(torch.int16)[: x.numel()].view(x.shape)
    keep = (draws >= min(round(2 * _HALF * share) - _HALF, _HALF - 1)).to(x.dtype)
    return x * keep.mul_(1 / (1 - share))


def causal_attention(
    query: Tensor, key: Tensor, value: Tensor, share: float, training: bool = True
) -> Tensor:
    """[B, heads, n, d]: each row attends to itself and those before, with dropout on the weights.

    `scaled_dot_product_attention`, whose dropout on a CPU takes longer than its products.
    """
    if query.device.type != "cpu" or not training or not share:
        drop = share if training else 0.0
        return functional.scaled_dot_product_attention(
            query, key, value, dropout_p=drop, is_causal=True
        )
    n = query.shape[-2]
    later = torch.full((n, n), -torch.inf, dtype=query.dtype).triu_(1)
    scores = (query * query.shape[-1] ** -0.5) @ key.mT + later
    return dropout(scores.softmax(dim=-1), share) @ value
