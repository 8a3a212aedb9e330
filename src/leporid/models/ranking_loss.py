"""The pairwise loss several models share."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

__all__ = ["bpr_loss", "row_penalty"]


def bpr_loss(positive: Tensor, negative: Tensor) -> Tensor:
    """Mean of -ln sigmoid(positive - negative); shapes [B] or [B, 1] against [B, k]."""
    if positive.ndim < negative.ndim:
        positive = positive[:, None]
    return functional.softplus(negative - positive).mean()


def row_penalty(*rows: Tensor) -> Tensor:
    """Half the squared length of the vectors an example uses, averaged over the batch.

    rows: [B, D] or [B, k, D], the vectors of the batch before any layer.
    """
    total = rows[0].new_zeros(())
    for row in rows:
        flat = row.reshape(-1)
        total = total + flat.dot(flat)
    return total / (2 * len(rows[0]))
