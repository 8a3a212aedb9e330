"""What a run computes on: device, processes, precision, and seeds for every random choice.

What a step draws follows from the run's seed and its number alone. Under `torchrun` every process
draws the same batch and works on its share of the rows; gradients are summed.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn


def derive_seed(seed: int, purpose: str, *parts: int) -> int:
    """A 63-bit seed for one purpose (a word) and any numbers, such as the step."""
    words = [seed & (2**64 - 1), zlib.crc32(purpose.encode()), *parts]
    return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0] >> np.uint64(1))


def generator(device: torch.device, seed: int, purpose: str, *parts: int) -> torch.Generator:
    """A torch generator on `device`, seeded by `derive_seed`."""
    return torch.Generator(device=device).manual_seed(derive_seed(seed, purpose, *parts))


def own_generators(device: torch.device) -> contextlib.AbstractContextManager[None]:
    """Give torch's default generators back untouched after the block."""
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])


def seed_default(device: torch.device, seed: int) -> None:
    """Seed the default generators that layers such as dropout draw from."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index or 0].manual_seed(seed)


def mixed_precision(precision: str, device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """A context for `TrainingConfig.precision`: bfloat16 on a GPU, unless float32 is asked for."""
    if precision == "fp32" or device.type != "cuda":
        return contextlib.nullcontext()
    return torch.autocast(device.type, torch.bfloat16)


def resolve_device(device: str | torch.device = "auto") -> torch.device:
    """`auto` is this process's GPU where there is one, else the CPU."""
    if str(device) != "auto":
        return torch.device(device)
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)) % torch.cuda.device_count())


class Group:
    """The processes that train together; a single one is a group of one."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        if int(os.environ.get("WORLD_SIZE", "1")) > 1 and not dist.is_initialized():
            if device.type == "cuda":
                torch.cuda.set_device(device)
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        active = dist.is_available() and dist.is_initialized()
        self.rank = dist.get_rank() if active else 0
        self.world = dist.get_world_size() if active else 1
        self.is_main = self.rank == 0
        """Whether this process validates, reports and writes checkpoints."""

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        gradients = [p.grad for p in parameters if p.grad is not None]
        if self.world == 1 or not gradients:
            return
        flat = torch.cat([g.reshape(-1) for g in gradients])
        dist.all_reduce(flat)
        parts = torch.split(flat, [g.numel() for g in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))

    def share(self, tensors: Iterable[Tensor]) -> None:
        """Overwrite the tensors of every process with those of the main one."""
        if self.world > 1:
            for tensor in tensors:
                dist.broadcast(tensor, 0)

    def sum(self, value: Tensor) -> Tensor:
        if self.world > 1:
            dist.all_reduce(value)
        return value

    def from_main(self, value: int) -> int:
        """The main process's number; all processes must ask."""
        number = torch.tensor([value], device=self.device)
        self.share([number])
        return int(number.item())

    def agree(self, flag: bool) -> bool:
        """True if any process says so; all processes must ask."""
        if self.world == 1:
            return flag
        value = torch.tensor([int(flag)], device=self.device)
        dist.all_reduce(value, dist.ReduceOp.MAX)
        return bool(value.item())
