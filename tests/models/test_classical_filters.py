"""GF-CF and Turbo-CF against the dense formulas, and what low-pass filters must do."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

import leporid
from leporid import models
from leporid.data import synthesize
from leporid.errors import ConfigError, DataError
from leporid.graph import canonical
from leporid.models.closed_form.gfcf import GFCF
from leporid.models.closed_form.products import normalised, rows_times
from leporid.models.closed_form.turbocf import TurboCF, item_graph
from tests.test_contract import make_split

Filter = Literal["linear", "second_order", "third_order"]
ALL = np.arange(31, dtype=np.int32)


def dense_normalised(x: NDArray[np.float64], alpha: float) -> NDArray[np.float64]:
    users, items = np.maximum(x.sum(axis=1), 1), np.maximum(x.sum(axis=0), 1)
    return np.asarray(users[:, None] ** -alpha * x * items[None, :] ** (alpha - 1))


def random_rows(seed: int, users: int = 23, items: int = 14) -> NDArray[np.float64]:
    """Asymmetric, with one user and one item that have nothing."""
    rng = np.random.default_rng(seed)
    x = (rng.random((users, items)) < 0.6 * rng.random(items)).astype(np.float64)
    x[3], x[:, 5] = 0.0, 0.0
    return x


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10_000), alpha=st.sampled_from([0.0, 0.3, 0.5, 1.0]))
def test_normalised_rows_and_their_products_are_the_dense_ones(seed: int, alpha: float) -> None:
    x, profiles = random_rows(seed), random_rows(seed + 1, users=9)
    across = dense_normalised(x, alpha)
    found = normalised(canonical(sparse.csr_array(x)), alpha)
    np.testing.assert_allclose(found.toarray(), across, rtol=1e-6)
    there = canonical(canonical(sparse.csr_array(profiles)) @ found.T)
    product = rows_times(there, found)
    np.testing.assert_allclose(product, profiles @ across.T @ across, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(("rank", "alpha"), [(1, 0.3), (5, 2.0), (16, 0.0)])
def test_gfcf_is_its_dense_formula(rank: int, alpha: float) -> None:
    split = make_split()
    x, known = (part.csr().toarray().astype(float) for part in (split.train, split.train_valid))
    across = dense_normalised(x, 0.5)
    vectors = np.linalg.svd(across)[2][:rank].T
    root = np.sqrt(np.maximum(x.sum(axis=0), 1))
    ideal = np.diag(1 / root) @ vectors @ vectors.T @ np.diag(root)
    expected = known @ (across.T @ across + alpha * ideal)
    for max_items in (17, 16):  # one dense matrix, and without any
        found = GFCF(rank=rank, alpha=alpha, max_items=max_items).fit(split).score(ALL)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_the_ideal_filter_of_full_rank_returns_the_profile() -> None:
    split = make_split()
    plain, full = (GFCF(rank=17, alpha=alpha).fit(split).score(ALL) for alpha in (0.0, 1.0))
    np.testing.assert_allclose(full - plain, split.train_valid.csr().toarray(), atol=1e-5)


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 10_000),
    alpha=st.sampled_from([0.0, 0.4, 1.0]),
    power=st.sampled_from([0.5, 1.0, 1.8]),
)
def test_the_item_graph_is_the_dense_formula(seed: int, alpha: float, power: float) -> None:
    x = random_rows(seed)
    across = dense_normalised(x, alpha)
    found = item_graph(canonical(sparse.csr_array(x)), alpha, power).toarray()
    np.testing.assert_allclose(found, (across.T @ across) ** power, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("order", ["linear", "second_order", "third_order"])
def test_turbocf_is_its_dense_formula(order: Filter, tmp_path: Path) -> None:
    split = make_split()
    x, known = (part.csr().toarray().astype(float) for part in (split.train, split.train_valid))
    across = dense_normalised(x, 0.3)
    p = (across.T @ across) ** 0.7
    response = {
        "linear": p,
        "second_order": 2 * p - p @ p,
        "third_order": p + 0.01 * (-p @ p @ p + 10 * p @ p - 29 * p),
    }[order]
    model = TurboCF(alpha=0.3, power=0.7, filter=order).fit(split)
    np.testing.assert_allclose(model.score(ALL), known @ response, rtol=1e-4, atol=1e-5)
    loaded = TurboCF.load(model.save(tmp_path / "run"))
    np.testing.assert_array_equal(loaded.score(ALL), model.score(ALL))
    history = split.train_valid.sequences().of(4)
    new = model.score_histories([history])[0]
    np.testing.assert_allclose(new, model.score(ALL)[4], rtol=1e-5)


@pytest.mark.parametrize(("per_user", "alpha"), [(24, 0.55), (25, 0.5)])
def test_users_count_for_less_where_histories_are_short(per_user: int, alpha: float) -> None:
    rows = {"user": np.repeat(np.arange(3), per_user), "item": np.tile(np.arange(per_user), 3)}
    log = leporid.load(rows, progress=False)
    nothing = log.select(np.empty(0, np.int64))
    split = leporid.Split(log, nothing, nothing, protocol="none")
    found, asked = TurboCF().fit(split), TurboCF(alpha=alpha).fit(split)
    assert found.config.alpha == alpha
    users = np.arange(3, dtype=np.int32)
    np.testing.assert_array_equal(found.score(users), asked.score(users))


def test_the_graph_has_no_frequency_above_one() -> None:
    """Symmetrically normalised, P has eigenvalues in [0, 1]: 1 is the lowest frequency."""
    rows = canonical(sparse.csr_array(random_rows(0)))
    values = np.linalg.eigvalsh(item_graph(rows, 0.5, 1.0).toarray())
    assert values.min() > -1e-6
    assert values.max() == pytest.approx(1.0, abs=1e-6)


def test_turbocf_says_when_the_catalogue_is_too_large() -> None:
    split = make_split()
    pairs = int((np.diff(split.train.csr().indptr) ** 2).sum())
    assert pairs > 10**2
    for settings_ in ({"filter": "second_order"}, {}):
        with pytest.raises(DataError, match=r"17 items: raise max_items \(now 10\)"):
            TurboCF(max_items=10, **settings_).fit(split)
    with pytest.raises(DataError, match="289 pairs"):
        TurboCF(max_items=16, filter="third_order").fit(split)


@pytest.mark.parametrize("name", ["gfcf", "turbocf"])
def test_filters_find_what_was_planted(name: str) -> None:
    log = synthesize(300, 200, 9000, seed=3)
    split = leporid.temporal_split(log)
    hit_rates = {
        each: leporid.evaluate(models.get(each)().fit(split), split, at=(10,)).mean()["HR@10"]
        for each in ("toppop", name)
    }
    assert hit_rates[name] > 1.2 * hit_rates["toppop"]


def test_settings_out_of_range_are_refused() -> None:
    wrong: list[tuple[type[Any], dict[str, Any]]] = [
        (GFCF, {"rank": 0}), (GFCF, {"alpha": -0.1}), (TurboCF, {"alpha": 1.1}),
        (TurboCF, {"power": 0.0}), (TurboCF, {"filter": "fourth_order"}),
    ]  # fmt: skip
    for cls, settings_ in wrong:
        with pytest.raises(ConfigError, match=next(iter(settings_))):
            cls(**settings_)
