"""`knn_graph` against brute force, and what holds for any graph it makes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from leporid.errors import ConfigError, GraphError
from leporid.graph import knn_graph
from tests.graph import matrices, oracle

ADVERSARIAL = matrices.adversarial()


@pytest.mark.parametrize("name", list(ADVERSARIAL))
def test_adversarial_matrices_equal_brute_force(name: str) -> None:
    X, k = ADVERSARIAL[name]
    graph = knn_graph(X, k)
    expected = oracle.graph(X, min(k, X.shape[0] - 1)) if X.shape[0] > 1 else np.zeros((1, 1))
    np.testing.assert_array_equal(graph.csr().toarray(), expected)
    assert graph.k == min(k, X.shape[0] - 1)


@settings(deadline=None, max_examples=60)
@given(
    n=st.integers(2, 120),
    m=st.integers(1, 90),
    density=st.sampled_from([0.03, 0.2, 0.6]),
    k=st.integers(1, 130),
    similarity=st.sampled_from(["jaccard", "cosine"]),
    threads=st.sampled_from([1, 2]),
    seed=st.integers(0, 10_000),
)
def test_random_matrices_equal_brute_force(
    n: int, m: int, density: float, k: int, similarity: str, threads: int, seed: int
) -> None:
    X = matrices.random_sets(n, m, density, seed)
    graph = knn_graph(X, k, similarity=similarity, threads=threads)
    expected = oracle.graph(X, min(k, n - 1), similarity)
    np.testing.assert_array_equal(graph.csr().toarray(), expected)


@pytest.mark.parametrize(("n", "m", "k"), [(1900, 700, 40), (1300, 60, 300)])
def test_skewed_matrices_equal_brute_force(n: int, m: int, k: int) -> None:
    X = matrices.skewed(n, m, seed=3)
    np.testing.assert_array_equal(knn_graph(X, k).csr().toarray(), oracle.graph(X, k))


def test_small_tiles_and_samples_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Layouts a small matrix would never need: several tiles, and guessed thresholds, at
    last wrong ones."""
    from leporid.graph import neighbours
    from leporid.graph.kernels import layout

    X = matrices.skewed(1500, 700, seed=4)
    X = X[np.argsort(-np.diff(X.indptr), kind="stable")]
    expected = oracle.graph(X, 25)
    monkeypatch.setattr(layout, "TILE", 512)
    monkeypatch.setattr(neighbours, "SAMPLE", 64)
    np.testing.assert_array_equal(knn_graph(X, 25).csr().toarray(), expected)
    sample = neighbours._sample
    monkeypatch.setattr(neighbours, "_sample", lambda *args: (sample(*args)[0], 1))
    np.testing.assert_array_equal(knn_graph(X, 25).csr().toarray(), expected)


def test_rows_that_share_more_than_16_bits_can_count() -> None:
    X = sparse.csr_array(np.arange(70_000) >= np.array([[0], [10], [300], [66_000]]))
    np.testing.assert_array_equal(knn_graph(X, 2).csr().toarray(), oracle.graph(X, 2))


