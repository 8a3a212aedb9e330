"""Durations, the timer of a budget, and the deadline that stops work."""

import re
import time
from collections.abc import Callable

from leporid.errors import ConfigError, LeporidError
from leporid.foundation import NullProgress

_DURATION = re.compile(
    r"\s*(?:(\d+(?:\.\d+)?)\s*h)?\s*(?:(\d+(?:\.\d+)?)\s*m(?:in)?)?"
    r"\s*(?:(\d+(?:\.\d+)?)\s*s?)?\s*"
)
_SECONDS_PER_UNIT = (3600.0, 60.0, 1.0)


class OutOfTimeError(LeporidError):
    """Work was stopped at its deadline."""


def parse_duration(text: str | float) -> float:
    """Return the seconds of a duration such as 10m, 90s or 1h30m; a plain number is seconds."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        seconds = float(text)
    else:
        match = _DURATION.fullmatch(str(text).lower())
        if not match or not any(match.groups()):
            raise ConfigError(
                f"a budget is a time such as 90s, 10m or 1h30m, not {text!r}"
            )
        numbers = zip(match.groups(), _SECONDS_PER_UNIT, strict=True)
        seconds = sum(float(number) * unit for number, unit in numbers if number)
    if not 0 < seconds < float("inf"):
        raise ConfigError(f"a budget must be longer than 0 seconds, not {text!r}")
    return seconds


def format_duration(seconds: float) -> str:
    """Return a duration as people write it: 1h30m, 4m10s, 12.3s."""
    if seconds < 60:
        return f"{round(seconds, 1):g}s"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    units = ((hours, "h"), (minutes, "m"), (seconds, "s"))
    return "".join(f"{number}{unit}" for number, unit in units if number)


class Timer:
    """Seconds of a budget; those that earlier sessions spent count too."""

    def __init__(
        self,
        budget: float,
        spent: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.budget = budget
        self.clock = clock
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


class Deadline(NullProgress):
    """Silent progress that raises `OutOfTimeError` at a deadline.

    It stops whatever reports progress: iterations, chunks of users, blocks of a graph.
    """

    def __init__(self, timer: Timer, until: float) -> None:
        self._timer = timer
        self.until = until

    def start(self, description: str, total: int | None = None) -> None:
        """Stop before work that would begin too late."""
        self.advance(0)

    def advance(self, steps: int = 1, **fields: object) -> None:
        if self.is_over():
            raise OutOfTimeError("stopped at its deadline")

    def is_over(self) -> bool:
        return self._timer.elapsed >= self.until
