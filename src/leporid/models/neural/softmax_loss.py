"""The softmax over all items as a loss.

On a CPU the scores exist for a few rows at a time, which leave their part of the gradient before
the next rows come.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from leporid.models.neural.layers import apply

_SCORES_AT_ONCE = 1 << 20
"""Scores that exist at a time: 4 MB."""


def softmax_loss(
    states: Tensor,
    items: Tensor,
    positives: Tensor,
    bias: Tensor | None = None,
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return `cross_entropy(states @ items.T + bias, positives)`.

    states: [B, D]; items: [n, D]; bias: [n]; positives: int64[B]. States of a GPU may be
    [..., D], with positives of -1 where there is none.
    """
    has_closed_form = states.dtype in (torch.float32, torch.bfloat16)
    if states.device.type != "cpu" or not has_closed_form:
        scores = (states.flatten(0, -2) @ items.T).float()
        return functional.cross_entropy(
            scores if bias is None else scores + bias,
            positives.flatten(),
            ignore_index=-1,
            label_smoothing=label_smoothing,
        )
    if bias is None:
        bias = items.new_zeros(len(items))
    # Under autocast the three products are in bfloat16; sums and the softmax never are.
    narrow = torch.bfloat16 if torch.is_autocast_enabled("cpu") else items.dtype
    with torch.autocast("cpu", enabled=False):
        return apply(
            _Softmax,
            states.float(),
            items,
            bias,
            positives,
            label_smoothing,
            narrow,
        )


class _Softmax(torch.autograd.Function):
    """The loss with its gradients in closed form, for `_SCORES_AT_ONCE` scores at a time."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        items: Tensor,
        bias: Tensor,
        positives: Tensor,
        smoothing: float,
        narrow: torch.dtype,
    ) -> Tensor:
        n_rows = len(states)
        n_items = len(items)
        sure = 1 - smoothing
        middle = items.mean(dim=0)
        target = items[positives]
        positive_scores = (states * target).sum(dim=1) + bias[positives]
        targets = sure * positive_scores
        targets += smoothing * (states @ middle + bias.mean())
        to_states = torch.zeros_like(states)
        to_items = torch.zeros_like(items)
        to_bias = torch.zeros_like(bias)
        log_sums = torch.empty(n_rows)
        step = max(1, _SCORES_AT_ONCE // n_items)
        buffer = states.new_empty(min(step, n_rows), n_items)
        left = states.to(narrow)
        right = items.to(narrow)
        for first in range(0, n_rows, step):
            part = slice(first, first + step)
            products = torch.mm(left[part], right.T)
            scores = products.to(bias.dtype).add_(bias)
            chances = torch.softmax(scores, 1, out=buffer[: len(scores)])
            # The best item's chance is exp(its score) over the sum, and never too small for a log.
            log_sums[part] = scores.amax(dim=1) - chances.amax(dim=1).log()
            to_bias += chances.sum(dim=0)
            chances = chances.to(narrow)
            to_states[part] = torch.mm(chances, right)
            to_items += torch.mm(chances.T, left[part])
        to_states.sub_(target, alpha=sure)
        to_states.sub_(middle, alpha=smoothing)
        to_states.div_(n_rows)
        to_items.index_add_(
            0,
            positives,
            states,
            alpha=-sure,
        )
        to_items.sub_(states.sum(dim=0), alpha=smoothing / n_items)
        to_items.div_(n_rows)
        to_bias.index_add_(
            0,
            positives,
            bias.new_ones(n_rows),
            alpha=-sure,
        )
        to_bias.sub_(smoothing * n_rows / n_items)
        to_bias.div_(n_rows)
        ctx.grads = to_states, to_items, to_bias
        return (log_sums - targets).mean()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        # Handed over, not copied: a graph is walked once.
        gradients = ctx.grads
        ctx.grads = None
        scaled: list[Tensor | None] = []
        for gradient, needed in zip(gradients, ctx.needs_input_grad, strict=False):
            scaled.append(gradient.mul_(grads[0]) if needed else None)
        return (*scaled, None, None, None)
