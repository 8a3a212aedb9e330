"""SLIM and EASE against scikit-learn, their closed form and their optimality conditions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from sklearn.linear_model import ElasticNet

from leporid.errors import ConfigError, DataError, LeporidWarning, NotFittedError
from leporid.foundation import NullProgress
from leporid.graph import canonical
from leporid.models.closed_form.ease import EASE, ease_weights, neighbour_regressions
from leporid.models.closed_form.slim import SLIM, SLIMConfig, slim_weights
from tests.test_contract import make_split


def matrix(users: int = 120, items: int = 90, seed: int = 0) -> NDArray[np.float64]:
    """Binary, with popular and rare items, and one item nobody has."""
    rng = np.random.default_rng(seed)
    x = (rng.random((users, items)) < 0.5 * rng.random(items)).astype(np.float64)
    x[:, 7] = 0.0
    return x


@pytest.mark.parametrize(
    ("alpha", "l1_ratio", "positive"),
    [(0.01, 0.1, True), (0.001, 0.5, True), (0.01, 0.3, False), (0.002, 1.0, True)],
)
def test_slim_columns_are_those_of_scikit_learn(
    alpha: float, l1_ratio: float, positive: bool
) -> None:
    x = matrix()
    config = SLIMConfig(
        l1=len(x) * alpha * l1_ratio,
        l2=len(x) * alpha * (1 - l1_ratio),
        positive=positive,
        top_k=90,
        max_iterations=2000,
        tolerance=1e-9,
    )
    weights = slim_weights(canonical(sparse.csr_array(x)), config).toarray()
    assert np.all(np.diag(weights) == 0)
    for j in range(0, 90, 5):
        others = x.copy()
        others[:, j] = 0.0
        net = ElasticNet(
            alpha=alpha,
            l1_ratio=l1_ratio,
            positive=positive,
            fit_intercept=False,
            max_iter=50_000,
            tol=1e-11,
        )
        np.testing.assert_allclose(weights[:, j], net.fit(others, x[:, j]).coef_, atol=2e-6)
    assert (weights != 0).any()


def test_slim_keeps_the_largest_weights_of_each_target() -> None:
    x = canonical(sparse.csr_array(matrix(seed=1)))
    full = slim_weights(x, SLIMConfig(l1=0.05, l2=0.4, top_k=90)).toarray()
    cut = slim_weights(x, SLIMConfig(l1=0.05, l2=0.4, top_k=4)).toarray()
    assert (full != 0).sum(axis=0).max() > 4
    for j in range(90):
        kept = np.argsort(-full[:, j], kind="stable")[:4]
        expected = np.zeros(90, dtype=np.float32)
        expected[kept] = full[kept, j]
        np.testing.assert_array_equal(cut[:, j], expected)


def test_a_strong_l1_penalty_leaves_nothing() -> None:
    x = canonical(sparse.csr_array(matrix()))
    assert slim_weights(x, SLIMConfig(l1=1000.0)).nnz == 0


def test_ease_is_its_closed_form() -> None:
    x = matrix(seed=2)
    inverse = np.linalg.inv(x.T @ x + 3.5 * np.eye(90))
    expected = np.eye(90) - inverse / np.diag(inverse)[None, :]
    weights = ease_weights(canonical(sparse.csr_array(x)), 3.5)
    np.testing.assert_allclose(weights, expected, atol=1e-5)
    assert weights.dtype == np.float32
    assert np.all(np.diag(weights) == 0)


def test_ease_meets_its_optimality_conditions() -> None:
    """Off the diagonal the gradient X'(XB - X) + lambda B vanishes."""
    x = matrix(seed=3)
    weights = ease_weights(canonical(sparse.csr_array(x)), 20.0).astype(np.float64)
    gradient = x.T @ (x @ weights - x) + 20.0 * weights
    off = ~np.eye(90, dtype=bool)
    assert np.abs(gradient[off]).max() < 1e-3
    assert np.abs(np.diag(gradient)).max() > 1.0


def test_linear_models_score_known_rows_times_weights() -> None:
    split = make_split()
    known = split.train_valid.csr().toarray()
    users = np.array([4, 0, 30], dtype=np.int32)
    slim = SLIM(l1=0.06, l2=0.6).fit(split)
    np.testing.assert_allclose(
        slim.score(users), known[users] @ slim.weights.toarray(), rtol=1e-5, atol=1e-6
    )
    ease = EASE(l2=5.0).fit(split)
    np.testing.assert_allclose(ease.score(users), known[users] @ ease.weights, rtol=1e-5)
    history = split.train_valid.sequences().of(4)
    for model in (slim, ease):
        np.testing.assert_allclose(
            model.score_histories([history])[0], model.score(users)[0], rtol=1e-5, atol=1e-7
        )


