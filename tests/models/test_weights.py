"""Weighted interactions: four models learn from them as written down here, the others say no."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

import leporid
from leporid import models
from leporid.data import Interactions, Split
from leporid.errors import LeporidWarning
from leporid.graph import canonical
from leporid.models import Recommender
from leporid.models.closed_form.ials import FixedSide, IALSConfig
from tests.test_contract import SETTINGS, make_split

USING = ("ease", "ials", "itemknn", "userknn")
COSINE: dict[str, Any] = {"similarity": "cosine", "k": 5, "shrink": 2.0}


WEIGHTS = np.random.default_rng(3).integers(1, 6, (31, 17)).astype(np.float32)
"""One for each user and item of the split."""


def weighted(split: Split, weights: NDArray[np.float32] = WEIGHTS) -> Split:
    """The split with a weight for each interaction."""

    def part(rows: Interactions) -> Interactions:
        return replace(rows, weight=weights[rows.user, rows.item])

    return Split(part(split.train), part(split.valid), part(split.test), split.protocol)


def matrices(split: Split) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The weighted training rows, and those of all that is known."""
    x, p = (m.csr(weighted=True).toarray() for m in (split.train, split.train_valid))
    return x.astype(np.float64), p.astype(np.float64)


def everyone(model: Recommender) -> NDArray[np.float32]:
    return model.score(np.arange(31, dtype=np.int32))


def test_a_half_step_of_ials_solves_the_weighted_normal_equations() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 4, (14, 23)) * (rng.random((14, 23)) < 0.4) * 0.7
    x[3] = 0.0
    q = rng.normal(size=(23, 6)).astype(np.float32)
    config = IALSConfig(dim=6, l2=0.03, unobserved_weight=0.2, frequency_exponent=0.7)
    found = FixedSide.of(q, config).solve(canonical(sparse.csr_array(x)))
    wide = q.astype(np.float64)
    for row in range(14):
        penalty = config.l2 * (x[row].sum() + 0.2 * 23) ** 0.7
        system = wide.T @ np.diag(x[row] + 0.2) @ wide + penalty * np.eye(6)
        expected = np.linalg.solve(system, wide.T @ x[row])
        np.testing.assert_allclose(found[row], expected, rtol=1e-4, atol=1e-6)


def test_weights_of_ials_have_no_scale_of_their_own() -> None:
    """Ten times the weights and ten times alpha_0 are the same question."""
    ones, tens = (
        models.get("ials")(dim=5, unobserved_weight=0.1 * scale)
        .fit(weighted(make_split(), scale * WEIGHTS), seed=1)
        .item_vectors()
        for scale in (1, 10)
    )
    np.testing.assert_allclose(ones, tens, rtol=1e-3, atol=1e-5)


def test_ease_has_the_weighted_gram_matrix() -> None:
    split = weighted(make_split())
    x, profiles = matrices(split)
    inverse = np.linalg.inv(x.T @ x + 5.0 * np.eye(17))
    b = np.eye(17) - inverse / np.diag(inverse)[None, :]
    scores = everyone(models.get("ease")(l2=5.0).fit(split))
    np.testing.assert_allclose(scores, profiles @ b, rtol=1e-3, atol=1e-4)


