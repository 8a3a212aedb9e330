"""Held-out items that a user has already: judged only where they may be recommended."""

from __future__ import annotations

import numpy as np
import pytest

from leporid.data import IdMap, Interactions, Split
from leporid.errors import DataError
from leporid.evaluation import evaluate
from leporid.ranking import TopK

USERS, ITEMS = IdMap.range(4, "user"), IdMap.range(6, "item")


def part(*rows: tuple[int, int]) -> Interactions:
    user, item = np.array(rows).T
    return Interactions.from_arrays(user, item, None, USERS, ITEMS, duplicates="all")


@pytest.fixture
def split() -> Split:
    """User 0 repeats an item and finds one, twice; 1 only repeats; 2 only finds; 3 has no test."""
    train = part((0, 1), (0, 1), (1, 2), (2, 0), (3, 3))
    valid = part((0, 2), (1, 3))
    return Split(train, valid, part((0, 1), (0, 4), (0, 4), (1, 2), (1, 3), (2, 5)), "by hand")


SCORES = np.array([6, 5, 4, 3, 2, 1], np.float32) + np.zeros((4, 1), np.float32)


def test_known_items_are_neither_ranked_nor_judged_by_default(split: Split) -> None:
    table = evaluate(SCORES, split, at=(3,))
    assert table.user.tolist() == [0, 2]
    assert table.top.tolist() == [[0, 3, 4], [1, 2, 3]]
    assert table.relevant.sum(axis=1).tolist() == [1, 1]
    assert table.repeated == 3
    assert table.mean()["HR@3"] == 0.5
    assert table.per_user("Recall@3").tolist() == [1.0, 0.0]


def test_with_known_items_every_test_item_counts_once(split: Split) -> None:
    table = evaluate(SCORES, split, at=(3,), include_seen=True)
    assert table.user.tolist() == [0, 1, 2]
    assert table.top.tolist() == [[0, 1, 2]] * 3
    assert table.relevant.sum(axis=1).tolist() == [2, 2, 1]
    assert (table.repeated, table.skipped) == (0, 1)
    assert table.per_user("Recall@3").tolist() == [0.5, 0.5, 0.0]
    assert table.per_user("Precision@3") == pytest.approx([1 / 3, 1 / 3, 0])


def test_a_known_item_in_a_foreign_list_is_no_hit(split: Split) -> None:
    lists = np.array([[1, 4, 0], [2, 3, 0], [5, 0, 1], [0, 1, 2]], np.int32)
    top = TopK(lists, np.zeros((4, 3), np.float32))
    new = evaluate(top, split, at=(3,))
    assert new.hits.tolist() == [[False, True, False], [True, False, False]]
    again = evaluate(top, split, at=(3,), include_seen=True)
    assert again.hits.tolist() == [[True, True, False], [True, True, False], [True, False, False]]


def test_nothing_but_repeats_is_an_error_that_names_the_option(split: Split) -> None:
    only = Split(split.train, split.valid, part((0, 1), (1, 2)), "by hand")
    with pytest.raises(DataError, match="--include-seen"):
        evaluate(SCORES, only)
    assert evaluate(SCORES, only, include_seen=True).mean()["HR@5"] == 1.0
