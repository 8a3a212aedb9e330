from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leporid import Interactions, Split, synthesize, temporal_split
from leporid.errors import ConfigError


@pytest.fixture(scope="module")
def log() -> Interactions:
    return synthesize(900, 400, 40_000, seed=7)


@given(st.integers(1, 40), st.integers(1, 25), st.floats(0, 1), st.integers(0, 5))
@settings(deadline=None, max_examples=60)
def test_exact_number_of_distinct_pairs(users: int, items: int, fill: float, seed: int) -> None:
    """From one interaction a user up to every cell of the matrix."""
    wanted = users + round(fill * (users * items - users))
    data = synthesize(users, items, wanted, seed=seed)
    assert len(data) == wanted
    assert len(np.unique(data.user.astype(np.int64) * items + data.item)) == wanted
    assert np.bincount(data.user, minlength=users).min() >= 1
    assert data.time is not None
    later = np.diff(data.time) > 0
    assert np.all(later | (np.diff(data.user) == 1))


def test_same_seed_same_log() -> None:
    first = synthesize(300, 150, 9000, seed=3)
    assert synthesize(300, 150, 9000, seed=3).digest == first.digest
    assert synthesize(300, 150, 9000, seed=4).digest != first.digest


def test_impossible_sizes_are_refused() -> None:
    with pytest.raises(ConfigError, match="from 10 to 50 distinct interactions, not 51"):
        synthesize(10, 5, 51)


def test_power_laws(log: Interactions) -> None:
    activity = np.sort(np.bincount(log.user))
    assert activity[0] >= 20
    assert log.stats().tail_item_share < 0.10
    assert activity[-9:].sum() > 5 * activity[:9].sum()


def _precision(scores: np.ndarray, split: Split, n: int = 10) -> np.ndarray:
    scores = np.where(split.train_valid.csr().toarray() > 0, -np.inf, scores)
    top = np.argsort(-scores, axis=1)[:, :n]
    return np.take_along_axis(split.test.csr().toarray(), top, axis=1).mean(axis=1)


def _standard_errors(better: np.ndarray, worse: np.ndarray) -> float:
    """How many standard errors the mean paired difference over users is above zero."""
    difference = better - worse
    return float(difference.mean() / (difference.std(ddof=1) / np.sqrt(len(difference))))


def test_neighbours_beat_popularity_and_recent_items_beat_all(log: Interactions) -> None:
    """What a benchmark needs: personal taste, and an order worth knowing."""
    split = temporal_split(log)
    train = split.train.csr().toarray()
    popularity = train.sum(axis=0)
    similarity = (train.T @ train) / (np.sqrt(np.outer(popularity, popularity)) + 10)
    np.fill_diagonal(similarity, 0)
    known = split.train_valid
    recent = np.zeros_like(train)
    sequences = known.sequences()
    for user in range(len(sequences)):
        recent[user, sequences.of(user)[-10:]] = 1
    by_popularity = _precision(np.tile(popularity, (len(train), 1)), split)
    by_all = _precision(known.csr().toarray() @ similarity, split)
    by_recent = _precision(recent @ similarity, split)
    assert _standard_errors(by_all, by_popularity) > 5
    assert _standard_errors(by_recent, by_all) > 5
