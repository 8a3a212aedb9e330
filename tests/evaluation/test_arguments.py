"""Arguments of the wrong kind are answered with a sentence that says what to give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import leporid
from leporid.errors import ConfigError, DataError
from leporid.models.closed_form.toppop import TopPop

DATA = leporid.synthesize(users=30, items=20, interactions=300, seed=1)
SPLIT = leporid.temporal_split(DATA)
A_SPLIT = r"give it leporid\.temporal_split\(leporid\.load\(\.\.\.\)\)"


def test_training_on_a_log_that_was_not_split() -> None:
    wrong: Any = DATA
    with pytest.raises(ConfigError, match=rf"be a Split, not an Interactions: {A_SPLIT}"):
        leporid.train("toppop", wrong)


def test_swapped_arguments_of_evaluate() -> None:
    model: Any = TopPop().fit(SPLIT)
    wrong: Any = SPLIT
    with pytest.raises(ConfigError, match=rf"evaluate: .* Split, not a TopPop: {A_SPLIT}"):
        leporid.evaluate(wrong, model)


@pytest.mark.parametrize(
    "split", ["temporal_split", "random_split", "leave_last_out", "global_time_split"]
)
def test_what_is_no_log_and_no_table(split: str) -> None:
    wrong: Any = np.zeros((3, 2))
    with pytest.raises(DataError, match=r"cannot load a ndarray: give a path, .* a frame, "):
        getattr(leporid.data, split)(wrong)


def test_a_log_where_a_split_is_searched() -> None:
    wrong: Any = DATA
    with pytest.raises(ConfigError, match=rf"tune: .* not an Interactions: {A_SPLIT}"):
        leporid.tune("toppop", wrong)
    with pytest.raises(ConfigError, match=rf"inner_validation_split: .*: {A_SPLIT}"):
        leporid.inner_validation_split(wrong)
