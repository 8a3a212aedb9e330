"""`frequency` and `recent` against sums and counts by hand."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import leporid
from leporid.data import Interactions, Sequences, Split
from leporid.errors import LeporidWarning
from leporid.models.closed_form.frequency import Frequency
from leporid.models.closed_form.recent import Recent
from leporid.models.closed_form.toppop import TopPop
from tests.models.test_repeats import events

DAY, NOW = 86_400, 1_700_000_000


def whole(data: Interactions) -> Split:
    """Everything is training: nothing is held out."""
    nothing = data.select(np.arange(0))
    return Split(data, nothing, nothing, "everything")


@pytest.mark.parametrize("weighted", [False, True])
def test_a_score_is_the_sum_of_halved_weights(weighted: bool) -> None:
    data = events()
    if weighted:
        rng = np.random.default_rng(1)
        weight = rng.uniform(0.5, 2, len(data)).astype(np.float32)
        ids = data.users, data.items
        every = {"weight": weight, "duplicates": "all"}
        data = Interactions.from_arrays(data.user, data.item, data.time, *ids, **every)  # type: ignore[arg-type]
    model = Frequency(half_life=3.0).fit(whole(data))
    scores = model.score(np.arange(31, dtype=np.int32))
    rows, popular = data.sequences(), Counter(data.item.tolist())
    for user in range(31):
        own, expected = rows.of(user).tolist(), Counter[int]()
        weights = np.ones(len(rows.items)) if rows.weights is None else rows.weights
        for place, item in enumerate(own):
            newer = len(own) - 1 - place
            expected[item] += float(weights[rows.indptr[user] + place]) * 0.5 ** (newer / 3.0)
        for item in range(17):
            if item in expected:
                assert scores[user, item] == pytest.approx(expected[item], abs=2e-6)
            else:
                assert scores[user, item] < 0
        others = [item for item in range(17) if item not in expected]
        ranked = sorted(others, key=lambda item: (-scores[user, item], item))
        assert ranked == sorted(others, key=lambda item: (-popular[item], item))


def test_equals_go_by_popularity_and_the_oldest_item_is_above_all_others() -> None:
    data = events()
    model = Frequency(half_life=0.01).fit(whole(data))  # all but the newest weigh nothing
    for user in range(31):
        own = data.sequences().of(user)
        best = model.top_k(np.array([user], np.int32), 17, include_seen=True).items[0]
        ranked = best[best >= 0].tolist()
        known = set(own.tolist())
        assert set(ranked[: len(known)]) == known
        assert ranked[0] == own[-1]
        popular = Counter(data.item.tolist())
        rest = ranked[1 : len(known)]
        assert [popular[item] for item in rest] == sorted((popular[i] for i in rest), reverse=True)


def test_where_nothing_is_shown_twice_it_is_toppop_and_new_users_have_their_own() -> None:
    split = leporid.temporal_split(events())
    model, popular = Frequency().fit(split), TopPop().fit(split)
    users = np.arange(31, dtype=np.int32)
    np.testing.assert_array_equal(model.top_k(users, 5).items, popular.top_k(users, 5).items)
    ids = model.items.externals(np.array([4, 9, 9, 2]))
    again, _ = model.recommend_history(list(ids), n=3, include_seen=True)
    assert again.tolist() == [ids[1], ids[3], ids[0]]
    known = Sequences.from_rows([np.array([4, 9, 9, 2], np.int32)] * 31)
    assert model.score(users[:1], known)[0].argmax() == 9


def log(unit: int) -> Interactions:
    """Item 0 was popular long ago, item 1 is now; 2 and 3 are as popular, 3 for longer."""
    rows = [(u, 0, NOW - 90 * DAY + u) for u in range(9)]
    rows += [(u, 1, NOW - 2 * DAY + u) for u in range(5)]
    rows += [(9, 2, NOW - DAY), (10, 3, NOW - DAY), (11, 3, NOW - 60 * DAY), (12, 4, NOW)]
    user, item, time = np.array(rows).T
    return leporid.load({"user": user, "item": item, "time": time * unit}, duplicates="all")


@pytest.mark.parametrize("unit", [1, 1000, 1_000_000])
def test_recent_counts_days_whatever_the_unit(unit: int) -> None:
    week = Recent().fit(whole(log(unit)))
    assert week.top_k(np.zeros(1, np.int32), 5, include_seen=True).items[0].tolist() == [
        1, 3, 2, 4, 0,
    ]  # fmt: skip
    quarter = Recent(days=100.0).fit(whole(log(unit)))
    assert quarter.score(np.zeros(1, np.int32)).astype(int)[0].tolist() == [9, 5, 1, 2, 1]


def test_without_a_unit_the_newest_tenth_counts_and_without_times_everything() -> None:
    rng = np.random.default_rng(3)
    item, time = rng.integers(0, 12, 400), rng.permutation(400)
    data = leporid.load({"user": np.arange(400) % 23, "item": item, "time": time}, duplicates="all")
    assert data.ticks_per_day is None
    newest = Counter(item[time >= 360].tolist())
    scores = Recent(days=1.0).fit(whole(data)).score(np.zeros(1, np.int32))[0]
    assert scores.astype(int).tolist() == [newest[i] for i in range(12)]
    bare = leporid.load({"user": np.arange(400) % 23, "item": item}, duplicates="all")
    with pytest.warns(LeporidWarning, match="no times: recent ranks by"):
        flat = Recent().fit(whole(bare))
    plain = TopPop().fit(whole(bare))
    everyone = np.arange(23, dtype=np.int32)
    np.testing.assert_array_equal(
        flat.top_k(everyone, 12, include_seen=True).items,
        plain.top_k(everyone, 12, include_seen=True).items,
    )
