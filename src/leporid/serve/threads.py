"""How many threads a model is scored with: more than one only where they pay."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

__all__ = ["choose_threads", "use_threads"]

_PAYS = 1.3
"""Threads wait for each other by spinning, and on few cores what they spin on is needed for the
requests. All cores must be this much faster than one."""
_REPEATS = 5
_ENOUGH = 1.0
"""Seconds after which no further repeat begins."""


def choose_threads(score: Callable[[], Any]) -> int | None:
    """Torch's threads for a model, by timing `score` on one and on all; None without torch."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    most: int = torch.get_num_threads()
    if most < 2:
        return most
    score()  # what a first call compiles and prepares
    spent = {1: float("inf"), most: float("inf")}
    end = time.perf_counter() + _ENOUGH
    try:
        for _ in range(_REPEATS):
            for threads in spent:
                torch.set_num_threads(threads)
                began = time.perf_counter()
                score()
                spent[threads] = min(spent[threads], time.perf_counter() - began)
            if time.perf_counter() > end:
                break
    finally:
        torch.set_num_threads(most)
    return most if spent[1] > _PAYS * spent[most] else 1


def use_threads(threads: int | None) -> None:
    """Set torch's threads for what the calling thread does next."""
    if threads is None:
        return
    torch = sys.modules["torch"]
    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)
