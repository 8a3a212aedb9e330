"""Data parallel training over processes started by `torchrun`.

Every process draws the same global batch and works on its share of the rows; gradients are
summed. The examples of a step are thus the same for any number of processes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn


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
        """Add the gradients of all processes, in one message."""
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
        """The sum of a number over the processes."""
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
