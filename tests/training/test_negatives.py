"""Negatives against brute force: never a positive, and the distribution that was asked for."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from leporid.data import IdMap, Interactions
from leporid.models import NegativeSampler, TrainingData

CPU = torch.device("cpu")


def data_of(matrix: np.ndarray) -> TrainingData:
    user, item = np.nonzero(matrix)
    order = np.random.default_rng(0).permutation(len(user))
    users, items = IdMap.range(matrix.shape[0]), IdMap.range(matrix.shape[1])
    made = Interactions.from_arrays(user[order], item[order], None, users, items)
    return TrainingData.from_interactions(made, CPU)


def draw(sampler: NegativeSampler, users: list[int], count: int, seed: int = 0) -> np.ndarray:
    source = torch.Generator().manual_seed(seed)
    return sampler.sample(torch.tensor(users), count, source).numpy()


@given(
    seed=st.integers(0, 10_000),
    n_users=st.integers(1, 7),
    n_items=st.integers(1, 9),
)
@settings(max_examples=60, deadline=None)
def test_exactly_the_items_that_are_no_positives_are_drawn(
    seed: int, n_users: int, n_items: int
) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.random((n_users, n_items)) < rng.choice([0.0, 0.4, 0.9, 1.0], size=(n_users, 1))
    matrix[0, 0] = True
    sampler = NegativeSampler(data_of(matrix))
    drawn = draw(sampler, list(range(n_users)), 400)
    for user in range(n_users):
        free = np.flatnonzero(~matrix[user])
        assert set(drawn[user].tolist()) == (set(free.tolist()) if len(free) else {-1})
    np.testing.assert_array_equal((sampler.free > 0).numpy(), ~matrix.all(axis=1))
    # What a GPU does with the same draws.
    users = torch.arange(n_users)
    places = torch.randint(2**62, (n_users, 50), generator=torch.Generator().manual_seed(seed))
    assert torch.equal(sampler.items_on_cpu(users, places), sampler.items(users, places))


def test_uniform_draws_are_uniform() -> None:
    matrix = np.zeros((3, 11), bool)
    matrix[0, [0, 3, 4, 10]] = matrix[1, [5]] = matrix[2, [0, 1, 2]] = True
    drawn = draw(NegativeSampler(data_of(matrix)), [0, 1, 2], 20_000)
    for user in range(3):
        counts = np.bincount(drawn[user], minlength=11)[~matrix[user]]
        assert stats.chisquare(counts).pvalue > 1e-3
