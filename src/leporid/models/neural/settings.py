"""What a training is made with: settings, learning rate, device, precision and seeds.

What a step draws follows from the training's seed and its number alone.
"""

import contextlib
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias

import numpy as np
import torch

from leporid.evaluation import parse_metric
from leporid.foundation import Config, SettingValue, check_device, setting

Recipes: TypeAlias = dict[str, dict[str, SettingValue]]
"""Named settings of a model."""
_FIRST_RATE = 1 / 25
"""One-cycle: share of the highest rate at the first step."""
_LAST_RATE = 1e-4
"""One-cycle: share of the highest rate at the last step."""
_WARM_UP = 0.3
"""One-cycle: share of the steps in which the rate rises."""
_RISING = 200
"""Inverse-root: steps until the highest rate is reached."""


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(Config):
    """How a neural model is trained; each model adds its own settings."""

    dim: int = setting(64, at_least=1)
    """D, the length of the user and item vectors."""
    steps: int = setting(5000, at_least=1)
    """Optimiser steps of a full run."""
    stop_at: int = setting(0, at_least=0)
    """Stop after this step of a schedule made for all `steps`; 0 runs them all. Set by `refit`."""
    epochs: float = setting(0.0, at_least=0)
    """Stop after this many epochs (and 750 steps) if `steps` would go on; 0, or `steps` given
    without `epochs`, counts steps alone."""
    batch_size: int = setting(256, at_least=1)
    """Examples in a step."""
    lr: float = setting(1e-3, above=0)
    """Highest learning rate of the schedule."""
    weight_decay: float = setting(0.0, at_least=0)
    """L2 penalty (adam) or decoupled decay (adamw)."""
    optimizer: Literal["adam", "adamw"] = "adam"
    schedule: Literal["cosine", "one-cycle", "constant", "inverse-root"] = "cosine"
    """Learning rate over the steps. `inverse-root` rises for 200 steps, then falls with the root of
    their number, whatever `steps` is."""
    clip_norm: float = setting(0.0, at_least=0)
    """Largest norm of the gradient; 0 does not clip."""
    precision: Literal["auto", "bf16", "fp32"] = "auto"
    """Precision of the products in training. `auto`: bfloat16 on a GPU, float32 on a CPU. `bf16`:
    bfloat16 on a CPU too, where it has instructions for it."""
    cuda_graph: bool = True
    """On a GPU record the operations of a step once and replay them, where the model allows it."""
    freeze_steps: int = setting(0, at_least=-1)
    """Do not train the initial embeddings in the first steps; -1: never."""
    init_scale: float | Literal["auto"] = "auto"
    """Z-scored initial embeddings times this; `auto`: the size that suits the model best."""
    standardize: bool | None = None
    """Z-score the initial embeddings; None asks the initialiser (random ones are used as drawn)."""
    item_table: str = ""
    """A file about the items: its columns get embeddings, which are added to the items' own."""
    user_table: str = ""
    """A file about the users: its columns get embeddings, which are added to the users' own, where
    the model has a table of users."""
    linear_weight: float | Literal["auto"] = setting(0.0, at_least=0)
    """Weight of a linear model of the whole profile (SLIM) beside the network; `auto` is the best
    on validation."""
    linear_penalties: tuple[float, float] | None = None
    """L1 and L2 penalty of that SLIM; None takes the better of two pairs on validation."""
    transitions_weight: float | Literal["auto"] = setting(0.0, at_least=0)
    """Weight of transition counts of the recent items beside the network; `auto` is the best on
    validation, 0 where the data has no order."""
    ema_decay: float = setting(0.0, at_least=0, below=1)
    """Average the weights over steps with this decay and use the average; 0 does not."""
    ema_share: float = setting(0.0, at_least=0, below=1)
    """Like `ema_decay`, over about this share of the steps done so far."""
    eval_every: int = setting(500, at_least=0)
    """Steps between validations; 0 never validates and keeps the last weights."""
    patience: int = setting(0, at_least=0)
    """Stop after this many validations without a better one; 0 always runs all steps."""
    metric: str = "NDCG@10"
    """What validation maximises; the best weights are kept."""
    eval_users: int = setting(0, at_least=0)
    """Validate on this many users drawn by the seed; 0 takes all."""
    checkpoint_every: int = setting(500, at_least=1)
    """Steps between checkpoints, where a folder for them was given."""

    def __post_init__(self) -> None:
        """Refuse an unknown metric before any data is read."""
        super().__post_init__()
        parse_metric(self.metric)

    @property
    def last_step(self) -> int:
        """The last step of a run that is not stopped early."""
        return min(self.stop_at or self.steps, self.steps)

    @property
    def has_closed_form_part(self) -> bool:
        """Whether closed-form models may get a weight beside the network."""
        return self.linear_weight != 0 or self.transitions_weight != 0

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> Self:
        """Build from a mapping; `steps` given without `epochs` are all taken."""
        if "steps" in values and "epochs" not in values:
            values = {
                **values,
                "epochs": 0.0,
            }
        return super().from_dict(values)


