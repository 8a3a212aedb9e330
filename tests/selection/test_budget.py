"""Durations, the timer, and the guard that stops work."""

from __future__ import annotations

import math

import pytest

from leporid.errors import ConfigError
from leporid.selection import format_duration, parse_duration
from leporid.selection.budget import Deadline, OutOfTimeError, Timer


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *[("10m", 600), ("90s", 90), ("1h30m", 5400), ("1h5s", 3605), ("0.5h", 1800), ("45", 45)],
        *[("2 min", 120), (7, 7), (2.5, 2.5), ("1H 2M 3S", 3723)],
    ],
)
def test_durations(text: str | float, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "10x", "ten minutes", "-5s", "0s", 0, True, "1m1h"])
def test_a_wrong_duration_is_refused_with_an_example(text: str | float) -> None:
    with pytest.raises(ConfigError, match="budget"):
        parse_duration(text)


def test_durations_are_written_as_they_are_read() -> None:
    for seconds in (61, 3600, 5400, 86_399):
        assert parse_duration(format_duration(seconds)) == seconds


def test_time_spent_before_counts() -> None:
    now = 100.0
    timer = Timer(60, spent=50, clock=lambda: now)
    assert (timer.elapsed, timer.left) == (50, 10)
    now = 115.0
    assert timer.left == -5


def test_a_guard_ends_the_work_at_its_moment() -> None:
    now = 0.0
    timer = Timer(10, clock=lambda: now)
    guard = Deadline(timer, until=4)
    guard.start("stage")
    guard.advance()
    now = 4.0
    assert guard.is_over()
    with pytest.raises(OutOfTimeError):
        guard.advance()
    Deadline(timer, math.inf).advance()
