"""`scale_for_model`: z-scores and sizes; isolated rows stay zero."""

from __future__ import annotations

import numpy as np
import pytest

from leporid.embeddings import (
    Embedding,
    InitialEmbeddings,
    scale_for_model,
    standardize,
)


def vectors(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(2.0, 3.0, (n, 4)).astype(np.float32)


def initial(method: str = "svd") -> InitialEmbeddings:
    """Two sides with a row of zeros each."""
    users, items = vectors(9, 1), vectors(7, 2)
    users[3] = items[5] = 0.0
    about = {"method": method}
    return InitialEmbeddings(Embedding(users, None, about), Embedding(items, None, about))


@pytest.mark.parametrize("standardized", [None, True, False])
def test_auto_gives_both_sides_the_size_and_leaves_isolated_rows_zero(
    standardized: bool | None,
) -> None:
    made = scale_for_model(initial(), standardize=standardized, init_scale="auto", size=0.03)
    assert made.users.size == pytest.approx(0.03, rel=1e-5)
    assert made.items.size == pytest.approx(0.03, rel=1e-5)
    assert np.flatnonzero(made.users.isolated).tolist() == [3]
    assert np.flatnonzero(made.items.isolated).tolist() == [5]


def test_a_number_multiplies_z_scores_or_the_vectors_themselves() -> None:
    init = initial()
    scores = scale_for_model(init, standardize=True, init_scale=0.3, size=9.0).users.vectors
    expected = standardize(init.users.vectors, 0.3)
    expected[3] = 0.0
    np.testing.assert_array_equal(scores, expected)
    plain = scale_for_model(init, standardize=False, init_scale=0.3, size=9.0).users.vectors
    np.testing.assert_array_equal(plain, init.users.vectors * np.float32(0.3))


def test_random_vectors_are_used_as_drawn_unless_a_setting_says_otherwise() -> None:
    init = initial("random")
    assert scale_for_model(init, standardize=None, init_scale="auto", size=0.1) is init
    scaled = scale_for_model(init, standardize=None, init_scale=2.0, size=0.1)
    np.testing.assert_array_equal(scaled.items.vectors, init.items.vectors * np.float32(2))
    scores = scale_for_model(init, standardize=True, init_scale="auto", size=0.1)
    assert scores.items.size == pytest.approx(0.1, rel=1e-5)
