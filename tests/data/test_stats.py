from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests.data.strategies import Row, interactions_of, naive_history, rows


@given(rows)
@settings(deadline=None, max_examples=80)
def test_table_1_matches_counting_by_hand(log: list[Row]) -> None:
    kept = naive_history(log)
    stats = interactions_of(log).stats()
    for place, size, share in (
        (0, stats.users, stats.tail_user_share),
        (1, stats.items, stats.tail_item_share),
    ):
        column = [row[place] for row in kept]
        counts = sorted(column.count(value) for value in set(column))
        assert size == len(counts)
        assert share == pytest.approx(sum(counts[: len(counts) // 4]) / len(kept))
    assert stats.interactions == len(kept)
    assert stats.density == pytest.approx(len(kept) / (stats.users * stats.items))


def test_as_dict_has_the_columns_of_the_paper() -> None:
    stats = interactions_of([(0, 0, 0), (0, 1, 0), (1, 1, 0)]).stats()
    assert list(stats.as_dict()) == [
        "users",
        "items",
        "interactions",
        "density",
        "tail_user_share",
        "tail_item_share",
    ]