@pytest.mark.parametrize("panels", [0, 1, 2])
def test_the_number_of_panels_changes_nothing(panels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from leporid.graph import BinaryCSR
    from leporid.graph.kernels import layout
    from leporid.graph.kernels.layout import Columns, rank_columns

    def fixed(members: BinaryCSR) -> Columns:
        return Columns(rank_columns(members).rank, panels)

    X = matrices.skewed(300, 1200, seed=5)
    monkeypatch.setattr(layout, "rank_columns", fixed)
    np.testing.assert_array_equal(knn_graph(X, 12).csr().toarray(), oracle.graph(X, 12))


def test_wide_counters_where_sixteen_bits_are_too_few() -> None:
    X = matrices.random_sets(5, 80_000, 0.9, seed=0)
    np.testing.assert_array_equal(knn_graph(X, 3).csr().toarray(), oracle.graph(X, 3))


def test_graph_is_well_formed() -> None:
    graph = knn_graph(matrices.skewed(500, 200, seed=1), 30, side="users")
    matrix = graph.csr()
    assert graph.side == "users"
    assert (matrix != matrix.T).nnz == 0
    assert not matrix.diagonal().any()
    assert (graph.weights > 0).all()
    assert graph.indptr.dtype == np.int64
    assert graph.indices.dtype == np.int32
    assert graph.weights.dtype == np.float32
    for row in range(graph.n):
        assert (np.diff(graph.indices[graph.indptr[row] : graph.indptr[row + 1]]) > 0).all()
    assert (np.diff(graph.indptr)[np.diff(matrices.skewed(500, 200, 1).indptr) > 0] >= 1).all()


def test_every_format_gives_the_same_graph() -> None:
    X = matrices.skewed(120, 80, seed=2)
    expected = oracle.graph(X, 9)
    scaled = X * 3.5
    for given_matrix in (X.tocsc(), X.tocoo(), sparse.csr_matrix(X), X.toarray(), scaled, -scaled):
        np.testing.assert_array_equal(knn_graph(given_matrix, 9).csr().toarray(), expected)


def test_explicit_zeros_and_duplicates() -> None:
    rows, columns = [0, 0, 0, 1, 1, 2, 2, 2], [0, 1, 1, 0, 2, 0, 1, 1]
    values = [1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 2.0, -2.0]
    X = sparse.coo_array((values, (rows, columns)), shape=(3, 4))
    before = X.data.copy()
    clean = sparse.csr_array([[1, 1, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]])
    np.testing.assert_array_equal(knn_graph(X, 2).csr().toarray(), oracle.graph(clean, 2))
    np.testing.assert_array_equal(X.data, before)


def test_thread_counts_and_runs_agree() -> None:
    X = matrices.skewed(700, 300, seed=6)
    first = knn_graph(X, 20, threads=1)
    for threads in (1, 2):
        again = knn_graph(X, 20, threads=threads)
        np.testing.assert_array_equal(first.indptr, again.indptr)
        np.testing.assert_array_equal(first.indices, again.indices)
        np.testing.assert_array_equal(first.weights, again.weights)


def test_progress_reaches_its_total() -> None:
    class Recorder:
        def __init__(self) -> None:
            self.total: int | None = None
            self.done = 0

        def start(self, description: str, total: int | None = None) -> None:
            self.total = total

        def advance(self, steps: int = 1, **fields: object) -> None:
            self.done += steps

        def say(self, line: str) -> None:
            pass

        def close(self) -> None:
            pass

    recorder = Recorder()
    knn_graph(matrices.random_sets(300, 40, 0.2, 0), 5, progress=recorder)
    assert recorder.done == recorder.total == 300


@pytest.mark.parametrize(
    ("X", "arguments", "message"),
    [
        (sparse.csr_array((0, 4)), {}, "empty"),
        (sparse.csr_array((4, 0)), {}, "empty"),
        (np.ones((3, 3)), {"k": 0}, "at least 1"),
        (np.ones((3, 3)), {"k": -2}, "at least 1"),
        (np.ones((3, 3)), {"k": 2.5}, "a whole number"),
        (np.array([[1.0, np.nan], [1.0, 0.0]]), {}, "1 NaN"),
        (np.ones(3), {}, "2-D"),
        (np.ones((3, 3)), {"similarity": "tversky"}, "symmetric"),
        (np.ones((3, 3)), {"device": "tpu"}, "device"),
    ],
)
def test_what_cannot_be_a_graph_is_an_error(X: object, arguments: dict, message: str) -> None:
    with pytest.raises((GraphError, ConfigError), match=message):
        knn_graph(X, **arguments)


@pytest.mark.slow
@pytest.mark.realdata
def test_movielens_equals_sparse_products(real_data: Path) -> None:
    import leporid

    train = leporid.temporal_split(leporid.load(real_data / "ml-1m-r3.parquet").core(20)).train
    X = train.csr()
    for matrix in (X, sparse.csr_array(X.T)):
        expected = oracle.graph(matrix, 300)
        np.testing.assert_array_equal(knn_graph(matrix, 300).csr().toarray(), expected)
