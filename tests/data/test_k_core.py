from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leporid import load
from leporid.errors import ConfigError, DataError
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
