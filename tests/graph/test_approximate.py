"""Approximate neighbours: exact similarities, a recall that is true, and a valid graph."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import leporid
from leporid.errors import GraphError, MissingExtraError
from leporid.graph import approximate, knn
from leporid.graph.approximate import approximate_neighbours, measured_recall, sketch_rows
from leporid.graph.knn import knn_graph
from leporid.graph.layout import Found
from leporid.graph.matrix import members_of
from leporid.graph.offer import offer_in_return
from leporid.graph.similarity import Similarity
from leporid.graph.symmetrise import symmetrise
from leporid.progress import NullProgress
from tests.graph import oracle
from tests.graph.matrices import adversarial, skewed

pytest.importorskip("faiss")

JACCARD = Similarity("jaccard")
X = leporid.synthesize(users=900, items=300, interactions=20_000, seed=2).csr()


def nearly(X, k, seed=0, share=0.1, threads=2):
    members = members_of(X)
    found = approximate_neighbours(members, k, JACCARD, seed, threads, NullProgress(), share)
    return members, found


def lists(found):
    return [
        dict(zip(found.rows[i, :m].tolist(), found.weights[i, :m].tolist(), strict=True))
        for i, m in enumerate(found.length)
    ]


def as_found(weights, k, keep):
    """Lists of up to k neighbours, those of the dense similarities that `keep` lets pass."""
    n = len(weights)
    found = Found(np.zeros((n, k), np.int32), np.zeros((n, k), np.float32), np.zeros(n, np.int32))
    indices, values = oracle.top_k(np.where(keep, weights, 0.0).astype(np.float32), k)
    for row in range(n):
        order = np.argsort(indices[row][indices[row] >= 0])
        found.length[row] = len(order)
        found.rows[row, : len(order)] = indices[row][order]
        found.weights[row, : len(order)] = values[row][order]
    return found


@pytest.mark.parametrize("name", [name for name in adversarial() if name != "one row"])
def test_no_similarity_is_ever_wrong(name):
    matrix, k = adversarial()[name]
    k = min(k, matrix.shape[0] - 1)
    _, found = nearly(matrix, k, share=0.2)
    exact = oracle.similarities(matrix, matrix)
    for row, neighbours in enumerate(lists(found)):
        assert row not in neighbours
        assert list(neighbours) == sorted(neighbours)
        assert len(neighbours) <= k
        for other, weight in neighbours.items():
            assert weight == exact[row, other] > 0


def test_only_part_of_the_rows_is_searched_and_all_of_them_is_exact():
    exact = knn_graph(X, 10)
    members, found = nearly(X, 10, share=0.05)
    recall = measured_recall(members, found, 10, JACCARD, 0, 2)
    assert 0.3 < recall < 0.98
    members, found = nearly(X, 10, share=1.0)
    assert measured_recall(members, found, 10, JACCARD, 0, 2) == 1.0
    graph = symmetrise(found, 10, "rows", "jaccard", 2)
    np.testing.assert_array_equal(graph.indices, exact.indices)
    np.testing.assert_array_equal(graph.weights, exact.weights)


@pytest.mark.parametrize("sample", [60, 10_000])
def test_recall_is_that_of_brute_force(sample):
    small = X[:250]
    k = 12
    members, found = nearly(small, k, share=0.08)
    weights = oracle.similarities(small, small)
    np.fill_diagonal(weights, 0.0)
    rows = np.arange(250)
    if sample < 250:
        rows = np.sort(np.random.default_rng([3, 2]).choice(250, sample, replace=False))
    right = total = 0
    for row in rows:
        best = np.sort(weights[row])[::-1][:k]
        best = best[best > 0]
        mine = found.weights[row, : found.length[row]]
        right += min(int((mine >= best[-1]).sum()), len(best)) if len(best) else 0
        total += len(best)
    measured = measured_recall(members, found, k, JACCARD, 3, 2, sample)
    assert measured == pytest.approx(right / total)
    assert measured < 1.0


def test_recall_counts_what_is_missing():
    """Lists of which we know that every other neighbour is gone."""
    rng = np.random.default_rng(0)
    small = sparse.csr_array((rng.random((80, 400)) < 0.3).astype(np.float32))
    weights = oracle.similarities(small, small)
    np.fill_diagonal(weights, 0.0)
    found = as_found(weights, 10, np.ones_like(weights, bool))
    members = members_of(small)
    assert measured_recall(members, found, 10, JACCARD, 0, 1) == 1.0
    for row in range(80):
        order = np.argsort(-found.weights[row], kind="stable")
        found.weights[row, order[5:]] = 1e-3
    assert measured_recall(members, found, 10, JACCARD, 0, 1) == pytest.approx(0.5, abs=0.03)
    found.length[:] = 0
    assert measured_recall(members, found, 10, JACCARD, 0, 1) == 0.0


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10_000), k=st.integers(1, 12), chance=st.floats(0.1, 1.0))
def test_offers_make_both_sides_know_a_pair(seed, k, chance):
    rng = np.random.default_rng(seed)
    weights = oracle.similarities(*[skewed(40, 25, seed)] * 2)
    np.fill_diagonal(weights, 0.0)
    before = as_found(weights, k, rng.random(weights.shape) < chance)
    known = np.zeros(weights.shape, bool)
    for row, neighbours in enumerate(lists(before)):
        known[row, list(neighbours)] = True
    offer_in_return(before, k, 2)
    # The k best of all pairs either side knew of, straight from that definition.
    expected = as_found(weights, k, known | known.T)
    assert lists(before) == lists(expected)
    graph = symmetrise(before, k, "rows", "jaccard", 2).csr()
    assert (graph != graph.T).nnz == 0
    chosen = np.zeros(weights.shape, bool)
    for row, neighbours in enumerate(lists(expected)):
        chosen[row, list(neighbours)] = True
    np.testing.assert_array_equal(graph.toarray(), np.where(chosen | chosen.T, weights, 0.0))


def test_the_graph_says_its_recall():
    graph = knn_graph(X, 10, method="approximate")
    assert 0.5 < graph.recall < 1.0
    assert knn_graph(X, 10, method="exact").recall is None
    assert knn_graph(X, 10).recall is None
    with pytest.raises(GraphError, match="method must be one of"):
        knn_graph(X, 10, method="rough")


def test_the_same_seed_gives_the_same_graph():
    one = knn_graph(X, 10, method="approximate", seed=4, threads=1)
    same = knn_graph(X, 10, method="approximate", seed=4, threads=2)
    np.testing.assert_array_equal(one.indices, same.indices)
    np.testing.assert_array_equal(one.weights, same.weights)
    assert one.recall == same.recall
    other = knn_graph(X, 10, method="approximate", seed=5)
    assert not np.array_equal(one.indptr, other.indptr)


def test_auto_is_exact_up_to_a_size_and_without_the_extra(monkeypatch):
    monkeypatch.setattr(knn, "EXACT_UP_TO", 899)
    assert knn_graph(X, 10).recall is not None
    monkeypatch.setattr(knn, "EXACT_UP_TO", 900)
    assert knn_graph(X, 10).recall is None
    monkeypatch.setattr(knn, "EXACT_UP_TO", 899)
    monkeypatch.setattr(approximate, "have_faiss", lambda: False)
    assert knn_graph(X, 10).recall is None


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "faiss", None)
    with pytest.raises(MissingExtraError, match=r"leporid\[approximate\]"):
        knn_graph(X, 10, method="approximate")


def test_a_sketch_keeps_what_rows_share():
    members = members_of(X)
    sketch = sketch_rows(members, 300, 0).astype(np.float64)
    dense = X.toarray() != 0
    sizes = np.sqrt(dense.sum(axis=1))
    cosines = (dense.astype(np.float64) @ dense.T) / np.outer(sizes, sizes)
    np.testing.assert_allclose(sketch @ sketch.T, cosines, atol=2e-3)
