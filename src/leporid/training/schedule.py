"""The learning rate as a function of the step alone."""

from __future__ import annotations

import math

from leporid.training.config import TrainingConfig

__all__ = ["learning_rate"]

_START, _END = 1 / 25, 1e-4
"""One-cycle: share of the highest rate at the first step and at the last."""


def learning_rate(config: TrainingConfig, step: int) -> float:
    """The rate of optimiser step `step` (0 is the first)."""
    done = step / config.steps
    if config.schedule == "constant":
        return config.lr
    if config.schedule == "cosine":
        return config.lr * _cosine(1.0, 0.0, done)
    if done < config.warmup:
        return config.lr * _cosine(_START, 1.0, done / config.warmup)
    return config.lr * _cosine(1.0, _END, (done - config.warmup) / (1 - config.warmup))


def _cosine(start: float, end: float, share: float) -> float:
    """From `start` to `end` along half a cosine."""
    return end + (start - end) * 0.5 * (1 + math.cos(math.pi * share))
