"""Settings every neural model has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from leporid.config import Config
from leporid.errors import ConfigError

__all__ = ["TrainingConfig"]


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(Config):
    """How a neural model is trained; each model adds its own settings."""

    dim: int = 64
    """D, the length of the user and item vectors."""
    steps: int = 5000
    """Optimiser steps of a full run."""
    passes: float = 0.0
    """Stop after this many passes over the training examples (and 750 steps) if `steps` would go
    on; the rate and the validations are spread over the fewer steps. 0 counts steps alone, and so
    does a model that is given `steps` without `passes`."""
    batch_size: int = 256
    """Examples in a step, over all processes together."""
    lr: float = 1e-3
    """Highest learning rate of the schedule."""
    weight_decay: float = 0.0
    """L2 penalty (adam) or decoupled decay (adamw)."""
    optimizer: Literal["adam", "adamw"] = "adam"
    schedule: Literal["cosine", "one-cycle", "constant"] = "cosine"
    """Learning rate over the steps."""
    warmup: float = 0.3
    """Share of the steps in which the one-cycle rate rises."""
    clip_norm: float = 0.0
    """Largest norm of the gradient; 0 does not clip."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """`auto`: bfloat16 on a GPU, float32 on a CPU. `bf16` asks for it on a CPU too."""
    compile: bool = False
    """Compile the loss with torch.compile: slow to start, faster steps."""
    cuda_graph: bool = True
    """On a GPU record the operations of a step once and replay them, where the model allows it."""
    freeze_steps: int = 0
    """Keep the initial vectors as they are for the first steps; -1 for good."""
    init_scale: float | None = None
    """Initial vectors are z-scored times this; None takes the model's own default."""
    standardize: bool | None = None
    """Z-score the initial vectors; None asks the initialiser (random ones are used as drawn)."""
    ema_decay: float = 0.0
    """Average the weights over steps with this decay and use the average; 0 does not."""
    eval_every: int = 500
    """Steps between validations; 0 never validates and keeps the last weights."""
    patience: int = 0
    """Stop after this many validations without a better one; 0 always runs all steps."""
    metric: str = "F1@10"
    """What validation maximises; the best weights are kept."""
    eval_users: int = 0
    """Validate on this many users drawn by the seed; 0 takes all."""
    checkpoint_every: int = 500
    """Steps between checkpoints, where a folder for them was given."""

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """As of any settings; but steps that were asked for are taken, all of them."""
        if "steps" in values and "passes" not in values:
            values = {**values, "passes": 0.0}
        return super().from_dict(values)

    def validate(self) -> None:
        """Refuse values outside their range."""
        for name in ("dim", "steps", "batch_size", "checkpoint_every"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, not {getattr(self, name)}")
        counts = ("eval_every", "patience", "eval_users")
        for name in ("passes", "weight_decay", "clip_norm", *counts):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must not be negative, it is {getattr(self, name)}")
        if self.lr <= 0:
            raise ConfigError(f"lr must be above 0, not {self.lr}")
        if self.freeze_steps < -1:
            raise ConfigError(f"freeze_steps must be -1 or more, not {self.freeze_steps}")
        if not 0 <= self.ema_decay < 1:
            raise ConfigError(f"ema_decay must be in [0, 1), not {self.ema_decay}")
        if not 0 < self.warmup < 1:
            raise ConfigError(f"warmup must be between 0 and 1, not {self.warmup}")
