"""The BPR loss between rows of tables.

On a CPU it is one compiled pass that adds to the gradients of three rows while they are in the
cache, in one thread, so that the bits never depend on threads.
"""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from leporid.foundation import kernel
from leporid.models.neural.layers import apply
from leporid.models.neural.negatives import Ints


def table_bpr_loss(
    left: Tensor,
    right: Tensor,
    users: Tensor,
    positives: Tensor,
    negatives: Tensor,
    penalty: float = 0.0,
) -> Tensor:
    """Return BPR of dot products between rows: left[u] . right[i] against left[u] . right[j].

    left: [n, D]; right: [m, D]; users, positives: int64[B]; negatives: int64[B, k]. `penalty`
    times half the squared length of the rows an example uses is added.
    """
    if _can_compile(left) and _can_compile(right):
        return apply(
            _TableBpr,
            left,
            right,
            penalty,
            users,
            positives,
            negatives,
        )
    user = left.index_select(0, users)
    positive = right.index_select(0, positives)
    negative = right.index_select(0, negatives.reshape(-1))
    negative = negative.view(*negatives.shape, -1)
    # [B, k, D]: what the user prefers in i over j.
    preference = positive[:, None] - negative
    margin = (preference * user[:, None]).sum(-1)
    loss = functional.softplus(-margin).mean()
    if penalty:
        lengths = [
            user.square().sum(),
            positive.square().sum(),
            negative.square().sum(),
        ]
        weight = penalty / 2 / len(user)
        loss = loss + torch.stack(lengths).sum() * weight
    return loss


def row_penalty(
    table: Tensor,
    rows: Tensor,
    batch: int,
) -> Tensor:
    """Return half the squared length of rows (as often as they are named), divided by `batch`."""
    # How often each row occurs: the sum runs over the table, not over the batch.
    ones = table.new_ones(()).expand(rows.numel())
    count = table.new_zeros(len(table))
    count.index_add_(0, rows.reshape(-1), ones)
    weight = count.div_(batch)
    lengths = table.square().sum(dim=1)
    return (lengths * weight).sum() / 2


def _can_compile(table: Tensor) -> bool:
    on_cpu = table.device.type == "cpu"
    return on_cpu and table.dtype == torch.float32 and table.is_contiguous()


class _TableBpr(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        left: Tensor,
        right: Tensor,
        penalty: float,
        *rows: Tensor,
    ) -> Tensor:
        users, positives, negatives = (
            part.detach().contiguous().numpy() for part in rows
        )
        to_left = torch.zeros_like(left)
        # One table with users and items gets one gradient.
        to_right = to_left if left is right else torch.zeros_like(right)
        ctx.grads = (to_left, None if left is right else to_right)
        loss = _bpr_rows(
            left.detach().numpy(),
            right.detach().numpy(),
            users,
            positives,
            negatives,
            penalty,
            to_left.numpy(),
            to_right.numpy(),
        )
        return left.new_tensor(loss)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        # Handed over, not copied: a graph is walked once.
        to_left, to_right = ctx.grads
        ctx.grads = None
        factor = grads[0].item()
        if factor != 1:
            to_left.mul_(factor)
            if to_right is not None:
                to_right.mul_(factor)
        return to_left, to_right, None, None, None, None


@kernel(fastmath={"contract", "reassoc"})
def _add_penalty(
    row: NDArray[np.float32],
    to_row: NDArray[np.float32],
    weight: np.float32,
    length: np.float32,
) -> np.float32:
    """Add the gradient of the penalty on a row; return `length` plus its squared length."""
    for d in range(len(row)):
        length += row[d] * row[d]
        to_row[d] += weight * row[d]
    return length


@kernel(fastmath={"contract", "reassoc"})
def _bpr_rows(
    left: NDArray[np.float32],
    right: NDArray[np.float32],
    users: Ints,
    positives: Ints,
    negatives: Ints,
    penalty: float,
    to_left: NDArray[np.float32],
    to_right: NDArray[np.float32],
) -> Any:
    """Return the loss of `table_bpr_loss`; add its gradients to `to_left` and `to_right`."""
    batch, k = negatives.shape
    dim = left.shape[1]
    share = 1.0 / (batch * k)
    weight = np.float32(penalty / batch)
    losses: Any = 0.0
    lengths: Any = 0.0
    for b in range(batch):
        user = left[users[b]]
        positive = right[positives[b]]
        to_user = to_left[users[b]]
        to_positive = to_right[positives[b]]
        for j in range(k):
            negative = right[negatives[b, j]]
            to_negative = to_right[negatives[b, j]]
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
                lengths += _add_penalty(negative, to_negative, weight, np.float32(0))
        if weight:
            length = _add_penalty(user, to_user, weight, np.float32(0))
            lengths += _add_penalty(positive, to_positive, weight, length)
    return losses * share + 0.5 * weight * lengths
