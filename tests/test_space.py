"""Search spaces are checked when they are written, not when they are searched."""

from __future__ import annotations

import pytest

from leporid.errors import ConfigError
from leporid.space import Choice, Float, Int, active, check_space


def test_empty_ranges_are_refused() -> None:
    for make in (lambda: Int(5, 4), lambda: Float(1.0, 0.5), lambda: Choice()):
        with pytest.raises(ConfigError):
            make()
    for make in (lambda: Int(0, 4, log=True), lambda: Float(0.0, 0.5, log=True)):
        with pytest.raises(ConfigError, match="logarithmic"):
            make()


def test_a_condition_looks_at_the_settings_chosen_before() -> None:
    dimension = Float(0.0, 1.0, when={"similarity": ("cosine", "tversky")})
    assert active(dimension, {"similarity": "tversky"})
    assert not active(dimension, {"similarity": "jaccard"})
    assert not active(dimension, {})
    assert active(Choice(1, 2), {})


def test_names_and_conditions_must_exist() -> None:
    with pytest.raises(ConfigError, match="'b', which it has not"):
        check_space({"b": Int(1, 2)}, {"a"}, "toy")
    with pytest.raises(ConfigError, match="'a' depends on 'b', which must come first"):
        check_space({"a": Int(1, 2, when={"b": (1,)}), "b": Int(1, 2)}, {"a", "b"}, "toy")
