"""Losses of a positive among many sampled negatives, one number per prediction.

All take `positive` [...] and `negative` [..., k], the scores of the wanted item and of the sampled
ones. A negative that must not count has the score -inf.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def sampled_softmax(positive: Tensor, negative: Tensor) -> Tensor:
    """[...]: cross-entropy of the positive among itself and the negatives."""
    together = torch.cat([positive[..., None], negative], dim=-1)
    return torch.logsumexp(together, dim=-1) - positive


def binary_cross_entropy(positive: Tensor, negative: Tensor, power: float = 1.0) -> Tensor:
    """[...]: -ln sigmoid(positive)^power - sum ln(1 - sigmoid(negative)).

    With the power of `gbce_power` it is gBCE.
    """
    return power * functional.softplus(-positive) + functional.softplus(negative).sum(-1)


def gbce_power(negatives: int, n_items: int, calibration: float) -> float:
    """beta of gBCE; 1, plain binary cross-entropy, for a calibration t of 0.

    Petrov, Macdonald: gSASRec: Reducing Overconfidence in Sequential Recommendation Trained with
    Negative Sampling. RecSys 2023, with alpha the share of the items that are sampled:

        beta = alpha (t (1 - 1 / alpha) + 1 / alpha)
    """
    share = min(negatives / max(n_items - 1, 1), 1.0)
    return share * calibration + 1 - calibration
