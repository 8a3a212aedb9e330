"""The two losses of the margin objective."""

from __future__ import annotations

from torch import Tensor

from leporid.models.dlr2.config import DLR2Config


def square_square(judged: Tensor, config: DLR2Config) -> Tensor:
    """L_S (Eq. 10). judged [B, 1 + k]: S before its last ReLU (if it has one), the positive first.

    Where S is below zero for a negative, the ReLU would stop its gradient; without it the
    parabola goes on, and S can always come back. Above zero the two are the same.
    """
    positive, negatives = judged[:, 0], judged[:, 1:]
    near = (positive.relu() if config.last_relu else positive).square()
    negatives = negatives.relu() if config.relu_on_negatives else negatives
    far = (config.margin - negatives).relu().square().mean(dim=1)
    return (near + far).mean()


def hinge(g: Tensor, candidates: Tensor, margin: float) -> Tensor:
    """L_G (Eq. 11) with the mean squared difference. g [B, D], candidates [B, 1 + k, D]."""
    distance = (g.unsqueeze(1) - candidates).square().mean(dim=-1)
    return (distance[:, :1] - distance[:, 1:] + margin).relu().mean()