@pytest.mark.parametrize("n", [63, 64, 65, 201])
def test_ease_fills_every_tile(n: int) -> None:
    x = matrix(seed=n, users=50, items=n)
    inverse = np.linalg.inv(x.T @ x + 7.0 * np.eye(n))
    weights = ease_weights(canonical(sparse.csr_array(x)), 7.0)
    np.testing.assert_allclose(weights, np.eye(n) - inverse / np.diag(inverse), atol=1e-5)


def test_ease_turns_to_float64_where_float32_is_not_accurate() -> None:
    """Eight items with nearly the same users: the Gram matrix is close to singular."""
    x = np.ones((40_000, 8))
    x[np.arange(8), np.arange(8)] = 0.0
    inverse = np.linalg.inv(x.T @ x + 0.01 * np.eye(8))
    weights = ease_weights(canonical(sparse.csr_array(x)), 0.01)
    np.testing.assert_allclose(weights, np.eye(8) - inverse / np.diag(inverse), rtol=1e-4)


def test_regressions_on_all_items_are_ease() -> None:
    some = np.random.default_rng(4).random((70, 30)) < 0.5  # every two items share users
    x = canonical(sparse.csr_array(some.astype(np.float64)))
    found = neighbour_regressions(x, 5.0, 29, NullProgress())
    np.testing.assert_allclose(found.toarray(), ease_weights(x, 5.0), atol=1e-5)


def test_regressions_on_few_items_are_those_of_the_items_alone() -> None:
    """The item with the most users begins, so its block is its own."""
    x = matrix(seed=6)
    popular = int(np.argmax(x.sum(axis=0)))
    found = neighbour_regressions(canonical(sparse.csr_array(x)), 5.0, 12, NullProgress())
    norms = np.sqrt(np.maximum(x.sum(axis=0), 1))
    cosine = x.T @ x[:, popular] / (norms * norms[popular])
    cosine[popular] = -1
    near = np.argsort(-cosine, kind="stable")[:12]
    some = x[:, near]
    expected = np.linalg.solve(some.T @ some + 5.0 * np.eye(12), some.T @ x[:, popular])
    np.testing.assert_allclose(found.toarray()[near, popular], expected, atol=1e-5)
    assert np.diff(found.tocsc().indptr).max() <= 12
    assert found.diagonal().max() == 0


def test_ease_says_when_the_catalogue_is_too_large_for_a_dense_inverse(tmp_path: Path) -> None:
    split, users = make_split(), np.arange(5, dtype=np.int32)
    with pytest.warns(LeporidWarning, match=r"more than 10 items: .* 17 items on its 500 nearest"):
        model = EASE(max_items=10, l2=1000.0).fit(split)
    dense = EASE(l2=1000.0).fit(split)
    np.testing.assert_allclose(model.score(users), dense.score(users), atol=1e-3)
    loaded = EASE.load(model.save(tmp_path / "saved"))
    np.testing.assert_array_equal(loaded.score(users), model.score(users))


def test_ease_heeds_the_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leporid.models.closed_form.ease.free_memory", lambda: 2000)
    with pytest.warns(LeporidWarning, match=r"dense matrix of 1.16 kB in 2 kB free memory"):
        EASE().fit(make_split())


def test_penalties_that_are_none_are_refused() -> None:
    for settings in ({"l1": -1.0}, {"l2": -1.0}, {"top_k": 0}, {"tolerance": 0.0}):
        with pytest.raises(ConfigError, match=next(iter(settings))):
            SLIM(**settings)
    with pytest.raises(ConfigError, match="l2 must be above 0"):
        EASE(l2=0.0)


def test_what_was_not_learnt_yet_cannot_be_read() -> None:
    model = SLIM()
    with pytest.raises(NotFittedError, match="slim is not fitted"):
        _ = model.weights
    model.fit(make_split())
    before = model.weights
    with pytest.raises(DataError, match="takes a Split"):
        model.fit(None)  # type: ignore[arg-type]
    assert model.weights is before
