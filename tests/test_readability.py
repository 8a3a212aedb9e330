"""The counts of `make lint` see what slows a reader down."""

from __future__ import annotations

import pytest

from tools.readability import count_file, exceeded, measure

SAMPLE = '''
"""A file."""
from typing import Any


class Box:
    """Things."""

    size: int = 0
    """Of the box."""

    def put(self, things: dict[str, Any], **more: Any) -> Any:
        """Put them in."""
        return getattr(self, "fill")(**things, **more)  # fmt: skip
'''


def test_each_count_sees_its_kind() -> None:
    counts = count_file(SAMPLE)
    assert counts["docstrings that lean"] == 1
    assert counts["Any"] == 3
    assert counts["dict[str, Any]"] == 1
    assert counts["calls with **"] == 1
    assert counts["getattr, hasattr"] == 1
    assert counts["fmt: skip"] == 1
    assert counts["code lines"] == 5


def test_docstrings_and_comments_are_no_tokens() -> None:
    plain = count_file("x = 1\n")
    told = count_file('"""A long text."""\nx = 1  # a comment\n')
    assert told["tokens"] == plain["tokens"] == 3


def test_a_higher_count_is_refused_and_a_lower_one_is_not() -> None:
    limits = {"Any": 5, "tokens": 100}
    assert exceeded({"Any": 5, "tokens": 101}, limits) == []
    assert exceeded({"Any": 6, "tokens": 103}, limits) == [
        "Any: 6 are more than 5",
        "tokens: 103 are more than 100",
    ]


@pytest.mark.parametrize("name", ["tokens", "Any", "tokens per code line"])
def test_the_library_is_counted(name: str) -> None:
    assert measure()[name] > 0
