"""`top_k_neighbours` against brute force and against outside implementations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from leporid.errors import GraphError, UnknownNameError
from leporid.foundation import NullProgress
from leporid.graph import (
    SIMILARITIES,
    Similarity,
    binary_csr,
    directed_neighbours,
    top_k_neighbours,
)
from tests.graph import matrices, oracle


@settings(deadline=None, max_examples=60)
@given(
    n=st.integers(1, 70),
    f=st.integers(1, 90),
    m=st.integers(1, 60),
    density=st.sampled_from([0.05, 0.3, 0.8]),
    k=st.integers(1, 100),
    similarity=st.sampled_from(SIMILARITIES),
    shrink=st.sampled_from([0.0, 1.0, 13.5]),
    alpha=st.sampled_from([0.0, 0.3, 1.0]),
    beta=st.sampled_from([0.0, 0.7, 2.0]),
    seed=st.integers(0, 10_000),
)
def test_other_rows_equal_brute_force(
    n: int,
    f: int,
    m: int,
    density: float,
    k: int,
    similarity: str,
    shrink: float,
    alpha: float,
    beta: float,
    seed: int,
) -> None:
    X, Y = matrices.random_sets(n, m, density, seed), matrices.random_sets(f, m, 0.3, seed + 1)
    found = top_k_neighbours(
        X,
        k,
        against=Y,
        similarity=similarity,
        shrink=shrink,
        asymmetric_alpha=alpha,
        tversky_alpha=alpha,
        tversky_beta=beta,
    )
    weights = oracle.similarities(X, Y, similarity, shrink, alpha, beta)
    indices, values = oracle.top_k(weights, min(k, f))
    # The two add up denominators in a different order: nearly equal weights may swap ranks.
    np.testing.assert_allclose(found.weights, values, rtol=3e-7)
    taken = found.indices >= 0
    np.testing.assert_array_equal(taken, indices >= 0)
    rows = np.nonzero(taken)[0]
    np.testing.assert_allclose(weights[rows, found.indices[taken]], found.weights[taken], rtol=3e-7)
    if similarity == "jaccard":
        np.testing.assert_array_equal(found.indices, indices)
        np.testing.assert_array_equal(found.weights, values)


@pytest.mark.parametrize("among_others", [True, False])
def test_own_rows_equal_brute_force(among_others: bool) -> None:
    X = matrices.skewed(400, 150, seed=8)
    weights = oracle.similarities(X, X)
    if among_others:
        np.fill_diagonal(weights, 0.0)
    indices, values = oracle.top_k(weights, 25)
    found = top_k_neighbours(X, 25, against=None if among_others else X)
    np.testing.assert_array_equal(found.indices, indices)
    np.testing.assert_array_equal(found.weights, values)


@pytest.mark.parametrize("density", [0.03, 0.3])
def test_many_fitted_rows(density: float) -> None:
    """More rows than a tile and a strip hold; rare columns at first, popular ones then."""
    X, fitted = (matrices.random_sets(n, 40, density, seed=n) for n in (30, 70_001))
    indices, values = oracle.top_k(oracle.similarities(X, fitted), 60)
    found = top_k_neighbours(X, 60, against=fitted)
    np.testing.assert_array_equal(found.indices, indices)
    np.testing.assert_array_equal(found.weights, values)


def test_filter_never_rejects_a_near_tie(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last row is better than the threshold of the moment by one part in 50,000."""
    monkeypatch.setattr("leporid.graph.neighbours.SAMPLE", 10**9)
    sizes = [50_000, 50_000] + [1] * 5000 + [50_001]
    columns = np.concatenate([np.arange(size) for size in sizes])
    fitted = sparse.csr_array(
        (np.ones(len(columns)), columns, np.cumsum([0, *sizes])), shape=(len(sizes), 60_000)
    )
    found = top_k_neighbours(np.ones((1, 60_000)), 2, against=fitted)
    np.testing.assert_array_equal(found.indices, [[5002, 0]])
    np.testing.assert_allclose(found.weights, [[50_001 / 60_000, 50_000 / 60_000]], rtol=1e-7)


def test_sorted_by_weight_then_index_and_padded() -> None:
    X, _ = matrices.adversarial()["ties everywhere"]
    X = sparse.csr_array(sparse.vstack([X, sparse.csr_array((2, X.shape[1]))]))
    found = top_k_neighbours(X, 50)
    for indices, weights in zip(found.indices, found.weights, strict=True):
        taken = indices >= 0
        assert (weights[~taken] == 0).all()
        assert not taken[np.argmin(taken) :].any() or taken.all()
        order = np.lexsort((indices[taken], -weights[taken]))
        np.testing.assert_array_equal(order, np.arange(taken.sum()))
    assert (found.indices[-2:] == -1).all()