@pytest.mark.filterwarnings("ignore:.*EASE regresses each")
@pytest.mark.parametrize("power", [-100, -40, 40, 67])
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        *(
            (name, {"similarity": similarity, "weighting": weighting, "k": 5, "shrink": 0.0})
            for name in ("itemknn", "userknn")
            for similarity in ("cosine", "asymmetric_cosine")
            for weighting in ("none", "tfidf", "bm25")
        ),
        *(
            (name, {"similarity": similarity, "k": 5})
            for name in ("itemknn", "userknn")
            for similarity in ("jaccard", "tversky", "dice")
        ),
        ("ease", {"l2": 5.0}),
        ("ease", {"l2": 5.0, "max_items": 1, "neighbours": 6}),
        ("ials", {"dim": 5, "unobserved_weight": 0.1}),
    ],
)
def test_weights_of_any_size_give_the_same_model(
    name: str, settings: dict[str, Any], power: int
) -> None:
    """Weights from 1e-30 to 1e20, times a power of two: no product or square may leave float32.

    The penalty of EASE is in units of the squared weights, alpha_0 of iALS in those of the weights.
    """
    scale = 2.0**power
    units = {"ease": {"l2": scale**2}, "ials": {"unobserved_weight": scale}}.get(name, {})
    scaled = {**settings, **{key: settings[key] * unit for key, unit in units.items()}}
    small = weighted(make_split(), WEIGHTS * np.float32(scale))
    model = models.get(name)(**scaled).fit(small, seed=1)
    plain = models.get(name)(**settings).fit(weighted(make_split()), seed=1)
    if name == "ials":  # its scores are predictions: towards 1, whatever the weights
        np.testing.assert_allclose(everyone(model), everyone(plain), rtol=1e-4, atol=1e-6)
    else:
        found = everyone(model).astype(np.float64) / scale
        assert np.isfinite(found).all()
        np.testing.assert_allclose(found, everyone(plain), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", USING)
@pytest.mark.parametrize("scale", [1e-30, 1e20])
def test_weights_far_from_the_penalty_give_finite_scores(name: str, scale: float) -> None:
    split = weighted(make_split(), WEIGHTS * np.float32(scale))
    assert np.isfinite(everyone(models.get(name)(**SETTINGS[name]).fit(split, seed=1))).all()


def nearest(rows: NDArray[Any], others: NDArray[Any], own: bool) -> NDArray[np.float64]:
    """Cosines with shrinkage, all but the five largest of a row 0."""
    lengths = np.outer(np.linalg.norm(rows, axis=1), np.linalg.norm(others, axis=1))
    similar = rows @ others.T / (lengths + 2.0)
    if own:
        np.fill_diagonal(similar, 0.0)
    for row in similar:
        row[np.argsort(-row, kind="stable")[5:]] = 0.0
    return np.asarray(similar)


def test_neighbours_are_those_of_the_weighted_cosine() -> None:
    split = weighted(make_split())
    x, profiles = matrices(split)
    items = everyone(models.get("itemknn")(**COSINE).fit(split))
    np.testing.assert_allclose(items, profiles @ nearest(x.T, x.T, True).T, rtol=1e-4, atol=1e-4)
    users = everyone(models.get("userknn")(**COSINE).fit(split))
    np.testing.assert_allclose(users, nearest(profiles, x, True) @ x, rtol=1e-4, atol=1e-4)


def test_sets_are_compared_without_weights_and_vote_with_them() -> None:
    plain = make_split()
    split = weighted(plain)
    _, profiles = matrices(split)
    model, before = (models.get("itemknn")(k=5).fit(s) for s in (split, plain))
    assert (model.weights != before.weights).nnz == 0
    np.testing.assert_allclose(everyone(model), profiles @ before.weights.toarray(), rtol=1e-4)


@pytest.mark.parametrize("name", USING)
def test_weights_of_one_are_no_weights_bit_for_bit(name: str) -> None:
    plain = make_split()
    ones = weighted(plain, np.ones((31, 17), np.float32))
    model, same = (models.get(name)(**SETTINGS[name]).fit(s, seed=2) for s in (plain, ones))
    np.testing.assert_array_equal(everyone(model), everyone(same))


@pytest.mark.parametrize("name", USING)
def test_weights_are_saved_and_reach_the_final_model(name: str, tmp_path: Path) -> None:
    plain = make_split()
    split = weighted(plain)
    model = leporid.train(name, split, progress=False, final=True, **SETTINGS[name])
    assert model.validated is not None
    before = leporid.train(name, plain, progress=False, **SETTINGS[name])
    assert not np.allclose(everyone(model.validated), everyone(before))
    for fitted in (model, model.validated):
        loaded = Recommender.load(fitted.save(tmp_path / "model"))
        np.testing.assert_array_equal(loaded.known.weight, fitted.known.weight)
        np.testing.assert_array_equal(everyone(loaded), everyone(fitted))
    assert len(model.known) == sum(map(len, (split.train, split.valid, split.test)))
    history = split.train_valid.sequences()
    users = np.array([3, 17], np.int32)
    scores = model.validated.score(users, history)
    np.testing.assert_allclose(scores, everyone(model.validated)[users], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", sorted(set(models.available()) - {*USING, "frequency"}))
def test_a_model_that_cannot_use_weights_says_so(name: str) -> None:
    split = weighted(make_split())
    assert not models.get(name).uses_weights
    if name == "blend":
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            models.get(name)(members=({"model": "ease"},)).fit(split)
        return
    model = models.get(name)(**next(s for n, s in SETTINGS.items() if n.split("-")[0] == name))
    with pytest.warns(LeporidWarning, match=f"{name} cannot use weights") as caught:
        model._begin(split, models.FitContext())
    assert len(caught) == 1
