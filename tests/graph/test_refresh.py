"""A refreshed graph is the fresh one, to the bit: whatever changed, and however often."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from scipy import sparse

from leporid.errors import GraphError
from leporid.graph import refresh
from leporid.graph.knn import knn_graph
from leporid.graph.refresh import refresh_graph
from tests.graph.matrices import random_sets, skewed
from tests.graph.oracle import similarities


@pytest.fixture(autouse=True)
def _merge_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists are merged at any share of changed rows, so that small matrices try it."""
    monkeypatch.setattr(refresh, "SEARCH_ALL_FROM", 2.0)
    monkeypatch.setattr(refresh, "SEARCH_ALL_BELOW", 0)
    monkeypatch.setattr(refresh, "MERGE_ROWS", 37)
    monkeypatch.setattr(refresh, "FEWEST_NEAR", 1)
    monkeypatch.setattr(refresh, "NEAR", 1)


def grown(X: Any, rows: int, columns: int, share: float, seed: int, lose: bool) -> Any:
    """X with more rows, more columns and other members in a share of its rows."""
    rng = np.random.default_rng(seed)
    n, m = X.shape
    dense = np.zeros((n + rows, m + columns), bool)
    dense[:n, :m] = X.toarray() != 0
    dense[n:] = rng.random((rows, m + columns)) < 0.2
    for row in np.flatnonzero(rng.random(n) < share):
        dense[row, rng.integers(0, m + columns, size=int(rng.integers(1, 6)))] = True
        if lose:
            dense[row, rng.integers(0, m + columns, size=3)] = False
    return sparse.csr_array(dense.astype(np.float32))


def assert_same(one: Any, other: Any) -> None:
    np.testing.assert_array_equal(one.indptr, other.indptr)
    np.testing.assert_array_equal(one.indices, other.indices)
    np.testing.assert_array_equal(one.weights, other.weights)
    assert one.k == other.k


@settings(deadline=None, max_examples=60)
@given(
    n=st.integers(2, 90),
    m=st.integers(1, 25),
    k=st.integers(1, 40),
    density=st.sampled_from([0.05, 0.2, 0.5]),
    rows=st.integers(0, 9),
    columns=st.integers(0, 4),
    share=st.sampled_from([0.0, 0.05, 0.3, 0.9]),
    lose=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_two_refreshes_equal_two_fresh_graphs(
    n: int,
    m: int,
    k: int,
    density: float,
    rows: int,
    columns: int,
    share: float,
    lose: bool,
    seed: int,
) -> None:
    first = random_sets(n, m, density, seed)
    second = grown(first, rows, columns, share, seed + 1, lose)
    third = grown(second, 1, 0, share / 2, seed + 2, lose)
    once = refresh_graph(knn_graph(first, k), first, second, k, threads=2)
    assert_same(once.graph, knn_graph(second, k))
    # the lists of every row to the end of what is known of them
    for row in np.flatnonzero(once.spare.complete):
        edges = once.graph.indptr[row + 1] - once.graph.indptr[row]
        known = min(edges, once.graph.k) + once.spare.length[row]
        assert known == (similarities(second[[row]], second) > 0).sum() - (second[[row]].nnz > 0)
    twice = refresh_graph(once.graph, second, third, k, spare=once.spare, threads=1)
    assert_same(twice.graph, knn_graph(third, k))


def test_unchanged_lists_are_not_searched_again() -> None:
    X = skewed(600, 80, seed=3)
    same = refresh_graph(knn_graph(X, 50), X, X, 50)
    assert (same.changed, same.searched) == (0, 0)
    later = grown(X, 0, 0, 0.03, 5, lose=False)
    once = refresh_graph(same.graph, X, later, 50, spare=same.spare)
    assert_same(once.graph, knn_graph(later, 50))
    assert 0 < once.changed < 40
    assert once.changed < once.searched < 600


def test_spare_neighbours_save_searches() -> None:
    X = skewed(900, 120, seed=4)
    everything = grown(X, 0, 0, 1.0, 6, lose=False)
    spared = refresh_graph(knn_graph(X, 320), X, everything, 320)
    assert spared.searched > 800
    later = grown(everything, 0, 0, 0.01, 7, lose=False)
    without = refresh_graph(spared.graph, everything, later, 320)
    with_spare = refresh_graph(spared.graph, everything, later, 320, spare=spared.spare)
    assert_same(with_spare.graph, without.graph)
    assert with_spare.searched < without.searched


def test_many_changed_rows_search_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refresh, "SEARCH_ALL_FROM", 0.3)
    X = skewed(200, 40, seed=8)
    later = grown(X, 0, 0, 0.8, 9, lose=False)
    result = refresh_graph(knn_graph(X, 20), X, later, 20)
    assert result.searched == 200
    assert_same(result.graph, knn_graph(later, 20))


def test_few_rows_are_all_searched_for_unless_nothing_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(refresh, "SEARCH_ALL_BELOW", 201)
    X = skewed(200, 40, seed=8)
    graph, later = knn_graph(X, 20), grown(X, 0, 0, 0.05, 9, lose=False)
    result = refresh_graph(graph, X, later, 20)
    assert 0 < result.changed < result.searched == 200
    assert_same(result.graph, knn_graph(later, 20))
    assert refresh_graph(graph, X, X, 20).searched == 0


def test_rows_and_columns_keep_their_places() -> None:
    X = skewed(50, 20, seed=1)
    graph = knn_graph(X, 5)
    with pytest.raises(GraphError, match="fewer than the 50 and 20"):
        refresh_graph(graph, X, X[:40])
    with pytest.raises(GraphError, match="has 50 nodes and `before` 40 rows"):
        refresh_graph(graph, X[:40], X)
