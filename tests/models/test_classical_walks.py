"""P3alpha and RP3beta against the dense formula and against similaripy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import similaripy
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from leporid.data import IdMap, Interactions, temporal_split
from leporid.errors import ConfigError
from leporid.graph import canonical
from leporid.models.closed_form.p3alpha import P3Alpha, walk_weights
from leporid.models.closed_form.rp3beta import RP3Beta
from tests.test_contract import make_split

NEAR = 1e-6
"""Entries closer than this, relatively, may be ties: the walk is computed in float32."""


def dense_walk(x: NDArray[np.float64], alpha: float, beta: float) -> NDArray[np.float64]:
    users = np.maximum(x.sum(axis=1), 1)
    items = np.maximum(x.sum(axis=0), 1)
    to_user = (x.T / items[:, None]) ** alpha * (x.T > 0)
    to_item = (x / users[:, None]) ** alpha * (x > 0)
    walk = to_user @ to_item / items[None, :] ** beta
    np.fill_diagonal(walk, 0.0)
    return walk


def kth_largest(values: NDArray[np.float64], among: NDArray[np.bool_], k: int) -> NDArray[Any]:
    """float64[n]: of each row the k-th largest of the positive entries in `among`, else 0."""
    return np.sort(np.where(among, values, 0.0), axis=1)[:, ::-1][:, min(k, values.shape[1]) - 1]


def check_kept(
    found: NDArray[np.float32], dense: NDArray[np.float64], k: int, normalize: bool
) -> None:
    """`found` holds the k largest of each row of `dense`, and of these the k largest of a column.

    Which of entries that are equal up to rounding is kept is free: what lies above the k-th place
    by more than rounding must be there, what lies below it must not.
    """
    below, above = 1 - NEAR, 1 + NEAR
    limit = kth_largest(dense, dense > 0, k)[:, None]
    possible, certain = (dense > 0) & (dense >= limit * below), dense > limit * above
    if normalize:
        top = np.sort(dense, axis=1)[:, ::-1][:, :k]
        dense = dense / np.maximum(top.sum(axis=1, keepdims=True), 1e-300)
    may = possible & (dense >= kth_largest(dense.T, certain.T, k) * below)
    must = certain & (dense > kth_largest(dense.T, possible.T, k) * above)
    kept = found > 0
    assert (must <= kept).all()
    assert (kept <= may).all()
    assert (kept.sum(axis=1) <= k).all()
    assert (kept.sum(axis=0) <= np.minimum(k, possible.sum(axis=0))).all()
    assert (kept.sum(axis=0) >= np.minimum(k, certain.sum(axis=0))).all()
    np.testing.assert_allclose(found[kept], dense[kept], rtol=1e-5)


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 10_000),
    k=st.integers(1, 14),
    alpha=st.sampled_from([0.0, 0.5, 1.0, 1.7]),
    beta=st.sampled_from([0.0, 0.4, 1.3]),
    normalize=st.booleans(),
)
def test_walks_are_the_dense_formula(
    seed: int, k: int, alpha: float, beta: float, normalize: bool
) -> None:
    rng = np.random.default_rng(seed)
    x = (rng.random((19, 13)) < 0.3 * rng.random(13) + 0.1).astype(np.float64)
    dense = dense_walk(x, alpha, beta)
    found = walk_weights(canonical(sparse.csr_array(x)), k, alpha, beta, normalize).toarray()
    check_kept(found, dense, k, normalize)


def test_walks_are_those_of_similaripy() -> None:
    rng = np.random.default_rng(5)
    x = sparse.csr_array((rng.random((40, 25)) < 0.3).astype(np.float32))
    peer = similaripy.rp3beta(
        x.T.tocsr(), alpha=0.8, beta=0.5, k=25, verbose=False, format_output="csr"
    ).toarray()
    np.fill_diagonal(peer, 0.0)
    ours = walk_weights(canonical(x), 25, 0.8, 0.5, False).toarray()
    np.testing.assert_allclose(ours, peer, rtol=2e-4, atol=1e-7)


def test_equal_weights_go_to_the_smaller_item_first_by_rows_then_by_columns() -> None:
    """Every row keeps its two first targets, 0.5 each, and every target its two first rows."""
    found = walk_weights(canonical(sparse.csr_array(np.ones((3, 6)))), 2, 1.0, 0.0, True).toarray()
    expected = np.zeros((6, 6))
    expected[:3, :3] = 0.5 * (1 - np.eye(3))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_rp3beta_without_beta_is_p3alpha() -> None:
    split = make_split()
    users = np.arange(31, dtype=np.int32)
    p3 = P3Alpha(top_k=5, alpha=0.9, window=None).fit(split)
    np.testing.assert_array_equal(
        RP3Beta(top_k=5, alpha=0.9, beta=0.0, window=None).fit(split).score(users),
        p3.score(users),
    )
    known = split.train_valid.csr().toarray()
    np.testing.assert_allclose(p3.score(users), known @ p3.weights.toarray(), rtol=1e-5)


@pytest.mark.parametrize("model", [P3Alpha, RP3Beta])
def test_targets_sum_to_1_where_the_users_of_an_item_have_enough(model: type[P3Alpha]) -> None:
    """Every user has 10 training interactions, so the users of an item have 10 times as many."""
    for users, expected in ((99, False), (100, True)):
        user, rank = np.divmod(np.arange(20 * users), 20)
        ids = IdMap(np.arange(users)), IdMap(np.arange(20))
        log = Interactions.from_arrays(user, (user + rank) % 20, rank, *ids)
        split = temporal_split(log, train=0.5)
        assert len(split.train) == 10 * users
        assert model(window=None).fit(split).config.normalize is expected
        assert model(window=None, normalize=not expected).fit(split).config.normalize != expected


def test_walks_that_have_no_meaning_are_refused() -> None:
    for cls in (P3Alpha, RP3Beta):
        with pytest.raises(ConfigError, match="top_k"):
            cls(top_k=0)
        with pytest.raises(ConfigError, match="alpha"):
            cls(alpha=-1.0)
