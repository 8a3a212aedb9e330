"""Search spaces are checked when they are written, not when they are searched."""

from __future__ import annotations

import pytest

from leporid.errors import ConfigError
from leporid.foundation import Float, Int, OneOf, active, check_space


def test_empty_ranges_are_refused() -> None:
    for make in (lambda: Int(5, 4), lambda: Float(1.0, 0.5), lambda: OneOf()):
        with pytest.raises(ConfigError):
            make()
    for make in (lambda: Int(0, 4, log=True), lambda: Float(0.0, 0.5, log=True)):
        with pytest.raises(ConfigError, match="logarithmic"):
            make()


def test_a_dimension_says_which_values_lie_inside() -> None:
    assert [value in Int(2, 4) for value in (1, 2, 4, 5, None)] == [False, True, True, False, False]
    assert 0.5 in Float(0.0, 0.5)
    assert 0.6 not in Float(0.0, 0.5)
    assert "b" in OneOf("a", "b")
    assert None not in OneOf("a", "b")
    assert repr(Int(2, 4)) == "Int(when={}, low=2, high=4, log=False)"


def test_a_condition_looks_at_the_settings_chosen_before() -> None:
    dimension = Float(0.0, 1.0, when={"similarity": ("cosine", "tversky")})
    assert active(dimension, {"similarity": "tversky"})
    assert not active(dimension, {"similarity": "jaccard"})
    assert not active(dimension, {})
    assert active(OneOf(1, 2), {})


def test_names_and_conditions_must_exist() -> None:
    with pytest.raises(ConfigError, match="'b' is not one of its settings"):
        check_space({"b": Int(1, 2)}, {"a"}, "toy")
    with pytest.raises(ConfigError, match="'a' depends on 'b', which must come first"):
        check_space({"a": Int(1, 2, when={"b": (1,)}), "b": Int(1, 2)}, {"a", "b"}, "toy")


def test_a_word_lies_in_no_range() -> None:
    assert "auto" not in Int(1, 5)
    assert 3 in Int(1, 5)
