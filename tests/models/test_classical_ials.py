"""iALS: the normal equations, a falling objective, and fold-in of people never seen."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

from leporid.errors import ConfigError
from leporid.models.ials import IALS, IALSConfig, solve_factors
from leporid.models.shared.sparse import canonical
from tests.test_contract import make_split


def penalties(counts: NDArray[np.float64], columns: int, c: IALSConfig) -> NDArray[np.float64]:
    return np.asarray(c.l2 * (counts + c.unobserved_weight * columns) ** c.frequency_exponent)


def objective(
    x: NDArray[np.float64], p: NDArray[np.float32], q: NDArray[np.float32], c: IALSConfig
) -> float:
    scores = p @ q.T
    fit = (x * (scores - 1) ** 2).sum() + c.unobserved_weight * (scores**2).sum()
    users = penalties(x.sum(axis=1), x.shape[1], c) @ (p**2).sum(axis=1)
    items = penalties(x.sum(axis=0), x.shape[0], c) @ (q**2).sum(axis=1)
    return float(fit + users + items)


def test_a_half_step_solves_the_normal_equations() -> None:
    rng = np.random.default_rng(0)
    x = (rng.random((14, 23)) < 0.3).astype(np.float64)
    x[3] = 0.0
    q = rng.normal(size=(23, 6)).astype(np.float32)
    config = IALSConfig(dim=6, l2=0.03, unobserved_weight=0.2, frequency_exponent=0.7)
    found = solve_factors(canonical(sparse.csr_array(x)), q, config)
    wide = q.astype(np.float64)
    for row in range(14):
        system = wide.T @ np.diag(x[row] + 0.2) @ wide
        system += penalties(x.sum(axis=1), 23, config)[row] * np.eye(6)
        expected = np.linalg.solve(system, wide.T @ x[row])
        np.testing.assert_allclose(found[row], expected, rtol=1e-4, atol=1e-6)


def test_every_half_step_lowers_the_objective() -> None:
    split = make_split()
    x = split.train.csr().toarray().astype(np.float64)
    config = IALSConfig(dim=4, l2=0.01)
    rows, columns = canonical(sparse.csr_array(x)), canonical(sparse.csr_array(x.T))
    users = np.random.default_rng(1).normal(size=(x.shape[0], 4)).astype(np.float32)
    items = np.random.default_rng(2).normal(size=(x.shape[1], 4)).astype(np.float32)
    values = [objective(x, users, items, config)]
    for _ in range(6):
        items = solve_factors(columns, users, config)
        values.append(objective(x, users, items, config))
        users = solve_factors(rows, items, config)
        values.append(objective(x, users, items, config))
    assert np.all(np.diff(values) <= 1e-4)
    assert values[-1] < 0.2 * values[0]


def test_the_fit_ends_where_the_steps_lead() -> None:
    split = make_split()
    model = IALS(dim=4, iterations=2).fit(split, seed=9)
    rng = np.random.default_rng(9)
    x = canonical(split.train.csr())
    users = rng.normal(0, 0.1 / 2, (31, 4)).astype(np.float32)
    for _ in range(2):
        items = solve_factors(canonical(x.T), users, model.config)
        users = solve_factors(x, items, model.config)
    np.testing.assert_array_equal(model.item_factors, items)
    np.testing.assert_array_equal(model.user_factors, users)
    other = IALS(dim=4, iterations=2).fit(split, seed=10)
    assert not np.allclose(other.user_factors, model.user_factors)


def test_folding_in_the_history_of_a_fitted_user_gives_that_user() -> None:
    split = make_split()
    model = IALS(dim=5, iterations=3).fit(split, seed=0)
    users = np.array([2, 19, 30], dtype=np.int32)
    histories = [split.train.sequences().of(int(u)) for u in users]
    expected = model.user_factors[users] @ model.item_factors.T
    np.testing.assert_allclose(model.score_histories(histories), expected, rtol=1e-5, atol=1e-7)
    trained = model.score(users, split.train.sequences())
    np.testing.assert_allclose(trained, expected, rtol=1e-5, atol=1e-7)
    shuffled = [np.concatenate([h[::-1], h[:1]]) for h in histories]
    np.testing.assert_array_equal(model.score_histories(shuffled), model.score_histories(histories))


def test_sizes_and_penalties_without_a_solution_are_refused() -> None:
    for settings in ({"dim": 0}, {"iterations": 0}, {"l2": 0.0}, {"unobserved_weight": -1.0}):
        with pytest.raises(ConfigError, match=next(iter(settings))):
            IALS(**settings)
