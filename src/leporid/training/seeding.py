"""Seeds for every random choice, derived from one number.

Nothing in training keeps a random state between steps: what step 1,234 draws follows from the
run's seed and the number 1,234 alone. A resumed run therefore draws what it would have drawn.
"""

from __future__ import annotations

import zlib
from contextlib import AbstractContextManager

import numpy as np
import torch


def derive_seed(seed: int, purpose: str, *parts: int) -> int:
    """A 63-bit seed for one purpose (a word) and any numbers, such as the step."""
    words = [seed & (2**64 - 1), zlib.crc32(purpose.encode()), *parts]
    return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0] >> np.uint64(1))


def generator(device: torch.device, seed: int, purpose: str, *parts: int) -> torch.Generator:
    """A torch generator on `device`, seeded by `derive_seed`."""
    return torch.Generator(device=device).manual_seed(derive_seed(seed, purpose, *parts))


def own_generators(device: torch.device) -> AbstractContextManager[None]:
    """Give torch's default generators back untouched after the block."""
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])


def seed_default(device: torch.device, seed: int) -> None:
    """Seed the default generators that layers such as dropout draw from."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index or 0].manual_seed(seed)
