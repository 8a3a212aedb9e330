"""Cross-entropy over all items, with its gradient written down.

Scores of a batch for every item do not fit a processor's cache, and torch walks over them a dozen
times: for scores, softmax, loss, and back. Here they exist for a few rows at a time, which leave
their part of the gradient before the next rows come. The targets are one item and an even share
of all, whose gradients need no scores.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from leporid.models.shared.ranking_loss import apply

_AT_ONCE = 1 << 20
"""Scores that exist at a time: 4 MB."""


def in_closed_form(states: Tensor) -> bool:
    """Whether `softmax_loss` takes these states: on a CPU, in float32."""
    plain = states.device.type == "cpu" and states.dtype == torch.float32
    return plain and not torch.is_autocast_enabled("cpu") and not torch.compiler.is_compiling()


def softmax_loss(
    states: Tensor,
    items: Tensor,
    positives: Tensor,
    bias: Tensor | None = None,
    label_smoothing: float = 0.0,
) -> Tensor:
    """`functional.cross_entropy(states @ items.T + bias, positives)`, mean over the rows.

    states: [B, D]; items: [n, D]; positives: int64[B]; bias: [n].
    """
    bias = items.new_zeros(len(items)) if bias is None else bias
    return apply(_Softmax, states, items, bias, positives, label_smoothing)


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, states: Tensor, items: Tensor, bias: Tensor, positives: Tensor, smoothing: float
    ) -> Tensor:
        rows, n, sure = len(states), len(items), 1 - smoothing
        middle, wanted = items.mean(dim=0), items[positives]
        targets = sure * ((states * wanted).sum(dim=1) + bias[positives])
        targets += smoothing * (states @ middle + bias.mean())
        to_states, to_items, to_bias = map(torch.zeros_like, (states, items, bias))
        step, sums = max(1, _AT_ONCE // n), torch.empty(rows)
        buffer = states.new_empty(min(step, rows), n)
        for first in range(0, rows, step):
            part = slice(first, first + step)
            scores = torch.addmm(bias, states[part], items.T)
            chances = torch.softmax(scores, 1, out=buffer[: len(scores)])
            # The best item's chance is exp(its score) over the sum, and never too small for a log.
            sums[part] = scores.amax(dim=1) - chances.amax(dim=1).log()
            torch.mm(chances, items, out=to_states[part])
            to_items.addmm_(chances.T, states[part])
            to_bias += chances.sum(dim=0)
        to_states.sub_(wanted, alpha=sure).sub_(middle, alpha=smoothing).div_(rows)
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
        return *(part.mul_(grads[0]) if wanted else None for part, wanted in needed), None, None
