"""The pairwise loss several models share, with its gradient written down.

On a CPU a step of these models is dispatch and memory traffic. The gradients are short, so they
are given in closed form: no intermediate of the chain rule is stored, and rows go back into a
table by one `index_add`. On a CPU a batch of 2,048 examples is so small that a dozen torch calls
over it cost more than the arithmetic: there one compiled pass reads three rows per example, and
adds to their gradients while they are in the cache. Examples come in order and one thread adds
them up, so the bits never depend on threads.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from leporid.kernel import kernel


def apply(function: type[torch.autograd.Function], *arguments: Any) -> Tensor:
    """What an autograd function returns (torch's `apply` carries no types)."""
    return cast(Tensor, function.apply(*arguments))  # type: ignore[no-untyped-call]


def bpr_loss(positive: Tensor, negative: Tensor) -> Tensor:
    """Mean of -ln sigmoid(positive - negative); shapes that broadcast."""
    return functional.softplus(negative - positive).mean()


def table_bpr_loss(
    left: Tensor,
    right: Tensor,
    users: Tensor,
    positives: Tensor,
    negatives: Tensor,
    penalty: float = 0.0,
) -> Tensor:
    """`bpr_loss` of dot products between rows: left[u] . right[i] against left[u] . right[j].

    left: [n, D]; right: [m, D]; users, positives: int64[B]; negatives: int64[B, k]. `penalty`
    times half the squared length of the rows an example uses is added.
    """
    return apply(_TableBpr, left, right, penalty, users, positives, negatives)


def node_bpr_loss(nodes: Tensor, users: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
    """The same with users and items in one table, which then gets one gradient."""
    return apply(_TableBpr, nodes, None, 0.0, users, positives, negatives)


def row_penalty(table: Tensor, rows: Tensor, batch: int) -> Tensor:
    """Half the squared length of the named rows (repeated as they are), divided by `batch`."""
    return apply(_RowPenalty, table, rows.reshape(-1), batch)


class _TableBpr(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, left: Tensor, right: Tensor | None, penalty: float, *rows: Tensor
    ) -> Tensor:
        users, positives, negatives = rows
        items = left if right is None else right
        ctx.ready = _compiled(left) and _compiled(items)
        if ctx.ready:
            tables = [left] if right is None else [left, right]
            ctx.grads, loss = _rows_at_once(tables, rows, penalty)
            return loss
        user = left.index_select(0, users)
        positive = items.index_select(0, positives)
        negative = items.index_select(0, negatives.reshape(-1)).view(*negatives.shape, -1)
        # [B, k, D]: what the user prefers in i over j.
        difference = positive[:, None] - negative
        margin = (difference * user[:, None]).sum(-1)
        loss = functional.softplus(-margin).mean()
        kept = [users, positives, negatives, user, difference, margin]
        if penalty:
            flat = (user.view(-1), positive.view(-1), negative.view(-1))
            loss += torch.stack([row.dot(row) for row in flat]).sum() * (penalty / 2 / len(user))
            kept += [positive, negative]
        ctx.save_for_backward(*kept)
        ctx.shapes = left.shape, None if right is None else right.shape
        ctx.penalty = penalty / len(user)
        return loss

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor | None, None, None, None, None]:
        if ctx.ready:
            # Handed over, not copied: a graph is walked once.
            tables, ctx.grads = ctx.grads, None
            factor = grads[0].item()
            if factor != 1:
                tables = [grad.mul_(factor) for grad in tables]
            return tables[0], tables[1] if len(tables) > 1 else None, None, None, None, None
        users, positives, negatives, user, difference, margin, *rows = ctx.saved_tensors
        # d/dx of -ln sigmoid(x) is -sigmoid(-x).
        slope = margin.neg().sigmoid_().mul_(-grads[0] / margin.numel())[..., None]
        to_user = (slope * difference).sum(1)
        to_negative = user[:, None] * -slope
        to_positive = to_negative.sum(1).neg_()
        if rows:
            weight = ctx.penalty * grads[0]
            to_user.addcmul_(user, weight)
            to_positive.addcmul_(rows[0], weight)
            to_negative.addcmul_(rows[1], weight)
        left = user.new_zeros(ctx.shapes[0]).index_add_(0, users, to_user)
        right = None if ctx.shapes[1] is None else user.new_zeros(ctx.shapes[1])
        items = left if right is None else right
        items.index_add_(0, positives, to_positive)
        items.index_add_(0, negatives.reshape(-1), to_negative.view(-1, user.shape[1]))
        return left, right, None, None, None, None


def _compiled(table: Tensor) -> bool:
    """Whether the kernel can read a table: on the CPU, in float32, rows one after another."""
    plain = table.device.type == "cpu" and table.dtype == torch.float32 and table.is_contiguous()
    return plain and not torch.compiler.is_compiling()


def _rows_at_once(
    tables: list[Tensor], rows: tuple[Tensor, ...], penalty: float
) -> tuple[list[Tensor], Tensor]:
    """Gradients of the tables, for an upstream gradient of 1, and the loss."""
    grads = [torch.zeros_like(table) for table in tables]
    arrays = [table.detach().numpy() for table in tables]
    sums = [grad.numpy() for grad in grads]
    users, positives, negatives = (part.detach().contiguous().numpy() for part in rows)
    both = arrays[0], arrays[-1], users, positives, negatives
    return grads, tables[0].new_tensor(_bpr_rows(*both, penalty, sums[0], sums[-1]))


@kernel(fastmath={"contract", "reassoc"})
def _bpr_rows(
    left: Any, right: Any, users: Any, positives: Any, negatives: Any, penalty: float,
    to_left: Any, to_right: Any,
) -> Any:  # fmt: skip
    """The loss; its gradients are added to `to_left` and `to_right`.

    left, to_left: float32[n, D]; right, to_right: float32[m, D], which may be the same arrays;
    users, positives: int64[B]; negatives: int64[B, k]. See `table_bpr_loss` for the formula.
    """
    batch, k = negatives.shape
    dim = left.shape[1]
    share = 1.0 / (batch * k)
    weight = np.float32(penalty / batch)
    losses: Any = 0.0
    lengths: Any = 0.0
    for b in range(batch):
        user, positive = left[users[b]], right[positives[b]]
        to_user, to_positive = to_left[users[b]], to_right[positives[b]]
        for j in range(k):
            negative, to_negative = right[negatives[b, j]], to_right[negatives[b, j]]
            margin: Any = np.float32(0)
            for d in range(dim):
                margin += user[d] * (positive[d] - negative[d])
            # -ln sigmoid(x), without overflow on either side.
            losses += max(-margin, 0.0) + math.log1p(math.exp(-abs(margin)))
            slope = np.float32(-share / (1.0 + math.exp(margin)))
            for d in range(dim):
                to_user[d] += slope * (positive[d] - negative[d])
            for d in range(dim):
                to_positive[d] += slope * user[d]
            for d in range(dim):
                to_negative[d] -= slope * user[d]
            if weight:
                length: Any = np.float32(0)
                for d in range(dim):
                    length += negative[d] * negative[d]
                    to_negative[d] += weight * negative[d]
                lengths += length
        if weight:
            length = np.float32(0)
            for d in range(dim):
                length += user[d] * user[d]
                to_user[d] += weight * user[d]
            for d in range(dim):
                length += positive[d] * positive[d]
                to_positive[d] += weight * positive[d]
            lengths += length
    return losses * share + 0.5 * weight * lengths


class _RowPenalty(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, rows: Tensor, batch: int) -> Tensor:
        # How often each row occurs: the sum runs over the table, not over the batch.
        ones = table.new_ones(()).expand(len(rows))
        weight = table.new_zeros(len(table)).index_add_(0, rows, ones).div_(batch)
        ctx.save_for_backward(table, weight)
        lengths: Tensor = torch.linalg.vecdot(table, table)
        return lengths.dot(weight) / 2

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        table, weight = ctx.saved_tensors
        return table * (weight * grads[0])[:, None], None, None
