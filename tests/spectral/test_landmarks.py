"""Landmarks: the choice rule, the placing of all other rows, and what depends on it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import leporid
from benchmarks.bench_scale import EXACT_IS_WORTH, crossover
from benchmarks.harness import RECORDS
from leporid import LaplacianEigenmaps, Leporid, initializers
from leporid.embeddings import landmark_count, landmark_neighbours
from leporid.embeddings.landmarks import (
    AUTO_LANDMARKS,
    EXACT_UP_TO,
    choose_landmarks,
)
from leporid.embeddings.out_of_sample import RowExtension, extend_rows
from leporid.errors import ConfigError
from leporid.graph import binary_csr
from tests.graph.matrices import skewed
from tests.spectral.graphs import largest_angle, neighbour_weights


def distinct(n=150, m=70, seed=0):
    """Uneven rows, no two alike, none empty."""
    dense = skewed(3 * n, m, seed).toarray()
    dense = np.unique(dense[dense.sum(axis=1) > 1], axis=0)
    rng = np.random.default_rng(seed)
    return sparse.csr_array(dense[rng.permutation(len(dense))[:n]])


X = distinct()


@pytest.mark.parametrize(
    ("landmarks", "n", "expected"),
    [
        *[(None, 9, 9), (4, 9, 4), (400, 9, 9), (0.5, 9, 4), (0.001, 90, 2), (0.999, 9, 9)],
        *[("auto", EXACT_UP_TO, EXACT_UP_TO), ("auto", EXACT_UP_TO + 1, AUTO_LANDMARKS)],
    ],
)
def test_a_number_or_a_share(landmarks, n, expected):
    assert landmark_count(landmarks, n) == expected


def test_auto_changes_where_the_record_does():
    record = json.loads((RECORDS / "scale.json").read_text())
    assert record["settings"]["landmarks"] == AUTO_LANDMARKS
    assert pytest.approx(crossover(record["rows"], EXACT_IS_WORTH), rel=0.02) == EXACT_UP_TO


@pytest.mark.parametrize("landmarks", [0, 1, -3, 0.0, 1.0, 1.5, True, "half", float("nan")])
def test_anything_else_is_refused(landmarks):
    with pytest.raises(ConfigError, match="landmarks must be"):
        Leporid(dim=3, landmarks=landmarks).fit(X)


def test_neighbours_shrink_with_the_rows():
    assert landmark_neighbours(1000, 500, 1000) == 500
    assert landmark_neighbours(1000, 333, 1000) == 333
    assert landmark_neighbours(999, 1, 2) == 500
    assert landmark_neighbours(1000, 10, 1_000_000) == 50
    assert landmark_neighbours(20, 10, 1_000_000) == 20
    assert landmark_neighbours(1000, 70, 70) == 1000


@settings(deadline=None, max_examples=40)
@given(n=st.integers(2, 60), count=st.integers(2, 60), seed=st.integers(0, 1000))
def test_one_landmark_in_every_stratum_of_activity(n, count, seed):
    rng = np.random.default_rng(seed)
    rows = sparse.csr_array((rng.random((n, 12)) < rng.random((n, 1))).astype(np.float32))
    chosen = choose_landmarks(binary_csr(rows), count, seed)
    activity = np.diff(rows.indptr)
    some = np.flatnonzero(activity)
    assert len(chosen) == min(count, len(some))
    assert (np.diff(chosen) > 0).all()
    assert np.isin(chosen, some).all()
    # The sorted activities of the landmarks lie between the ends of the strata.
    ordered, picked = np.sort(activity[some]), np.sort(activity[chosen])
    edges = np.arange(len(chosen) + 1) * len(some) // max(len(chosen), 1)
    assert (picked >= ordered[edges[:-1]]).all()
    assert (picked <= ordered[edges[1:] - 1]).all()


def test_every_row_is_as_likely():
    rows = distinct(24, 30, seed=3)
    counts = np.zeros(24)
    for seed in range(1200):
        counts[choose_landmarks(binary_csr(rows), 8, seed)] += 1
    # Binomial(1200, 1/3): standard deviation 16.
    assert np.abs(counts - 400).max() < 4.5 * 16.4


def test_the_choice_follows_the_seed_and_not_the_order_of_rows():
    order = np.random.default_rng(5).permutation(X.shape[0])
    first, shuffled = (
        choose_landmarks(binary_csr(X), 40, 7),
        choose_landmarks(binary_csr(X[order]), 40, 7),
    )
    np.testing.assert_array_equal(first, np.sort(order[shuffled]))
    assert not np.array_equal(first, choose_landmarks(binary_csr(X), 40, 8))


@pytest.mark.parametrize("landmarks", [150, 9999])
def test_all_rows_as_landmarks_is_the_exact_fit(landmarks):
    exact = Leporid(dim=6, k=15).fit(X)
    model = Leporid(dim=6, k=15, landmarks=landmarks).fit(X)
    assert model.landmarks_ is None
    assert model.embedding_.tobytes() == exact.embedding_.tobytes()


def test_empty_rows_are_no_landmarks_and_lie_at_zero():
    dense = X.toarray()
    dense[::3] = 0.0
    model = Leporid(dim=4, k=100, landmarks=149).fit(sparse.csr_array(dense))
    assert model.landmarks_.tolist() == [i for i in range(150) if i % 3]
    exact = Leporid(dim=4, k=100).fit(sparse.csr_array(dense[model.landmarks_]))
    assert largest_angle(model.embedding_[model.landmarks_], exact.embedding_) < 1e-3
    assert not model.embedding_[::3].any()
    assert not model.degrees_[::3].any()


@pytest.mark.parametrize("make", [Leporid, LaplacianEigenmaps])
@pytest.mark.parametrize("normalized", [True, False])
def test_landmark_rows_are_fitted_and_the_others_are_extended(make, normalized):
    model = make(dim=5, k=60, normalized=normalized, landmarks=0.5).fit(X)
    chosen = model.landmarks_
    assert len(chosen) == 75
    assert model.graph_.n == 75
    assert model.graph_.k == 50
    alone = make(dim=5, k=50, normalized=normalized).fit(X[chosen])
    np.testing.assert_array_equal(model.embedding_[chosen], alone.embedding_)
    np.testing.assert_array_equal(model.degrees_[chosen], alone.degrees_)
    others = np.setdiff1d(np.arange(150), chosen)
    np.testing.assert_allclose(model.embedding_[others], alone.transform(X[others]), atol=1e-6)
    # The sum of the formula, written out.
    weights = neighbour_weights(X[others], X[chosen], 50, model.graph_.thresholds)
    np.testing.assert_allclose(model.degrees_[others], weights.sum(axis=1), rtol=1e-6)
    formula = RowExtension(
        alone.embedding_, alone.eigenvalues_, alone.degrees_, model.alpha, normalized
    )
    np.testing.assert_allclose(model.embedding_[others], formula.embed(weights), atol=2e-6)
    # A landmark's own row of W puts it where it was fitted.
    own = model.graph_.csr()
    np.testing.assert_allclose(formula.embed(own), alone.embedding_, atol=2e-5)


def test_the_order_of_rows_does_not_matter():
    order = np.random.default_rng(1).permutation(150)
    one = Leporid(dim=4, k=150, landmarks=0.4, seed=3).fit(X)
    other = Leporid(dim=4, k=150, landmarks=0.4, seed=3).fit(X[order])
    np.testing.assert_array_equal(order[other.landmarks_], order[np.isin(order, one.landmarks_)])
    assert largest_angle(one.embedding_[order], other.embedding_) < 1e-3
    np.testing.assert_allclose(one.degrees_[order], other.degrees_, rtol=1e-6)


def test_transform_and_files(tmp_path):
    model = Leporid(dim=5, k=40, landmarks=60, seed=2).fit(X)
    np.testing.assert_array_equal(model.transform(X), model.embedding_)
    new = distinct(20, 70, seed=9)
    loaded = Leporid.load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.landmarks_, model.landmarks_)
    np.testing.assert_array_equal(loaded.embedding_, model.embedding_)
    np.testing.assert_array_equal(loaded.transform(new), model.transform(new))
    np.testing.assert_array_equal(loaded.transform(X), model.embedding_)
    assert loaded.get_params()["landmarks"] == 60
    refitted = model.set_params(landmarks=None).fit(X)
    assert refitted.landmarks_ is None
    assert refitted.graph_.n == 150


def test_blocks_bound_memory_and_change_nothing(monkeypatch):
    from leporid.graph import nearest_rows

    model = Leporid(dim=5, k=20).fit(X)
    new = distinct(40, 70, seed=4)
    nearest = nearest_rows.NearestRows(X, model.graph_.thresholds, 2)
    ((_, whole, totals),) = nearest.sums(new, model.embedding_, 20)
    monkeypatch.setattr(nearest_rows, "BLOCK_ROWS", 7)
    blocks = list(nearest.sums(new, model.embedding_, 20))
    assert [part.start for part, _, _ in blocks] == list(range(0, 40, 7))
    np.testing.assert_array_equal(np.vstack([sums for _, sums, _ in blocks]), whole)
    np.testing.assert_array_equal(np.concatenate([total for _, _, total in blocks]), totals)


def test_placing_does_not_depend_on_threads():
    model = Leporid(dim=5, k=20).fit(X)
    new = distinct(40, 70, seed=4)
    extension = RowExtension(model.embedding_, model.eigenvalues_, model.degrees_, 0.5, True)
    extended = [
        extend_rows(
            binary_csr(new), binary_csr(X), extension, 20, model.graph_.thresholds, threads
        )[0].tobytes()
        for threads in (1, 2)
    ]
    assert extended[0] == extended[1]


def test_landmarks_recover_the_exact_subspace_where_there_is_one():
    """Ten well-separated groups: a quarter of the rows suffices to find them."""
    rng = np.random.default_rng(0)
    dense = np.zeros((1200, 200), dtype=np.float32)
    for i in range(1200):
        group = i % 10
        dense[i, 20 * group + rng.choice(20, 9, replace=False)] = 1.0
        dense[i, rng.choice(200, 1)] = 1.0
    rows = sparse.csr_array(dense)
    exact = Leporid(dim=10, k=100).fit(rows)
    model = Leporid(dim=10, k=100, landmarks=0.25).fit(rows)
    assert largest_angle(exact.embedding_, model.embedding_) < 0.2
    # Landmarks and the others are on one scale.
    others = np.setdiff1d(np.arange(1200), model.landmarks_)
    ratio = model.embedding_[others].std(axis=0) / model.embedding_[model.landmarks_].std(axis=0)
    assert ratio.mean() == pytest.approx(1.0, abs=0.1)


def test_the_initialisers_take_landmarks():
    train = leporid.synthesize(users=300, items=120, interactions=9000, seed=1)
    made = initializers.get("leporid")(dim=8, k=50, landmarks=0.5).fit(train)
    assert made.users.n == 300
    assert made.users.provenance["landmarks"] == 150
    assert made.items.provenance["landmarks"] is None
    model = Leporid(dim=8, k=50, landmarks=0.5).fit(train.csr())
    np.testing.assert_array_equal(made.users.vectors, model.embedding_)
    made = initializers.get("le")(dim=8, k=50, item_landmarks=40).fit(train)
    assert made.users.provenance["landmarks"] is None
    assert made.items.provenance["landmarks"] == 40
    with pytest.raises(ConfigError, match="landmarks must be"):
        initializers.get("le")(landmarks=1.5)
