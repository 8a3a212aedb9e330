"""The estimators: end to end, new rows, files, and scikit-learn's conventions and checks."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from scipy import sparse

from leporid import LaplacianEigenmaps, Leporid
from leporid.embeddings.out_of_sample import identical_rows
from leporid.errors import (
    ConfigError,
    DataError,
    GraphError,
    LeporidError,
    LeporidWarning,
    NotFittedError,
)
from leporid.graph import binary_csr
from tests.spectral.graphs import (
    community_graph,
    jaccard_graph,
    largest_angle,
    neighbour_weights,
    oracle,
)


def interactions(n=120, m=60, seed=0):
    """Rows of uneven length that prefer one of four groups of columns; no two rows alike."""
    rng = np.random.default_rng(seed)
    rows = np.zeros((n, m), dtype=np.float32)
    for i in range(n):
        weight = np.where(np.arange(m) % 4 == i % 4, 6.0, 1.0) / (1 + np.arange(m)) ** 0.3
        size = rng.integers(4, 25)
        rows[i, rng.choice(m, size, replace=False, p=weight / weight.sum())] = 1.0
    assert len(np.unique(rows, axis=0)) == n
    return sparse.csr_array(rows)


X = interactions()


@pytest.mark.parametrize("k", [7, 30, 5000])
def test_fit_embeds_the_rows_of_the_interaction_matrix(k):
    model = Leporid(dim=6, k=k).fit(X)
    graph = jaccard_graph(X, k)
    np.testing.assert_array_equal(model.graph_.csr().toarray(), graph.csr().toarray())
    values, vectors = oracle(graph.csr(), 0.5)
    np.testing.assert_allclose(model.eigenvalues_, values[:6], atol=1e-6)
    if values[5] - values[6] > 5e-3:
        assert largest_angle(model.embedding_, vectors[:, :6]) <= 1e-3
    assert model.embedding_.shape == (120, 6)
    assert model.embedding_.dtype == np.float32
    assert model.n_features_in_ == 60
    assert model.residuals_.max() <= 1e-6


@pytest.mark.parametrize("dim", [1, 2, 8])
def test_rows_that_are_all_the_same_are_embedded(dim):
    for n in range(2, 120):
        model = Leporid(dim=min(dim, n)).fit(np.ones((n, 5)))
        vectors = model.embedding_.astype(np.float64)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(min(dim, n)), atol=2e-5)
        np.testing.assert_allclose(np.abs(vectors[:, 0]), n**-0.5, rtol=1e-4)


def test_alpha_zero_is_laplacian_eigenmaps():
    one = Leporid(dim=5, k=20, alpha=0.0).fit(X)
    other = LaplacianEigenmaps(dim=5, k=20).fit(X)
    assert one.embedding_.tobytes() == other.embedding_.tobytes()
    # and its first vector is the square root of the degrees
    root = np.sqrt(other.degrees_)
    np.testing.assert_allclose(other.embedding_[:, 0], root / np.linalg.norm(root), atol=1e-6)
    assert other.eigenvalues_[0] == pytest.approx(1.0)
    regularized = Leporid(dim=5, k=20).fit(X)
    assert largest_angle(regularized.embedding_, other.embedding_) > 1e-3


def test_agrees_with_sklearn_up_to_its_conventions():
    from sklearn.manifold import spectral_embedding

    W = community_graph(300, 6, seed=2)
    ours = LaplacianEigenmaps(dim=6).fit_graph(W)
    # sklearn divides by the square root of the degrees and, here, keeps the first vector.
    theirs = spectral_embedding(
        sparse.csr_matrix(W.toarray(), dtype=np.float64),
        n_components=6,
        drop_first=False,
        eigen_solver="arpack",
        eigen_tol=1e-10,
    )
    scaled = ours.embedding_ / np.sqrt(ours.degrees_)[:, None]
    for column in range(6):
        a, b = scaled[:, column], theirs[:, column]
        cosine = abs(a @ b) / np.linalg.norm(a) / np.linalg.norm(b)
        assert cosine == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_transform_returns_fitted_rows(normalized, alpha):
    model = Leporid(dim=5, k=15, alpha=alpha, normalized=normalized).fit(X)
    np.testing.assert_allclose(model.transform(X), model.embedding_, atol=1e-4)
    some = [3, 77, 119, 3]
    np.testing.assert_allclose(model.transform(X[some]), model.embedding_[some], atol=1e-4)
    # and the formula itself does, from that row of W
    on_graph = Leporid(dim=5, alpha=alpha, normalized=normalized).fit_graph(model.graph_)
    again = on_graph.transform(model.graph_.csr()[some])
    np.testing.assert_allclose(again, on_graph.embedding_[some], atol=1e-4)


def test_rows_with_the_same_items_keep_their_own_vectors_in_the_fitted_matrix():
    doubled = sparse.csr_array(sparse.vstack([X, X[[4, 4, 9]]], format="csr"))
    model = Leporid(dim=40, k=3).fit(doubled)
    assert np.abs(model.embedding_[4] - model.embedding_[121]).max() > 1e-3
    np.testing.assert_array_equal(model.transform(doubled), model.embedding_)
    np.testing.assert_array_equal(model.transform(doubled[[121]]), model.embedding_[[4]])


def test_new_rows_follow_the_formula_with_the_or_rule():
    fitted, new = X[:100], X[100:]
    k, alpha = 9, 0.3
    model = Leporid(dim=4, k=k, alpha=alpha).fit(fitted)
    old, fresh = fitted.toarray(), new.toarray()
    common = old @ fresh.T
    similarity = common / (old.sum(1)[:, None] + fresh.sum(1) - common)
    within = old @ old.T
    within = within / (old.sum(1)[:, None] + old.sum(1) - within)
    np.fill_diagonal(within, 0.0)
    kth = np.sort(within, axis=1)[:, -k]
    degrees = model.degrees_
    d_reg = (1 - alpha) * degrees + alpha * degrees.max()
    for column in range(new.shape[0]):
        w = similarity[:, column]
        own = np.argsort(-w.astype(np.float32), kind="stable")[:k]
        chosen = w > kth + 1e-7
        assert chosen[np.setdiff1d(np.arange(100), own)].any() or column
        chosen[own] = True
        w = np.where(chosen, w, 0.0)
        d_new = (1 - alpha) * w.sum() + alpha * degrees.max()
        expected = (w / np.sqrt(d_new * d_reg)) @ model.embedding_ / model.eigenvalues_
        np.testing.assert_allclose(model.transform(new[[column]])[0], expected, atol=1e-5)
    np.testing.assert_allclose(
        model.transform(new), np.vstack([model.transform(new[[i]]) for i in range(20)]), atol=1e-6
    )


def test_rows_without_neighbours_are_zero():
    rows = X.toarray()
    rows[:, 50:] = 0.0
    model = Leporid(dim=3, k=10).fit(rows)
    strange = np.zeros((2, 60))
    strange[1, 55] = 1.0
    assert not model.transform(strange).any()


def test_components_with_an_eigenvalue_near_zero_do_not_explode():
    # Two nodes joined to the same third: eigenvalues of A at alpha=0 are 1, 0, -1.
    W = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    model = LaplacianEigenmaps(dim=3).fit_graph(W)
    out = model.transform(sparse.csr_array(W))
    assert np.isfinite(out).all()
    assert not out[:, 1].any()
    np.testing.assert_allclose(out[:, [0, 2]], model.embedding_[:, [0, 2]], atol=1e-5)


def test_thresholds_and_identical_rows():
    graph = jaccard_graph(X, 8)
    dense = jaccard_graph(X, 119).csr().toarray()
    np.testing.assert_allclose(graph.thresholds, np.sort(dense, axis=1)[:, -8], atol=1e-7)
    doubled = sparse.csr_array(sparse.vstack([X[[5]], X[[5]], X[[2]]], format="csr"))
    query = sparse.csr_array(sparse.vstack([X[[2]], X[[9]], X[[5]]], format="csr"))
    assert identical_rows(query, binary_csr(doubled)).tolist() == [2, -1, 0]
    # new rows that are the fitted ones have themselves as best neighbour
    found = neighbour_weights(X[:3], X, 8, graph.thresholds).toarray()
    np.testing.assert_array_equal(found.argmax(axis=1), [0, 1, 2])


def test_identical_rows_are_those_with_the_same_columns():
    """Few columns, so that most rows occur again, and empty ones."""
    rows = (np.random.default_rng(0).random((400, 5)) < 0.3).astype(np.float32)
    fitted, new = sparse.csr_array(rows[:150]), sparse.csr_array(rows[150:])
    sets = [tuple(row) for row in rows]
    first = {key: row for row, key in reversed(list(enumerate(sets[:150]))) if any(key)}
    assert identical_rows(new, binary_csr(fitted)).tolist() == [
        first.get(key, -1) for key in sets[150:]
    ]


@pytest.mark.parametrize("estimator", [Leporid, LaplacianEigenmaps])
def test_save_and_load(tmp_path, estimator):
    model = estimator(dim=4, k=12).fit(X[:100])
    loaded = estimator.load(model.save(tmp_path / "m"))
    assert loaded.get_params() == model.get_params()
    assert loaded.embedding_.tobytes() == model.embedding_.tobytes()
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
    assert not hasattr(loaded, "graph_")
    loaded.save(tmp_path / "again")
    np.testing.assert_array_equal(
        estimator.load(tmp_path / "again").transform(X), model.transform(X)
    )
    wrong = LaplacianEigenmaps if estimator is Leporid else Leporid
    with pytest.raises(DataError, match=estimator.__name__):
        wrong.load(tmp_path / "m")


def test_a_folder_of_another_format_is_refused(tmp_path):
    path = Leporid(dim=4, k=12).fit(X).save(tmp_path / "m") / "spectral.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 1}))
    with pytest.raises(DataError, match="has the format 1, this release reads 2: fit it again"):
        Leporid.load(tmp_path / "m")


def test_a_square_matrix_is_interactions_unless_precomputed():
    W = community_graph(80, 3, seed=1)
    rows = Leporid(dim=3, k=10).fit(W)
    nodes = Leporid(dim=3, metric="precomputed").fit(W)
    np.testing.assert_array_equal(nodes.graph_.csr().toarray(), W.toarray())
    assert rows.graph_.k == 10
    np.testing.assert_array_equal(nodes.embedding_, Leporid(dim=3).fit_graph(W).embedding_)
    np.testing.assert_allclose(nodes.transform(W), nodes.embedding_, atol=1e-4)
    with pytest.raises(GraphError, match="symmetric"):
        Leporid(dim=3, metric="precomputed").fit(np.triu(W.toarray()))
    with pytest.raises(ConfigError, match="metric"):
        Leporid(metric="cosine").fit(W)


def test_refusals():
    with pytest.raises(NotFittedError, match="fit first"):
        Leporid().transform(X)
    with pytest.raises(LeporidError, match="did you mean 'alpha'"):
        Leporid().set_params(alhpa=1)
    model = Leporid(dim=3, k=5).fit(X)
    with pytest.raises(DataError, match="expecting 60"):
        model.transform(X[:, :10])
    with pytest.raises(GraphError, match="NaN"):
        Leporid().fit(np.full((3, 3), np.nan))
    with pytest.raises(DataError, match="must not be negative"):
        Leporid(dim=3).fit_graph(community_graph(40, 2, 1)).transform(np.full((1, 40), -1.0))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("dim", wrong) for wrong in ("x", 2.5, None, True, 0)),
        *(("k", wrong) for wrong in ("x", 2.5, 0)),
        *(("alpha", wrong) for wrong in ("x", None, -0.1, 1.1, np.nan)),
        *(("tol", wrong) for wrong in ("x", 0.0, np.nan)),
        *(("seed", wrong) for wrong in ("x", -1, 1.5)),
        *(("threads", wrong) for wrong in ("x", 0)),
        *(("device", wrong) for wrong in (3, "tpu")),
        ("normalized", "no"),
        ("solver", []),
        ("metric", "cosine"),
        ("landmarks", "x"),
    ],
)
def test_a_wrong_parameter_is_refused_before_the_graph_is_made(name, value, monkeypatch):
    monkeypatch.setattr("leporid.embeddings.estimators.knn_graph", None)
    model = Leporid(**{"dim": 2, "k": 5, name: value})
    for fit in (model.fit, model.fit_graph):
        with pytest.raises(ConfigError, match=name):
            fit(np.eye(6))


def test_numbers_of_numpy_are_parameters_like_others():
    numbers = {"dim": np.int64(3), "k": np.int32(5), "alpha": np.float32(0.5), "seed": np.uint8(1)}
    model = Leporid(**numbers, normalized=np.bool_(True)).fit(X)
    plain = Leporid(dim=3, k=5, alpha=0.5, seed=1).fit(X)
    np.testing.assert_allclose(model.embedding_, plain.embedding_, atol=1e-6)


def test_rows_of_different_lengths_are_no_matrix():
    for use in (Leporid().fit, Leporid().fit_graph, Leporid(dim=2, k=5).fit(X).transform):
        with pytest.raises(GraphError, match="rows of different lengths"):
            use([[1, 2], [3]])


def test_sklearn_clone_and_pipeline():
    from sklearn.base import clone
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = Leporid(dim=3, k=9, alpha=0.2)
    copy = clone(model)
    assert copy is not model
    assert copy.get_params() == model.get_params()
    out = make_pipeline(model, StandardScaler()).fit_transform(X)
    np.testing.assert_allclose(out.mean(axis=0), 0.0, atol=1e-5)


ONE_SET = "every entry of the check's dense data is non-zero, so all its rows are the same item set"
EXEMPT = {
    "check_methods_subset_invariance": ONE_SET + " and share the first one's vector",
    "check_methods_sample_order_invariance": ONE_SET + " and share the first one's vector",
}


@pytest.mark.parametrize("estimator", [Leporid(dim=2, k=5), LaplacianEigenmaps(dim=2, k=5)])
def test_sklearn_estimator_checks(estimator):
    pytest.importorskip("sklearn", "1.6", reason="earlier versions cannot exempt a check")
    from sklearn.exceptions import SkipTestWarning
    from sklearn.utils.estimator_checks import check_estimator

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeporidWarning)
        warnings.simplefilter("ignore", SkipTestWarning)
        warnings.filterwarnings("ignore", message=".*does not inherit from")
        results = check_estimator(
            estimator, expected_failed_checks=EXEMPT, on_fail=None, on_skip=None
        )
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert not failed
    exempt = {r["check_name"] for r in results if r["status"] == "xfail"}
    assert exempt == set(EXEMPT)
    assert sum(r["status"] == "passed" for r in results) >= 40


@pytest.mark.slow
@pytest.mark.realdata
def test_ml_1m_users(real_data):
    from scipy.sparse.linalg import eigsh

    from leporid import load, temporal_split

    train = temporal_split(load(real_data / "ml-1m-r3.parquet").core(20)).train.csr()
    model = Leporid().fit(train)
    assert model.residuals_.max() <= 1e-6
    d = model.degrees_
    S = sparse.diags_array(1 / np.sqrt(0.5 * d + 0.5 * d.max()))
    A = S @ model.graph_.csr().astype(np.float64) @ S
    values, vectors = eigsh(A, k=66, which="LA", tol=1e-10)
    values, vectors = values[::-1], vectors[:, ::-1]
    np.testing.assert_allclose(model.eigenvalues_, values[:64], atol=1e-8)
    q = model.embedding_.astype(np.float64)
    assert np.linalg.norm(A @ q - q * model.eigenvalues_, axis=0).max() <= 1e-6
    gap = values[63] - values[64]
    assert largest_angle(q, vectors[:, :64]) <= max(1e-3, 1e-6 / gap)
    some = np.arange(0, train.shape[0], 97)
    np.testing.assert_allclose(model.transform(train[some]), model.embedding_[some], atol=1e-4)
