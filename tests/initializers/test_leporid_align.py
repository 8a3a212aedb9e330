"""Users in the space of the items: dense oracles, a planted rotation, weights that survive."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leporid.errors import ConfigError, LeporidWarning
from leporid.initializers import InitialEmbeddings, embed_stored, initial_embeddings
from leporid.initializers.leporid import LE, LEPORID, in_one_space
from leporid.spectral import Embedding, Leporid, standardize
from tests.initializers.helpers import make_interactions, planted

SMALL: dict[str, Any] = {"dim": 5, "k": 9}


@pytest.mark.parametrize("initializer", [LE, LEPORID])
def test_items_is_the_dense_mean_z_scored(initializer: Any) -> None:
    train = planted(40, 25)
    plain = initializer(**SMALL).fit(train)
    made = initializer(**SMALL, align="items").fit(train)
    dense = train.csr().toarray() > 0
    mean = np.stack([plain.items.vectors[row].mean(axis=0) for row in dense])
    np.testing.assert_allclose(made.users.vectors, standardize(mean), atol=2e-4)
    np.testing.assert_array_equal(made.items.vectors, plain.items.vectors)
    assert made.users.eigenvalues is None


def test_procrustes_recovers_a_planted_rotation() -> None:
    train, rng = planted(60, 35), np.random.default_rng(3)
    items = standardize(rng.normal(size=(35, 4)).astype(np.float32))
    # Users are where their items are, seen from another side.
    users = np.asarray(train.csr() @ items)
    centred = users - users.mean(axis=0)
    values, turned = np.linalg.eigh(centred.T @ centred / len(users))
    white = centred @ turned / np.sqrt(values) @ turned.T
    hidden, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    both = InitialEmbeddings(
        Embedding((white @ hidden).astype(np.float32)), Embedding(items, None, {"method": "le"})
    )
    made = in_one_space(both, train.csr(), "procrustes", 0.0)
    np.testing.assert_allclose(made.users.vectors, white, atol=1e-3)
    assert made.items is both.items


def test_items_needs_no_user_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    train, shapes = planted(40, 25), []
    fit = Leporid.fit

    def noted(self: Leporid, X: Any, **options: Any) -> Any:
        shapes.append(X.shape)
        return fit(self, X, **options)

    monkeypatch.setattr(Leporid, "fit", noted)
    LEPORID(**SMALL, align="items").fit(train)
    assert shapes == [(25, 40)]


def test_procrustes_keeps_distances_and_raises_the_products_of_interactions() -> None:
    train = planted(40, 25)
    plain = LEPORID(**SMALL).fit(train)
    made = LEPORID(**SMALL, align="procrustes").fit(train)
    before, after = standardize(plain.users.vectors), made.users.vectors
    np.testing.assert_allclose(after @ after.T, before @ before.T, atol=1e-3)
    items = standardize(plain.items.vectors)
    product = [np.sum(side[train.user] * items[train.item]) for side in (before, after)]
    assert product[1] > product[0] + 1


@pytest.mark.parametrize("align", ["none", "items", "procrustes"])
def test_weights_follow_the_eigenvalues_and_survive_standardisation(align: Any) -> None:
    train = planted(40, 25)
    plain = LEPORID(**SMALL).fit(train)
    made = LEPORID(**SMALL, align=align, eigenvalue_power=0.5).fit(train)
    assert plain.items.eigenvalues is not None
    weights = np.sqrt(np.maximum(plain.items.eigenvalues, 0))
    expected = standardize(plain.items.vectors) * weights
    expected /= np.sqrt((expected**2).mean())
    np.testing.assert_allclose(made.items.vectors, expected, rtol=1e-3, atol=1e-5)
    assert made.users.size == pytest.approx(1, rel=1e-3)
    received = made.standardized(0.1)
    np.testing.assert_allclose(received.items.vectors, 0.1 * expected, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(received.users.vectors, 0.1 * made.users.vectors, rtol=1e-5)
    if align == "items":
        spread = made.users.vectors.std(axis=0)
        np.testing.assert_allclose(spread / spread[0], weights / weights[0], rtol=1e-3)


def test_isolated_rows_stay_zero() -> None:
    dense = planted(30, 12).csr().toarray() > 0
    dense[4] = False
    for align in ("items", "procrustes"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LeporidWarning)  # the graph of the users counts them
            made = LEPORID(**SMALL, align=align).fit(make_interactions(dense))
        assert made.users.provenance["isolated"] == 1
        assert not made.users.vectors[4].any()
        assert made.users.isolated.sum() == 1


def test_the_cache_and_files_tell_alignments_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEPORID_CACHE", str(tmp_path))
    train = planted(40, 25)
    made = [
        initial_embeddings("leporid", train, **SMALL, align=a)
        for a in ("none", "items", "none", "items")
    ]
    plain, aligned, plain_again, aligned_again = (m.users.vectors for m in made if m is not None)
    assert not np.allclose(standardize(plain), aligned)
    np.testing.assert_array_equal(plain, plain_again)
    np.testing.assert_array_equal(aligned, aligned_again)
    assert len(list((tmp_path / "initializers").iterdir())) == 2


def test_where_it_does_not_work_it_says_so(tmp_path: Path) -> None:
    train = planted(40, 25)
    initializer = LEPORID(**SMALL, eigenvalue_power=1.0)
    initializer.previous = replace(
        LEPORID(**SMALL).fit(train), user_ids=train.users, item_ids=train.items
    )
    with pytest.raises(ConfigError, match="coordinates of older ones"):
        initializer.fit(train)
    with pytest.raises(ConfigError, match="memory limit works without align"):
        embed_stored(LEPORID(align="items"), tmp_path / "log.parquet", "1GB")
    with pytest.raises(ConfigError, match="procrustes"):
        LEPORID(align="procrustean")
