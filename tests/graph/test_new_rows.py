"""The rows of W that new rows would have, against the definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leporid.errors import GraphError
from leporid.graph.new_rows import fitted_columns, new_row_blocks
from tests.graph import oracle
from tests.graph.matrices import adversarial, random_sets, skewed


def expected(new, fitted, k, thresholds):
    """Own top-k, or more similar than the threshold of the fitted row."""
    weights = oracle.similarities(new, fitted)
    indices, _ = oracle.top_k(weights, min(k, weights.shape[1]))
    chosen = weights > thresholds
    rows, places = np.nonzero(indices >= 0)
    chosen[rows, indices[rows, places]] = True
    return np.where(chosen, weights, 0.0).astype(np.float32)


def found(new, fitted, k, thresholds, **settings):
    columns = fitted_columns(fitted, thresholds)
    blocks = new_row_blocks(new, columns, k, 2, **settings)
    return np.vstack([block.csr().toarray() for block in blocks])


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 10_000), k=st.integers(1, 60), entries=st.sampled_from([1, 130, 10**6]))
def test_own_neighbours_or_chosen_by_the_other(seed, k, entries):
    rng = np.random.default_rng(seed)
    fitted, new = skewed(45, 30, seed), skewed(23, 30, seed + 1)
    thresholds = (rng.random(45) ** 2 * rng.integers(0, 2, 45)).astype(np.float32)
    wanted = expected(new, fitted, k, thresholds)
    np.testing.assert_array_equal(found(new, fitted, k, thresholds, entries=entries), wanted)


@pytest.mark.parametrize("name", list(adversarial()))
def test_adversarial_matrices(name):
    matrix, k = adversarial()[name]
    thresholds = np.full(matrix.shape[0], 0.3, np.float32)
    wanted = expected(matrix, matrix, k, thresholds)
    np.testing.assert_array_equal(found(matrix, matrix, k, thresholds), wanted)


def test_other_columns_are_refused():
    columns = fitted_columns(random_sets(9, 8, 0.5, 0), np.zeros(9, np.float32))
    with pytest.raises(GraphError, match="7 columns"):
        next(new_row_blocks(random_sets(3, 7, 0.5, 1), columns, 2, 1))
