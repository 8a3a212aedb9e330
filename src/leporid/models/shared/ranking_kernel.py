"""The BPR loss and its gradients on a CPU, one example after another in compiled code.

A batch of 2,048 examples is too small for a core to lose in: a dozen torch calls over it cost more
than the arithmetic. One pass reads three rows, and adds to their gradients while they are in the
cache. Examples come in order and one thread adds them up, so the bits never depend on threads.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

__all__ = ["bpr_rows"]


@numba.njit(cache=True, fastmath={"contract", "reassoc"}, nogil=True, error_model="numpy")
def bpr_rows(
    left: Any,
    right: Any,
    users: Any,
    positives: Any,
    negatives: Any,
    penalty: Any,
    to_left: Any,
    to_right: Any,
) -> Any:
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
