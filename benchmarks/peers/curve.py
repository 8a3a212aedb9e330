"""For scripts in peers' environments: what a network was worth after so many seconds of training.

Copies of its weights are taken while it trains, each a tenth later than the one before; the time
that takes is not counted.
"""

from __future__ import annotations

import time
from typing import Any

GROWTH = 1.1
FIRST = 2.0
"""Seconds until the first copy."""


class TimeOverError(Exception):
    """Raised from within the training."""


class Curve:
    """Seconds of training and copies of the weights."""

    def __init__(self, limit: float) -> None:
        self.limit, self.seconds, self.weights = limit, [], []
        self._begun, self._next = time.perf_counter(), FIRST

    def look(self, network: Any) -> None:
        """Called after every step; ends the training when its time is over."""
        now = time.perf_counter()
        elapsed = now - self._begun
        if elapsed >= self._next or elapsed >= self.limit:
            self.seconds.append(elapsed)
            self.weights.append({k: v.detach().clone() for k, v in network.state_dict().items()})
            self._next = elapsed * GROWTH
            self._begun += time.perf_counter() - now
        if elapsed >= self.limit:
            raise TimeOverError
