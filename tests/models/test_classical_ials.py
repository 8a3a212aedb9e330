"""iALS: the normal equations, a falling objective, and fold-in of people never seen."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numba
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

from leporid.data import synthesize, temporal_split
from leporid.errors import ConfigError
from leporid.graph import canonical
from leporid.models.closed_form.ials import IALS, FixedSide, IALSConfig, first_factors
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


def random_problem() -> tuple[NDArray[np.float64], NDArray[np.float32], IALSConfig]:
    """A weighted matrix with an empty row, the factors of its columns, and settings."""
    rng = np.random.default_rng(0)
    x = (rng.random((14, 23)) < 0.3) * rng.uniform(0.5, 3.0, (14, 23))
    x[3] = 0.0
    q = rng.normal(size=(23, 6)).astype(np.float32)
    return x, q, IALSConfig(dim=6, l2=0.03, unobserved_weight=0.2, frequency_exponent=0.7)


def systems(
    x: NDArray[np.float64], q: NDArray[np.float32], config: IALSConfig
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]]:
    """The normal equations of every row, A p = b, and A were the columns seen like all others."""
    wide, one = q.astype(np.float64), np.eye(q.shape[1])
    for row, penalty in zip(x, penalties(x.sum(axis=1), x.shape[1], config), strict=True):
        system = wide.T @ np.diag(row + config.unobserved_weight) @ wide + penalty * one
        alike = (row.mean() + config.unobserved_weight) * (wide.T @ wide) + penalty * one
        yield system, wide.T @ row, alike


def solved(
    x: NDArray[np.float64], q: NDArray[np.float32], config: IALSConfig
) -> NDArray[np.float64]:
    """The normal equations row by row, by a dense solver."""
    return np.array([np.linalg.solve(a, b) for a, b, _ in systems(x, q, config)])


def test_a_half_step_solves_the_normal_equations() -> None:
    x, q, config = random_problem()
    found = FixedSide.of(q, config).solve(canonical(sparse.csr_array(x)))
    np.testing.assert_allclose(found, solved(x, q, config), rtol=1e-4, atol=1e-6)
    assert not found[3].any()


def test_a_row_without_entries_is_zero_also_where_nothing_penalises_it() -> None:
    x, q, config = random_problem()
    columns = FixedSide.of(q, dataclasses.replace(config, unobserved_weight=0.0))
    found = columns.solve(canonical(sparse.csr_array(x)))
    assert np.isfinite(found).all()
    assert not found[3].any()
    start = np.ones((14, 6), dtype=np.float32)
    assert not columns.solve(canonical(sparse.csr_array(x)), start)[3].any()


def test_badly_conditioned_systems_are_solved_too() -> None:
    rng = np.random.default_rng(5)
    x = (rng.random((40, 60)) < 0.2).astype(np.float64)
    q = (rng.normal(size=(60, 24)) * np.geomspace(1, 0.02, 24)).astype(np.float32)
    config = IALSConfig(dim=24, l2=1e-4, unobserved_weight=0.005)
    found = FixedSide.of(q, config).solve(canonical(sparse.csr_array(x))) @ q.T
    np.testing.assert_allclose(found, solved(x, q, config) @ q.T, atol=2e-4)


def test_two_steps_are_the_best_of_their_krylov_space_and_the_solution_stays() -> None:
    x, q, config = random_problem()
    columns, rows = FixedSide.of(q, config), canonical(sparse.csr_array(x))
    best = solved(x, q, config).astype(np.float32)
    start = np.random.default_rng(1).normal(size=best.shape).astype(np.float32)
    start[3] = 0.0
    found = columns.solve(rows, start)
    for p, end, (a, b, alike) in zip(start, found, systems(x, q, config), strict=True):
        residual = b - a @ p
        first = np.linalg.solve(alike, residual)
        space = np.stack([first, np.linalg.solve(alike, a @ first)], axis=1)
        along = np.linalg.lstsq(space.T @ a @ space, space.T @ residual)[0]
        np.testing.assert_allclose(end, p + space @ along, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(columns.solve(rows, best), best, rtol=1e-4, atol=1e-5)


def test_the_first_factors_are_near_the_largest_singular_vectors() -> None:
    rng = np.random.default_rng(4)
    x = (rng.random((50, 8)) @ rng.random((8, 40)) + rng.random((50, 40)) > 2.9).astype(np.float32)
    rows, columns = canonical(sparse.csr_array(x)), canonical(sparse.csr_array(x.T))
    s = np.linalg.svd(x, compute_uv=False)
    for dim in (1, 6, 60):
        users = first_factors(rows, columns, dim, seed=2)
        basis = np.linalg.svd(users, full_matrices=False)[0][:, : min(dim, 40)]
        held = np.linalg.norm(basis.T @ x) ** 2
        assert held > 0.95 * (s[:dim] ** 2).sum()
        gram = users.T @ users
        np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-4 * gram.max())
        np.testing.assert_array_equal(users, first_factors(rows, columns, dim, seed=2))
    assert np.linalg.matrix_rank(users) == np.linalg.matrix_rank(x)


def test_the_fit_is_the_same_to_the_bit_on_any_number_of_threads() -> None:
    split, before = make_split(), numba.get_num_threads()
    fits = []
    for threads in (1, before):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("leporid.foundation.machine.resolve_threads", lambda _, n=threads: n)
            fits.append(IALS(dim=8, iterations=3).fit(split, seed=4))
    np.testing.assert_array_equal(fits[0].user_factors, fits[1].user_factors)
    np.testing.assert_array_equal(fits[0].item_factors, fits[1].item_factors)
    columns, rows = FixedSide.of(fits[0].item_factors, fits[0].config), canonical(split.train.csr())
    expected = columns.solve(rows)
    np.testing.assert_array_equal(columns.solve(rows, threads=4), expected)


def test_every_half_step_lowers_the_objective() -> None:
    split = make_split()
    x = split.train.csr().toarray().astype(np.float64)
    config = IALSConfig(dim=4, l2=0.01, unobserved_weight=0.1)
    rows, columns = canonical(sparse.csr_array(x)), canonical(sparse.csr_array(x.T))
    users = np.random.default_rng(1).normal(size=(x.shape[0], 4)).astype(np.float32)
    items = np.random.default_rng(2).normal(size=(x.shape[1], 4)).astype(np.float32)
    values = [objective(x, users, items, config)]
    for _ in range(6):
        items = FixedSide.of(users, config).solve(columns, items)
        values.append(objective(x, users, items, config))
        users = FixedSide.of(items, config).solve(rows, users)
        values.append(objective(x, users, items, config))
    assert np.all(np.diff(values) <= 1e-4)
    assert values[-1] < 0.2 * values[0]


def test_the_fit_ends_where_exact_sweeps_end() -> None:
    split = make_split()
    model = IALS(dim=4, iterations=40).fit(split, seed=9)
    x = split.train.csr().toarray().astype(np.float64)
    rows, columns = canonical(split.train.csr()), canonical(split.train.csr().T)
    users = first_factors(rows, columns, 4, seed=9)
    for _ in range(40):
        items = solved(x.T, users, model.config).astype(np.float32)
        users = solved(x, items, model.config).astype(np.float32)
    ends = [objective(x, p, q, model.config) for p, q in
            ((model.user_factors, model.item_factors), (users, items))]  # fmt: skip
    assert ends[0] == pytest.approx(ends[1], rel=2e-3)
    other = IALS(dim=4, iterations=2).fit(split, seed=10)
    assert not np.allclose(other.user_factors, model.user_factors)


def test_what_is_not_set_follows_from_the_share_of_pairs_that_are_observed() -> None:
    sparse_split = temporal_split(synthesize(users=200, items=400, interactions=800, seed=1))
    for split, penalty in ((sparse_split, None), (make_split(), 0.01)):
        found = IALS(iterations=1).fit(split, seed=0).config
        root = np.sqrt(len(split.train) / (split.n_users * split.n_items))
        assert found.unobserved_weight == pytest.approx(2 * root)
        assert found.l2 == pytest.approx(penalty or root / 10)
        assert found.dim == 16
    kept = IALS(dim=3, unobserved_weight=0.5, l2=0.2, iterations=1).fit(sparse_split).config
    assert (kept.dim, kept.unobserved_weight, kept.l2) == (3, 0.5, 0.2)


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


@pytest.mark.parametrize("l2", [3.0, 300.0, 3e6])
def test_a_penalty_that_is_too_strong_leaves_nothing_and_no_nan(l2: float) -> None:
    model = IALS(dim=5, l2=l2, unobserved_weight=5.0, iterations=30).fit(make_split(), seed=0)
    assert np.abs(model.item_factors).max() < 1e-6
    assert np.isfinite(model.score(np.arange(3, dtype=np.int32))).all()


def test_sizes_and_penalties_without_a_solution_are_refused() -> None:
    for settings in ({"dim": 0}, {"iterations": 0}, {"l2": 0.0}, {"unobserved_weight": -1.0}):
        with pytest.raises(ConfigError, match=next(iter(settings))):
            IALS(**settings)
