"""A clock that tests turn."""

from __future__ import annotations


class Clock:
    """Seconds that pass by `advance`, and by `tick` at every look."""

    def __init__(self, tick: float = 0.0) -> None:
        self.now, self.tick = 0.0, tick

    def __call__(self) -> float:
        self.now += self.tick
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds
