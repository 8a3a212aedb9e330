"""Sums over the rows of W that new rows would have, against the definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leporid.errors import GraphError
from leporid.graph import NearestRows, nearest_rows
from tests.graph import oracle
from tests.graph.matrices import adversarial, random_sets, skewed


def expected(new, fitted, k, thresholds):
    """Own top-k, or more similar than the threshold of the fitted row."""
    weights = oracle.similarities(new, fitted)
    indices, _ = oracle.top_k(weights, min(k, weights.shape[1]))
    chosen = weights > thresholds
    rows, ranks = np.nonzero(indices >= 0)
    chosen[rows, indices[rows, ranks]] = True
    return np.where(chosen, weights, 0.0).astype(np.float32)


def found(new, fitted, k, thresholds, without=None):
    """The weights themselves: sums over a table that tells every fitted row apart."""
    every_row = np.eye(fitted.shape[0], dtype=np.float32)
    blocks = list(NearestRows(fitted, thresholds, 2).sums(new, every_row, k, without))
    weights = np.vstack([sums for _, sums, _ in blocks])
    totals = np.concatenate([totals for _, _, totals in blocks])
    np.testing.assert_allclose(totals, weights.sum(axis=1, dtype=np.float64))
    return weights


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10_000), k=st.integers(1, 60), block=st.sampled_from([1, 5, 1024]))
def test_own_neighbours_or_chosen_by_the_other(seed, k, block):
    rng = np.random.default_rng(seed)
    fitted, new = skewed(45, 30, seed), skewed(23, 30, seed + 1)
    thresholds = (rng.random(45) ** 2 * rng.integers(0, 2, 45)).astype(np.float32)
    without = rng.integers(-1, 45, 23)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nearest_rows, "BLOCK_ROWS", block)
        one, other = (found(new, fitted, k, thresholds, skip) for skip in (None, without))
    target = expected(new, fitted, k, thresholds)
    np.testing.assert_array_equal(one, target)
    target[without >= 0, without[without >= 0]] = 0.0
    np.testing.assert_array_equal(other, target)


@pytest.mark.parametrize("name", list(adversarial()))
def test_adversarial_matrices(name):
    matrix, k = adversarial()[name]
    thresholds = np.full(matrix.shape[0], 0.3, np.float32)
    target = expected(matrix, matrix, k, thresholds)
    np.testing.assert_array_equal(found(matrix, matrix, k, thresholds), target)


def test_other_columns_are_refused():
    nearest = NearestRows(random_sets(9, 8, 0.5, 0))
    with pytest.raises(GraphError, match="7 columns"):
        next(nearest.sums(random_sets(3, 7, 0.5, 1), np.eye(9, dtype=np.float32), 2))
