from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leporid.data import IdMap, Interactions
from leporid.errors import UnknownIdError
from tests.data.strategies import Row, external_rows, interactions_of, naive_history, rows


@given(rows)
@settings(deadline=None, max_examples=150)
def test_order_and_duplicates_match_the_obvious_way(log: list[Row]) -> None:
    data = interactions_of(log)
    kept = naive_history(log)
    assert external_rows(data) == kept
    assert data.dropped.get("duplicate pair", 0) == len(log) - len(kept)


@given(rows)
@settings(deadline=None, max_examples=50)
def test_without_times_the_order_of_the_file_counts(log: list[Row]) -> None:
    data = interactions_of(log, with_time=False)
    kept = naive_history([(user, item, 0) for user, item, _ in log])
    assert [row[:2] for row in external_rows(data)] == [row[:2] for row in kept]


def test_times_too_far_apart_for_one_key_are_still_stable() -> None:
    ids = IdMap.range(3)
    time = np.array([2**62, -(2**62), 2**62, 0])
    data = Interactions.from_arrays(
        np.array([1, 1, 1, 0]), np.array([2, 0, 1, 2]), time, ids, IdMap.range(3)
    )
    assert data.item.tolist() == [2, 0, 2, 1]


@given(rows, st.integers(1, 4))
@settings(deadline=None, max_examples=50)
def test_the_newest_items_of_each_user(log: list[Row], n: int) -> None:
    sequences = interactions_of(log).sequences()
    for some in (sequences, sequences.take(np.arange(len(sequences))[1:])):
        newest = some.last(n)
        assert len(newest) == len(some)
        for user in range(len(some)):
            assert newest.of(user).tolist() == some.of(user)[-n:].tolist()


def test_csr_is_user_by_item() -> None:
    data = interactions_of([(0, 4, 1), (0, 2, 0), (1, 9, 5)])
    assert data.csr().toarray().tolist() == [[1, 1, 0], [0, 0, 1]]
    assert data.sequences().of(0).tolist() == [0, 1]
    assert data.csr().has_sorted_indices


def test_popularity_counts_items_without_events_too() -> None:
    data = interactions_of([(0, 4, 1), (0, 2, 0), (1, 2, 5), (1, 9, 6)])
    assert data.popularity.tolist() == [2, 1, 1]
    assert data.select(data.user == 0).popularity.tolist() == [1, 1, 0]


@pytest.mark.parametrize("values", [[5, -3, 12], ["b", "é", "007", "7"], ["日本", "a\0b"]])
def test_id_map_arrays_round_trip(values: list[object]) -> None:
    ids = IdMap.from_values(values, "item")
    again = IdMap.from_arrays(ids.to_arrays(), "item")
    assert again == ids
    assert again.digest == ids.digest
    assert sorted(values, key=str) == sorted(again.ids.to_pylist(), key=str)


def test_unknown_id_is_named() -> None:
    ids = IdMap.from_values([1, 2], "user")
    assert ids.index("2") == 1
    with pytest.raises(UnknownIdError, match="unknown user 'x'"):
        ids.index("x")


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
