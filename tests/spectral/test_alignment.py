"""Fits with `init`: a fresh fit's subspace, the same tolerance, old coordinates."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.linalg import orthogonal_procrustes

from leporid import LaplacianEigenmaps, Leporid
from leporid.errors import ConfigError, DataError, NotFittedError
from leporid.spectral import align_columns
from leporid.spectral.embedding import repeated_values
from tests.spectral.graphs import largest_angle


def log(n=400, m=90, seed=0):
    """Rows in five overlapping groups of columns, of uneven length."""
    rng = np.random.default_rng(seed)
    taste = np.exp(-((np.arange(m)[None, :] / m - rng.random(n)[:, None]) ** 2) / 0.02)
    chance = np.clip(taste * rng.uniform(0.1, 0.6, n)[:, None] + 0.01, 0, 1)
    chance[:, 0] = 1.0
    return sparse.csr_array((rng.random((n, m)) < chance).astype(np.float32))


def later(X, rows=10, columns=3, share=0.05, seed=1):
    rng = np.random.default_rng(seed)
    n, m = X.shape
    dense = np.zeros((n + rows, m + columns), np.float32)
    dense[:n, :m] = X.toarray()
    dense[n:, :m] = X.toarray()[rng.integers(0, n, rows)]
    for row in np.flatnonzero(rng.random(n + rows) < share):
        dense[row, rng.integers(0, m + columns, 3)] = 1.0
    return sparse.csr_array(dense)


X = log()
Y = later(X)


@pytest.mark.parametrize("make", [Leporid, LaplacianEigenmaps])
@pytest.mark.parametrize("normalized", [True, False])
def test_a_fit_from_an_older_one_is_a_fit(make, normalized):
    settings = {"dim": 5, "k": 30, "normalized": normalized}
    fresh = make(**settings).fit(Y)
    model = make(**settings).fit(X)
    old = model.embedding_
    assert model.fit(Y, init=model) is model
    np.testing.assert_array_equal(model.graph_.indices, fresh.graph_.indices)
    np.testing.assert_array_equal(model.graph_.weights, fresh.graph_.weights)
    np.testing.assert_allclose(model.eigenvalues_, fresh.eigenvalues_, atol=1e-6, rtol=1e-6)
    assert largest_angle(model.embedding_, fresh.embedding_) <= 1e-3
    assert model.residuals_.max() <= 1e-6
    assert model.n_features_in_ == Y.shape[1]
    overlap = np.sum(model.embedding_[: len(old)] * old, axis=0)
    assert (overlap > 0).all()
    np.testing.assert_allclose(model.transform(Y[:7]), model.embedding_[:7])
    other = make(**settings).fit(Y, init=make(**settings).fit(X))
    assert other.embedding_.tobytes() == model.embedding_.tobytes()


def test_old_vectors_initialise_lanczos():
    big, grown = log(1500, 200, seed=3), later(log(1500, 200, seed=3), 0, 0, 0.01)
    settings = {"dim": 12, "k": 50, "solver": "lanczos"}
    fresh = Leporid(**settings).fit(grown)
    model = Leporid(**settings).fit(grown, init=Leporid(**settings).fit(big))
    assert model.n_iter_ < fresh.n_iter_
    assert largest_angle(model.embedding_, fresh.embedding_) <= 1e-3
    assert model.residuals_.max() <= 1e-6


def test_fits_in_a_row_stay_in_the_first_coordinates():
    model = Leporid(dim=6, k=30).fit(X)
    first = model.embedding_.astype(np.float64)
    np.testing.assert_array_equal(model.rotation_, np.eye(6))
    data = X
    for seed in range(3):
        data = later(data, 2, 0, 0.03, seed)
        model.fit(data, init=model)
        fresh = Leporid(dim=6, k=30).fit(data)
        assert largest_angle(model.embedding_, fresh.embedding_) <= 1e-3
        np.testing.assert_allclose(model.rotation_ @ model.rotation_.T, np.eye(6), atol=1e-12)
    turned = (model.embedding_ @ model.rotation_)[:400]
    apart = np.linalg.norm(turned - first)
    # no rotation comes nearer than Procrustes', up to what three steps lose against one
    assert apart <= 1.05 * np.linalg.norm(turned @ orthogonal_procrustes(turned, first)[0] - first)
    assert apart <= np.linalg.norm(model.embedding_[:400] - first) + 1e-9


def test_repeated_eigenvalues_are_rotated_and_single_ones_flipped():
    rng = np.random.default_rng(0)
    old = np.linalg.qr(rng.standard_normal((40, 4)))[0]
    values = np.array([0.9, 0.5, 0.5 - 1e-8, 0.2])
    turn = np.linalg.qr(rng.standard_normal((2, 2)))[0]
    new = old.copy()
    new[:, 1:3] = old[:, 1:3] @ turn
    new[:, [0, 3]] *= [-1.0, 1.0]
    assert repeated_values(values, 1e-6) == [slice(0, 1), slice(1, 3), slice(3, 4)]
    back = align_columns(new.astype(np.float32), values, old, 1e-6)
    np.testing.assert_allclose(back, old, atol=1e-6)
    # values that are only close stay eigenvectors: signs alone
    apart = align_columns(new.astype(np.float32), values, old, 1e-9)
    np.testing.assert_allclose(np.abs(apart), np.abs(new), atol=1e-6)


def test_saved_and_loaded(tmp_path):
    expected = Leporid(dim=4, k=30).fit(Y, init=Leporid(dim=4, k=30).fit(X))
    again = later(Y, 1, 0, 0.1, 7)
    loaded = Leporid.load(expected.save(tmp_path / "m"))
    np.testing.assert_array_equal(loaded.rotation_, expected.rotation_)
    loaded.fit(again, init=loaded)
    fresh = Leporid(dim=4, k=30).fit(again)
    np.testing.assert_array_equal(loaded.graph_.indices, fresh.graph_.indices)
    assert largest_angle(loaded.embedding_, fresh.embedding_) <= 1e-3


def test_old_vectors_alone_initialise_a_fit_too():
    """Where the estimator was not kept: one old vector per row of X, zeros for a new row."""
    old = Leporid(dim=5, k=30).fit(X).embedding_
    init = np.vstack([old, np.zeros((10, 5))])
    model = Leporid(dim=5, k=30).fit(Y, init=init)
    with pytest.warns(DeprecationWarning, match="start is now init"):
        same = Leporid(dim=5, k=30).fit(Y, start=init)
    np.testing.assert_array_equal(same.embedding_, model.embedding_)
    fresh = Leporid(dim=5, k=30).fit(Y)
    assert largest_angle(model.embedding_, fresh.embedding_) <= 1e-3
    assert (np.sum(model.embedding_[:400] * old, axis=0) > 0).all()
    near = np.linalg.norm((model.embedding_ @ model.rotation_)[:400] - old)
    assert near <= np.linalg.norm(model.embedding_[:400] - old) + 1e-9
    turn, _ = orthogonal_procrustes(model.embedding_[:400].astype(np.float64), old)
    np.testing.assert_allclose(model.rotation_, turn, atol=1e-9)
    with pytest.raises(DataError, match="old vectors are 400 x 5, but 410 rows and dim=5"):
        Leporid(dim=5, k=30).fit(Y, init=old)


def test_what_cannot_initialise_a_fit_is_refused():
    old = Leporid(dim=4, k=30).fit(X)

    def refused(error, match, X=Y, init=old, **settings):
        with pytest.raises(error, match=match):
            Leporid(**{"dim": 4, "k": 30, **settings}).fit(X, init=init)

    refused(NotFittedError, "not fitted yet", init=Leporid())
    refused(DataError, "X has 300 rows, but 400 were fitted", X=X[:300])
    refused(DataError, "X has 80 features, but Leporid is expecting 90", X=X[:, :80])
    refused(ConfigError, "dim was 4 and is 5 now", dim=5)
    refused(ConfigError, "after landmarks=", init=Leporid(dim=4, k=30, landmarks=200).fit(X))
    refused(ConfigError, "leave out landmarks=", landmarks=200)
    refused(DataError, "a fit on a graph", init=Leporid(dim=4).fit(old.graph_))
    refused(ConfigError, "init= takes interactions", X=old.graph_)
