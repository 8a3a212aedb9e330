from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leporid import Interactions, Split, load, temporal_split
from leporid.data import IdMap
from leporid.errors import ConfigError, DataError, LeporidWarning, UnknownIdError
from tests.data.strategies import Row, external_rows, interactions_of, naive_history, rows


def naive_core(kept: list[Row], k: int) -> list[Row]:
    while True:
        users = [row[0] for row in kept]
        items = [row[1] for row in kept]
        left = [row for row in kept if users.count(row[0]) >= k and items.count(row[1]) >= k]
        if left == kept:
            return kept
        kept = left


@given(rows, st.integers(1, 4))
@settings(deadline=None, max_examples=150)
@pytest.mark.filterwarnings("ignore:the .-core leaves")
def test_core_matches_the_obvious_loop(log: list[Row], k: int) -> None:
    expected = naive_core(naive_history(log), k)
    data = interactions_of(log)
    if not expected:
        with pytest.raises(DataError, match=f"the {k}-core of {len(data)} interactions"):
            data.core(k)
        return
    core = data.core(k)
    assert external_rows(core) == expected
    assert np.bincount(core.user).min() >= k
    assert np.bincount(core.item).min() >= k
    assert (core.n_users, core.n_items) == (core.user.max() + 1, core.item.max() + 1)
    assert core.core(k).digest == core.digest
    assert sum(core.dropped.values()) == len(log) - len(expected)


def test_ids_dropped_by_two_cores_are_both_known() -> None:
    pairs = [(u, i) for u in range(6) for i in range(6)] + [(7, 0), (7, 1), (7, 2)]
    log = {"user": [*(str(u) for u, _ in pairs), "x"], "item": [*(i for _, i in pairs), 0]}
    users = load(log).core(2).core(4).users
    assert users.ids.to_pylist() == list("012345")
    assert users.dropped is not None
    assert users.dropped.ids.to_pylist() == ["7", "x"]


def test_k_must_be_positive() -> None:
    with pytest.raises(ConfigError, match="k >= 1"):
        interactions_of([(0, 0, 0)]).core(0)


@pytest.mark.slow
@pytest.mark.realdata
def test_movielens_1m_has_the_known_core(real_data: Path) -> None:
    data = load(real_data / "ml-1m-r3.parquet")
    assert (data.n_users, data.n_items, len(data)) == (6038, 3307, 835_789)
    core = data.core(20)
    assert (core.n_users, core.n_items, len(core)) == (5741, 2803, 824_857)


def lopsided() -> Interactions:
    """4 users with 5 items each, and 6 users with one."""
    return interactions_of([(u, i, i) for u in range(4) for i in range(5)]
                           + [(10 + u, u % 5, 0) for u in range(6)])  # fmt: skip


def test_a_core_that_drops_most_users_says_so() -> None:
    with pytest.warns(LeporidWarning, match="the 2-core leaves 4 of 10 users"):
        core = lopsided().core(2)
    assert core.dropped == {"outside the 2-core": 6}
    assert core.users.dropped is not None
    assert core.users.dropped.ids.to_pylist() == [10, 11, 12, 13, 14, 15]
    assert (core.users.core, core.items.dropped) == (2, None)


@pytest.mark.filterwarnings("ignore:the .-core leaves")
def test_an_id_that_was_dropped_is_answered_so(tmp_path: Path) -> None:
    core = lopsided().core(2)
    again = Split.load(temporal_split(core).save(tmp_path / "split")).users
    for users in (core.users, again):
        with pytest.raises(UnknownIdError, match="user '12' was dropped by --core 2"):
            users.index("12")
        with pytest.raises(UnknownIdError, match="unknown user 77"):
            users.index(77)
    # A second filter adds to what the first has dropped.
    text = load({"user": list("aaabbbeeeccd"), "item": list("xyzxyzxyzxyx")})
    twice = text.core(2).core(3)
    for name in "cd":
        with pytest.raises(UnknownIdError, match="dropped by --core 3"):
            IdMap.from_arrays(twice.users.to_arrays(), "user").index(name)
