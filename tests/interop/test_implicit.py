"""The real `implicit`: its models start from our vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import threadpoolctl

from leporid.data import Interactions
from leporid.embeddings.svd import SVD
from leporid.errors import ConfigError
from leporid.interop import to_implicit
from tests.initializers.helpers import planted

als = pytest.importorskip("implicit.cpu.als")
bpr = pytest.importorskip("implicit.cpu.bpr")
lmf = pytest.importorskip("implicit.cpu.lmf")

TRAIN = planted(50, 30)


def fit(model: Any, train: Interactions = TRAIN) -> Any:
    """Fit without its progress bar, and without its warning about BLAS threads."""
    with threadpoolctl.threadpool_limits(1, "blas"):
        model.fit(train.csr(), show_progress=False)
    return model


def test_bpr_without_a_step_scores_our_dot_products() -> None:
    made = SVD(dim=8).fit(TRAIN)
    model = to_implicit(bpr.BayesianPersonalizedRanking(factors=8, iterations=0), made, scale=0.3)
    fit(model)
    ready = made.standardized(0.3)
    scores = ready.users.vectors[:5] @ ready.items.vectors.T
    items, found = model.recommend(
        np.arange(5), TRAIN.csr()[:5], N=3, filter_already_liked_items=False
    )
    best = np.argsort(-scores, axis=1)[:, :3]
    np.testing.assert_array_equal(items, best)
    np.testing.assert_allclose(found, np.take_along_axis(scores, best, 1), rtol=1e-5)


def test_rows_have_length_one_unless_told_otherwise() -> None:
    made = SVD(dim=16).fit(TRAIN)
    model = to_implicit(als.AlternatingLeastSquares(factors=16), made)
    np.testing.assert_allclose(model.item_factors, made.standardized(0.25).items.vectors)
    raw = to_implicit(als.AlternatingLeastSquares(factors=16), made, standardize=False)
    np.testing.assert_array_equal(raw.item_factors, made.items.vectors)


def test_rows_of_bpr_are_shorter() -> None:
    made = SVD(dim=16).fit(TRAIN)
    model = to_implicit(bpr.BayesianPersonalizedRanking(factors=16), made)
    lengths = np.linalg.norm(model.user_factors[:, :16], axis=1)
    assert np.sqrt(np.square(lengths).mean()) == pytest.approx(0.3, rel=1e-5)


def test_its_own_recommend_takes_a_row_of_our_matrix() -> None:
    model = fit(als.AlternatingLeastSquares(factors=4, iterations=1, random_state=1))
    items, _ = model.recommend(3, TRAIN.csr()[3], N=4)
    assert not set(items.tolist()) & set(TRAIN.sequences().of(3).tolist())


@pytest.mark.parametrize("name", ["bpr", "lmf"])
def test_one_iteration_stays_near_our_start_and_far_from_its_own(name: str) -> None:
    made = SVD(dim=8).fit(TRAIN)
    kinds = {"bpr": bpr.BayesianPersonalizedRanking, "lmf": lmf.LogisticMatrixFactorization}

    def model() -> Any:
        return kinds[name](factors=8, iterations=1, learning_rate=1e-3, random_state=1)

    ours = fit(to_implicit(model(), made, scale=1.0))
    theirs = fit(model())
    # The constant columns beside its biases are where implicit itself has them.
    for fitted in (ours, theirs):
        np.testing.assert_array_equal(fitted.user_factors[:, 8], 1.0)
        if name == "lmf":
            np.testing.assert_array_equal(fitted.item_factors[:, 9], 1.0)
    # The biases themselves start at zero; implicit writes the constants again, not these.
    assert np.abs(ours.item_factors[:, 8]).max() < 0.1
    if name == "lmf":
        assert np.abs(ours.user_factors[:, 9]).max() < 0.1
    start = made.standardized().users.vectors
    moved = np.linalg.norm(ours.user_factors[:, :8] - start)
    assert 0 < moved < 0.05 * np.linalg.norm(start)
    assert np.linalg.norm(theirs.user_factors[:, :8] - start) > 10 * moved


def test_als_first_half_step_is_solved_from_our_item_vectors() -> None:
    made = SVD(dim=8).fit(TRAIN)
    model = als.AlternatingLeastSquares(
        factors=8, iterations=1, use_cg=False, regularization=0.1, alpha=2.0, random_state=1
    )
    fit(to_implicit(model, made, scale=1.0))
    Y = made.standardized().items.vectors.astype(np.float64)
    dense = TRAIN.csr().toarray()
    users = []
    for row in dense:
        confidence = 1 + (2.0 - 1) * row  # implicit's confidence of a stored entry is alpha * value
        A = Y.T @ (confidence[:, None] * Y) + 0.1 * np.eye(8)
        users.append(np.linalg.solve(A, Y.T @ (confidence * row)))
    np.testing.assert_allclose(model.user_factors, users, atol=2e-3)


def test_another_order_of_ids_and_mistakes() -> None:
    made = SVD(dim=8).fit(TRAIN)
    ids = TRAIN.users.ids.to_pylist()
    model = to_implicit(
        bpr.BayesianPersonalizedRanking(factors=8), made, id_map={"users": ids[::-1]}, scale=1.0
    )
    np.testing.assert_array_equal(
        model.user_factors[:, :8], made.standardized().users.vectors[::-1]
    )
    with pytest.raises(ConfigError, match="factors=8"):
        to_implicit(bpr.BayesianPersonalizedRanking(factors=9), made)
    with pytest.raises(ConfigError, match="cannot be initialised"):
        to_implicit(object(), made)
