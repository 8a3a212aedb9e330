"""Mixed precision: where it is used."""

from __future__ import annotations

import contextlib

import torch

from leporid.models import mixed_precision


def test_a_cpu_computes_in_float32() -> None:
    for name in ("auto", "fp32"):
        assert isinstance(mixed_precision(name, torch.device("cpu")), contextlib.nullcontext)