def learning_rate(config: TrainingConfig, step: int) -> float:
    """Return the rate of optimiser step `step` (0 is the first)."""
    if config.schedule == "constant":
        return config.lr
    if config.schedule == "inverse-root":
        rising = (step + 1) / _RISING
        falling = math.sqrt(_RISING / (step + 1))
        return config.lr * min(rising, falling)
    done = step / config.steps
    if config.schedule == "cosine":
        return config.lr * _cosine(1.0, 0.0, done)
    if done < _WARM_UP:
        return config.lr * _cosine(_FIRST_RATE, 1.0, done / _WARM_UP)
    done_after_warm_up = (done - _WARM_UP) / (1 - _WARM_UP)
    return config.lr * _cosine(1.0, _LAST_RATE, done_after_warm_up)


def averaging(config: TrainingConfig, step: int) -> float:
    """Return the share of the old average that is kept after `step` steps."""
    if config.ema_share:
        return max(0.0, 1 - 1 / (config.ema_share * step))
    return config.ema_decay


def _cosine(
    first: float,
    last: float,
    share: float,
) -> float:
    """Go from `first` to `last` along half a cosine."""
    height = 1 + math.cos(math.pi * share)
    return last + (first - last) * 0.5 * height


def derive_seed(seed: int, purpose: str, *parts: int) -> int:
    """Return a 63-bit seed for one purpose (a word) and any numbers, such as the step."""
    words = [seed & (2**64 - 1), zlib.crc32(purpose.encode()), *parts]
    sequence = np.random.SeedSequence(words)
    (state,) = sequence.generate_state(1, np.uint64)
    return int(state >> np.uint64(1))


def generator(
    device: torch.device,
    seed: int,
    purpose: str,
    *parts: int,
) -> torch.Generator:
    """Return a torch generator on `device`, seeded by `derive_seed`."""
    derived = derive_seed(seed, purpose, *parts)
    return torch.Generator(device=device).manual_seed(derived)


def own_generators(device: torch.device) -> contextlib.AbstractContextManager[None]:
    """Give torch's default generators back untouched after the block."""
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])


def seed_default(device: torch.device, seed: int) -> None:
    """Seed the default generators that layers such as dropout draw from."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index or 0].manual_seed(seed)


def mixed_precision(
    precision: str,
    device: torch.device,
) -> contextlib.AbstractContextManager[object]:
    """Return a context for `TrainingConfig.precision`."""
    narrow = device.type == "cuda" or (precision == "bf16" and has_bfloat16())
    if precision == "fp32" or not narrow:
        return contextlib.nullcontext()
    return torch.autocast(device.type, torch.bfloat16)


def has_bfloat16() -> bool:
    """Whether this processor multiplies bfloat16 faster than float32, and torch may use it."""
    kinds = ("avx512_bf16", "amx_tile")
    # Old versions of torch cannot tell.
    able = any(getattr(torch.cpu, f"_is_{kind}_supported", bool)() for kind in kinds)
    return able and torch.backends.cpu.get_cpu_capability() == "AVX512"


def resolve_device(device: str | torch.device = "auto") -> torch.device:
    """Return the device that is meant; `auto` is the first GPU where there is one, else the CPU.

    A device that is not there is refused.
    """
    check_device(device)
    if str(device) != "auto":
        return torch.device(device)
    if torch.cuda.is_available():
        return torch.device("cuda", 0)
    return torch.device("cpu")
