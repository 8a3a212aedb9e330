"""Durations, the timer of a budget, and the guard that stops work at a deadline."""

import re
import time
from collections.abc import Callable
from typing import Any

from leporid.errors import ConfigError, LeporidError
from leporid.progress import NullProgress


class OutOfTimeError(LeporidError):
    """Work was stopped at its deadline."""


def parse_duration(text: str | float) -> float:
    """Seconds: 10m, 90s, 1h30m; a plain number is seconds."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        seconds = float(text)
    else:
        found = re.fullmatch(
            r"\s*(?:(\d+(?:\.\d+)?)\s*h)?\s*(?:(\d+(?:\.\d+)?)\s*m(?:in)?)?"
            r"\s*(?:(\d+(?:\.\d+)?)\s*s?)?\s*",
            str(text).lower(),
        )
        if not found or not any(found.groups()):
            raise ConfigError(
                f"a budget is a time such as 90s, 10m or 1h30m, not {text!r}"
            )
        parts = zip(found.groups(), (3600.0, 60.0, 1.0), strict=True)
        seconds = sum(float(number) * unit for number, unit in parts if number)
    if not 0 < seconds < float("inf"):
        raise ConfigError(f"a budget must be longer than 0 seconds, not {text!r}")
    return seconds


def format_duration(seconds: float) -> str:
    """1h30m, 4m10s, 12.3s."""
    if seconds < 60:
        return f"{round(seconds, 1):g}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return "".join(
        f"{n}{u}" for n, u in ((hours, "h"), (minutes, "m"), (rest, "s")) if n
    )


class Timer:
    """Seconds of a budget; those that earlier sessions spent count too."""

    def __init__(
        self,
        budget: float,
        spent: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.budget, self.clock = budget, clock
        self._begin = clock() - spent

    @property
    def elapsed(self) -> float:
        return self.clock() - self._begin

    @property
    def left(self) -> float:
        """Seconds until the deadline; negative after it."""
        return self.budget - self.elapsed

    def keep(self, seconds: float) -> None:
        """Count less time as spent, so that at least `seconds` of the budget are left."""
        earliest = self.clock() + min(seconds, self.budget) - self.budget
        self._begin = max(self._begin, earliest)


class Guard(NullProgress):
    """Silent progress that raises `OutOfTimeError` at a deadline.

    It stops whatever reports progress: iterations, chunks of users, blocks of a graph.
    """

    def __init__(self, timer: Timer, until: float) -> None:
        self._timer, self.until = timer, until

    def start(self, description: str, total: int | None = None) -> None:
        """Stop before work that would begin too late."""
        self.advance(0)

    def advance(self, steps: int = 1, **fields: Any) -> None:
        if self.is_over():
            raise OutOfTimeError("stopped at its deadline")

    def is_over(self) -> bool:
        return self._timer.elapsed >= self.until
