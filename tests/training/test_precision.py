"""Mixed precision: where it is used, and the sentence where the machine cannot run it."""

from __future__ import annotations

import contextlib
import subprocess

import pytest
import torch

from leporid.errors import ConfigError
from leporid.training import device, mixed_precision

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _ask_again() -> None:
    device._check_cpu.cache_clear()


def test_a_cpu_computes_in_float32_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    for name in ("auto", "fp32"):
        assert isinstance(mixed_precision(name, CPU), contextlib.nullcontext)
    matrix = torch.ones(2, 2)
    with mixed_precision("bf16", CPU):
        assert (matrix @ matrix).dtype == torch.bfloat16


def test_a_machine_that_only_claims_matrix_units_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True)
    killed = subprocess.CompletedProcess([], -4)
    monkeypatch.setattr(device.subprocess, "run", lambda *_, **__: killed)
    with pytest.raises(ConfigError, match="precision='fp32'"):
        mixed_precision("bf16", CPU)
