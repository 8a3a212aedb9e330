"""Layers and losses several networks share: dropout, causal attention, BPR, softmax over all items.

On a CPU torch's own dropout is slow: here a number of 64 bits decides four entries. BPR of a batch
is there one compiled pass that adds to the gradients of three rows while they are in the cache, in
one thread, so that the bits never depend on threads. The scores of the softmax exist for a few rows
at a time, which leave their part of the gradient before the next rows come.
"""

import math
import warnings
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from leporid.kernel import kernel

_SCORES_AT_ONCE = 1 << 20
"""Scores of the softmax that exist at a time: 4 MB."""
_LANES, _HALF = 4, 2**15
"""Entries that one random number decides, and half of the values of 16 bits."""


def apply(function: type[torch.autograd.Function], *arguments: Any) -> Tensor:
    """What an autograd function returns (torch's `apply` carries no types)."""
    return cast(Tensor, function.apply(*arguments))  # type: ignore[no-untyped-call]


def csr_tensor(indptr: Tensor, indices: Tensor, values: Tensor, columns: int) -> Tensor:
    """A CSR matrix that shares its arguments' memory."""
    with warnings.catch_warnings():
        # torch announces once a process that its CSR tensors are in beta.
        warnings.filterwarnings("ignore", message=".*Sparse CSR tensor support.*")
        shape = len(indptr) - 1, columns
        return torch.sparse_csr_tensor(
            indptr, indices, values, shape, check_invariants=False
        )


