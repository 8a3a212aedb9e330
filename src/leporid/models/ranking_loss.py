"""The pairwise loss several models share, with its gradient written down.

On a CPU a step of these models is dispatch and memory traffic. The gradients are short, so they
are given in closed form: no intermediate of the chain rule is stored, and rows go back into a
table by one `index_add`.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["bpr_loss", "row_penalty", "table_bpr_loss"]


def bpr_loss(positive: Tensor, negative: Tensor) -> Tensor:
    """Mean of -ln sigmoid(positive - negative); shapes that broadcast."""
    return functional.softplus(negative - positive).mean()


def table_bpr_loss(
    left: Tensor, right: Tensor, users: Tensor, positives: Tensor, negatives: Tensor
) -> Tensor:
    """`bpr_loss` of dot products between rows: left[u] . right[i] against left[u] . right[j].

    left: [n, D]; right: [m, D]; users, positives: int64[B]; negatives: int64[B, k].
    """
    return cast(Tensor, _apply(_TableBpr, left, right, users, positives, negatives))


def row_penalty(table: Tensor, rows: Tensor, batch: int) -> Tensor:
    """Half the squared length of the named rows (repeated as they are), divided by `batch`."""
    return cast(Tensor, _apply(_RowPenalty, table, rows.reshape(-1), batch))


def _apply(function: Any, *arguments: Any) -> Any:
    return function.apply(*arguments)


class _TableBpr(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, left: Tensor, right: Tensor, users: Tensor, positives: Tensor, negatives: Tensor
    ) -> Tensor:
        user = left.index_select(0, users).float()
        positive = right.index_select(0, positives).float()
        negative = right.index_select(0, negatives.reshape(-1)).view(*negatives.shape, -1).float()
        # [B, k, D]: what the user prefers in i over j.
        difference = negative.neg_().add_(positive[:, None])
        margin = (difference * user[:, None]).sum(-1)
        ctx.save_for_backward(users, positives, negatives, user, difference, margin)
        ctx.rows, ctx.dtypes = (len(left), len(right)), (left.dtype, right.dtype)
        return functional.softplus(-margin).mean()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        users, positives, negatives, user, difference, margin = ctx.saved_tensors
        # d/dx of -ln sigmoid(x) is -sigmoid(-x).
        slope = margin.neg().sigmoid_().mul_(-grads[0] / margin.numel())[..., None]
        to_user = (slope * difference).sum(1)
        to_item = slope * user[:, None]
        dim = user.shape[1]
        left = user.new_zeros(ctx.rows[0], dim).index_add_(0, users, to_user)
        right = user.new_zeros(ctx.rows[1], dim).index_add_(0, positives, to_item.sum(1))
        right.index_add_(0, negatives.reshape(-1), to_item.view(-1, dim), alpha=-1)
        return left.to(ctx.dtypes[0]), right.to(ctx.dtypes[1]), None, None, None


class _RowPenalty(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, rows: Tensor, batch: int) -> Tensor:
        # How often each row occurs: the sum runs over the table, not over the batch.
        ones = table.new_ones(()).expand(len(rows))
        weight = table.new_zeros(len(table)).index_add_(0, rows, ones).div_(batch)
        ctx.save_for_backward(table, weight)
        return torch.linalg.vecdot(table, table).dot(weight) / 2

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        table, weight = ctx.saved_tensors
        return table * (weight * grads[0])[:, None], None, None