def test_a_row_is_left_out_wherever_it_stands() -> None:
    """Some fitted rows in another order, every fifth of them asked for as if it were new."""
    fitted = matrices.skewed(300, 120, seed=9)
    rows = np.random.default_rng(4).permutation(300)[:110]
    own = rows.copy()
    own[::5] = -1
    weights = oracle.similarities(fitted[rows], fitted)
    known = np.flatnonzero(own >= 0)
    weights[known, own[known]] = 0.0
    indices, values = oracle.top_k(weights, 17)
    members = binary_csr(fitted)
    found = directed_neighbours(
        binary_csr(fitted[rows]), members, 17, Similarity("jaccard"), own, 2, NullProgress()
    )
    for row, length in enumerate(found.length):
        order = np.argsort(indices[row, :length])
        assert length == (indices[row] >= 0).sum()
        np.testing.assert_array_equal(found.rows[row, :length], indices[row, order])
        np.testing.assert_array_equal(found.weights[row, :length], values[row, order])


def test_new_rows_find_what_fitted_rows_find() -> None:
    fitted = matrices.skewed(300, 120, seed=9)
    among_themselves = top_k_neighbours(fitted, 15, against=fitted)
    as_new = top_k_neighbours(fitted[40:55], 15, against=fitted)
    np.testing.assert_array_equal(as_new.indices, among_themselves.indices[40:55])
    np.testing.assert_array_equal(as_new.weights, among_themselves.weights[40:55])


def test_csr_holds_the_lists() -> None:
    X = matrices.skewed(50, 40, seed=10)
    found = top_k_neighbours(X, 6)
    matrix = found.csr()
    assert matrix.shape == (50, 50)
    for row in range(50):
        taken = found.indices[row] >= 0
        np.testing.assert_array_equal(
            matrix[[row], :].toarray()[0, found.indices[row][taken]], found.weights[row][taken]
        )
    assert matrix.nnz == (found.indices >= 0).sum()


@pytest.mark.parametrize(
    ("ours", "theirs", "options"),
    [
        ("jaccard", "jaccard", {}),
        ("jaccard", "jaccard", {"shrink": 4.0}),
        ("cosine", "cosine", {"shrink": 2.0}),
        ("asymmetric_cosine", "asymmetric_cosine", {"alpha": 0.2}),
        ("tversky", "tversky", {"alpha": 0.4, "beta": 0.9, "shrink": 1.0}),
    ],
)
def test_similaripy_agrees(ours: str, theirs: str, options: dict[str, float]) -> None:
    similaripy = pytest.importorskip("similaripy")
    X = matrices.skewed(200, 90, seed=11)
    names = {"shrink": "shrink", "alpha": f"{ours.partition('_')[0]}_alpha", "beta": "tversky_beta"}
    found = top_k_neighbours(
        X, 30, similarity=ours, against=X, **{names[o]: v for o, v in options.items()}
    )
    peer = getattr(similaripy, theirs)(
        sparse.csr_matrix(X), k=200, binary=True, verbose=False, format_output="csr", **options
    ).toarray()
    taken = found.indices >= 0
    rows = np.nonzero(taken)[0]
    np.testing.assert_allclose(
        peer[rows, found.indices[taken]], found.weights[taken], rtol=1e-5, atol=1e-7
    )
    np.testing.assert_allclose(-np.sort(-peer, axis=1)[:, :30], found.weights, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("metric", ["jaccard", "cosine"])
def test_scikit_learn_agrees(metric: str) -> None:
    pairwise = pytest.importorskip("sklearn.metrics.pairwise")
    X = matrices.random_sets(150, 70, 0.25, 12)
    dense = X.toarray()
    distances = pairwise.pairwise_distances(
        dense.astype(bool) if metric == "jaccard" else dense, metric=metric
    )
    found = top_k_neighbours(X, 20, similarity=metric, against=X)
    np.testing.assert_allclose(
        -np.sort(distances - 1, axis=1)[:, :20], found.weights, rtol=1e-5, atol=1e-6
    )


def test_bad_arguments_are_named() -> None:
    X = matrices.random_sets(5, 4, 0.5, 0)
    with pytest.raises(GraphError, match="4 columns and the fitted rows have 3"):
        top_k_neighbours(X, 2, against=np.ones((2, 3)))
    with pytest.raises(UnknownNameError, match="did you mean 'cosine'"):
        top_k_neighbours(X, 2, similarity="cosin")
    with pytest.raises(GraphError, match="shrink"):
        top_k_neighbours(X, 2, shrink=-1.0)
    with pytest.raises(GraphError, match="asymmetric_alpha"):
        top_k_neighbours(X, 2, similarity="asymmetric_cosine", asymmetric_alpha=1.5)
