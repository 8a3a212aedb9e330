"""Mixed precision: where it is used, and a check that it can be."""

from __future__ import annotations

import contextlib
import functools
import subprocess
import sys
from typing import Any

import torch

from leporid.errors import ConfigError

_PROBE = "import torch; m = torch.ones(64, 64).bfloat16(); m @ m"


def mixed_precision(precision: str, device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """A context for `TrainingConfig.precision`: bfloat16 where it is safe for accuracy, or not."""
    if precision == "fp32" or (precision == "auto" and device.type != "cuda"):
        return contextlib.nullcontext()
    if device.type == "cpu":
        _check_cpu()
    return torch.autocast(device.type, torch.bfloat16)


@functools.cache
def _check_cpu() -> None:
    """Some virtual machines report AMX and then kill the process that uses it: ask a child."""
    if not torch.cpu._is_amx_tile_supported():
        return
    done = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, check=False)
    if done.returncode:
        raise ConfigError(
            "this machine reports bfloat16 matrix units (AMX) but cannot run them: use "
            "precision='fp32', or set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 before Python starts"
        )
