"""`random`: its moments, its seed, and that the two sides are separate draws."""

from __future__ import annotations

import numpy as np

from leporid.embeddings.random import Random
from tests.initializers.helpers import planted


def test_moments_seed_and_separate_streams() -> None:
    train = planted(400, 150)
    made = Random(seed=4).fit(train)
    assert made.users.vectors.shape == (400, 64)
    assert made.items.vectors.shape == (150, 64)
    assert made.users.vectors.dtype == np.float32
    assert abs(float(made.users.vectors.mean())) < 3e-4
    assert abs(float(made.users.vectors.std()) - 0.01) < 3e-4
    np.testing.assert_array_equal(made.users.vectors, Random(seed=4).fit(train).users.vectors)
    assert not np.array_equal(made.users.vectors, Random(seed=5).fit(train).users.vectors)
    assert not np.array_equal(made.users.vectors[:150], made.items.vectors)
    assert Random.standardize_by_default is False