class SparseProduct(torch.autograd.Function):
    """A x with a constant A, given with its transpose, in float32 also under mixed precision."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, transposed: Tensor, x: Tensor) -> Tensor:
        ctx.transposed = transposed
        return sparse_product(matrix, x)

    @staticmethod
    def backward(ctx: Any, *grad: Tensor) -> tuple[None, None, Tensor]:
        return None, None, sparse_product(ctx.transposed, grad[0])


def sparse_product(matrix: Tensor, x: Tensor) -> Tensor:
    with torch.autocast(x.device.type, enabled=False):
        return matrix @ x.float().contiguous()


def in_closed_form(x: Tensor) -> bool:
    """Whether the losses with gradients of their own take it: on a CPU."""
    return x.device.type == "cpu" and x.dtype in (torch.float32, torch.bfloat16)


def dropout(x: Tensor, share: float, training: bool = True) -> Tensor:
    """`functional.dropout`: a share of the entries zero, the others larger by as much."""
    if x.device.type != "cpu" or not training or not share:
        return functional.dropout(x, share, training)
    words = torch.empty(-(-x.numel() // _LANES), dtype=torch.int64).random_(
        -(2**63), None
    )
    draws = words.view(torch.int16)[: x.numel()].view(x.shape)
    keep = (draws >= min(round(2 * _HALF * share) - _HALF, _HALF - 1)).to(x.dtype)
    return x * keep.mul_(1 / (1 - share))


def causal_attention(
    query: Tensor, key: Tensor, value: Tensor, share: float, training: bool = True
) -> Tensor:
    """[B, heads, n, d]: `scaled_dot_product_attention`, whose dropout on a CPU is slow."""
    if query.device.type != "cpu" or not training or not share:
        drop = share if training else 0.0
        return functional.scaled_dot_product_attention(
            query, key, value, dropout_p=drop, is_causal=True
        )
    n = query.shape[-2]
    later = torch.full((n, n), -torch.inf, dtype=query.dtype).triu_(1)
    scores = (query * query.shape[-1] ** -0.5) @ key.mT + later
    return dropout(scores.softmax(dim=-1), share) @ value


def table_bpr_loss(
    left: Tensor,
    right: Tensor,
    users: Tensor,
    positives: Tensor,
    negatives: Tensor,
    penalty: float = 0.0,
) -> Tensor:
    """BPR of dot products between rows: left[u] . right[i] against left[u] . right[j].

    left: [n, D]; right: [m, D]; users, positives: int64[B]; negatives: int64[B, k]. `penalty`
    times half the squared length of the rows an example uses is added.
    """
    plain = (t.dtype == torch.float32 and t.is_contiguous() for t in (left, right))
    if in_closed_form(left) and all(plain):
        return apply(_TableBpr, left, right, penalty, users, positives, negatives)
    user, positive = left.index_select(0, users), right.index_select(0, positives)
    negative = right.index_select(0, negatives.reshape(-1)).view(*negatives.shape, -1)
    # [B, k, D]: what the user prefers in i over j.
    margin = ((positive[:, None] - negative) * user[:, None]).sum(-1)
    loss = functional.softplus(-margin).mean()
    if penalty:
        lengths = torch.stack(
            [rows.square().sum() for rows in (user, positive, negative)]
        )
        loss = loss + lengths.sum() * (penalty / 2 / len(user))
    return loss


def row_penalty(table: Tensor, rows: Tensor, batch: int) -> Tensor:
    """Half the squared length of the named rows (repeated as they are), divided by `batch`."""
    # How often each row occurs: the sum runs over the table, not over the batch.
    ones = table.new_ones(()).expand(rows.numel())
    weight = (
        table.new_zeros(len(table)).index_add_(0, rows.reshape(-1), ones).div_(batch)
    )
    return (table.square().sum(dim=1) * weight).sum() / 2


class _TableBpr(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, left: Tensor, right: Tensor, penalty: float, *rows: Tensor
    ) -> Tensor:
        # One table with users and items gets one gradient.
        tables = [left] if left is right else [left, right]
        ctx.grads = [torch.zeros_like(table) for table in tables]
        arrays = [table.detach().numpy() for table in tables]
        sums = [grad.numpy() for grad in ctx.grads]
        users, positives, negatives = (
            part.detach().contiguous().numpy() for part in rows
        )
        both = arrays[0], arrays[-1], users, positives, negatives
        loss = _bpr_rows(*both, penalty, sums[0], sums[-1])
        return left.new_tensor(loss)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        # Handed over, not copied: a graph is walked once.
        tables, ctx.grads = ctx.grads, None
        factor = grads[0].item()
        if factor != 1:
            tables = [grad.mul_(factor) for grad in tables]
        return tables[0], tables[1] if len(tables) > 1 else None, None, None, None, None


@kernel(fastmath={"contract", "reassoc"})
def _bpr_rows(
    left: Any, right: Any, users: Any, positives: Any, negatives: Any, penalty: float,
    to_left: Any, to_right: Any,
) -> Any:  # fmt: skip
    """The loss of `table_bpr_loss`; its gradients are added to `to_left` and `to_right`."""
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


def softmax_loss(
    states: Tensor,
    items: Tensor,
    positives: Tensor,
    bias: Tensor | None = None,
    label_smoothing: float = 0.0,
) -> Tensor:
    """`cross_entropy(states @ items.T + bias, positives)` of [B, D], [n, D], [n] and int64[B].

    States of a GPU may be [..., D], with positives of -1 where there is none.
    """
    if not in_closed_form(states):
        scores = (states.flatten(0, -2) @ items.T).float()
        scores = scores if bias is None else scores + bias
        how: Any = {"ignore_index": -1, "label_smoothing": label_smoothing}
        return functional.cross_entropy(scores, positives.flatten(), **how)
    bias = items.new_zeros(len(items)) if bias is None else bias
    # Under autocast the three products are in bfloat16; sums and the softmax never are.
    narrow = torch.bfloat16 if torch.is_autocast_enabled("cpu") else items.dtype
    with torch.autocast("cpu", enabled=False):
        return apply(
            _Softmax, states.float(), items, bias, positives, label_smoothing, narrow
        )


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, states: Tensor, items: Tensor, bias: Tensor, positives: Tensor,
        smoothing: float, narrow: torch.dtype,
    ) -> Tensor:  # fmt: skip
        rows, n, sure = len(states), len(items), 1 - smoothing
        middle, target = items.mean(dim=0), items[positives]
        targets = sure * ((states * target).sum(dim=1) + bias[positives])
        targets += smoothing * (states @ middle + bias.mean())
        to_states, to_items, to_bias = map(torch.zeros_like, (states, items, bias))
        step, sums = max(1, _SCORES_AT_ONCE // n), torch.empty(rows)
        buffer = states.new_empty(min(step, rows), n)
        left, right = states.to(narrow), items.to(narrow)
        for first in range(0, rows, step):
            part = slice(first, first + step)
            scores = torch.mm(left[part], right.T).to(bias.dtype).add_(bias)
            chances = torch.softmax(scores, 1, out=buffer[: len(scores)])
            # The best item's chance is exp(its score) over the sum, and never too small for a log.
            sums[part] = scores.amax(dim=1) - chances.amax(dim=1).log()
            to_bias += chances.sum(dim=0)
            chances = chances.to(narrow)
            to_states[part] = torch.mm(chances, right)
            to_items += torch.mm(chances.T, left[part])
        to_states.sub_(target, alpha=sure).sub_(middle, alpha=smoothing).div_(rows)
        to_items.index_add_(0, positives, states, alpha=-sure)
        to_items.sub_(states.sum(dim=0), alpha=smoothing / n).div_(rows)
        to_bias.index_add_(0, positives, bias.new_ones(rows), alpha=-sure)
        to_bias.sub_(smoothing * rows / n).div_(rows)
        ctx.grads = to_states, to_items, to_bias
        return (sums - targets).mean()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        # Handed over, not copied: a graph is walked once.
        parts, ctx.grads = ctx.grads, None
        needed = zip(parts, ctx.needs_input_grad, strict=False)
        return (
            *(part.mul_(grads[0]) if need else None for part, need in needed),
            None,
            None,
            None,
        )


def with_constant(vectors: Tensor) -> Tensor:
    """A column of ones after the vectors: the last entry of an item's vector is then its bias."""
    return functional.pad(vectors, (0, 1), value=1.0)
