"""Target events are what counts: in the lists, in the targets, in the metrics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from leporid.data import IdMap, Interactions, Split
from leporid.errors import DataError
from leporid.evaluation import evaluate

IDS: Any = IdMap.range(3, "user"), IdMap.range(6, "item")
SCORES = np.array([6, 5, 4, 3, 2, 1], np.float32) + np.zeros((3, 1), np.float32)


def part(*rows: tuple[int, int, bool], disliked: Interactions | None = None) -> Interactions:
    user, item, is_target = np.array(rows).T
    more: Any = {"is_target": is_target.astype(bool), "disliked": disliked}
    return Interactions.from_arrays(user, item, None, *IDS, **more)


@pytest.fixture
def split() -> Split:
    """User 0 viewed 1 and bought 0, user 1 dislikes 0; tests have views that are no targets."""
    disliked = Interactions.from_arrays(np.array([1]), np.array([0]), None, *IDS)
    train = part((0, 0, True), (0, 1, False), (1, 2, True), (2, 3, False), disliked=disliked)
    test = part((0, 1, True), (0, 0, True), (0, 5, False), (1, 1, True), (2, 4, False))
    return Split(train, train.select(np.arange(0)), test, "by hand")


def test_lists_and_targets_by_hand(split: Split) -> None:
    table = evaluate(SCORES, split, at=(2,))
    assert table.user.tolist() == [0, 1]  # user 2 has no target
    assert table.top.tolist() == [[1, 2], [1, 3]]  # viewed: shown; bought, disliked: not
    assert table.repeated == 1
    assert table.mean()["HR@2"] == 1.0
    again = evaluate(SCORES, split, at=(2,), include_seen=True)
    assert again.top.tolist() == [[0, 1], [1, 2]]  # what is disliked stays hidden
    assert again.relevant.sum(axis=1).tolist() == [2, 1]


def test_a_part_without_target_events_is_an_error(split: Split) -> None:
    empty = Split(split.train, split.valid, part((2, 4, False)), "by hand")
    with pytest.raises(DataError, match="has no target event"):
        evaluate(SCORES, empty)
