"""`netmf` against its closed form, dense, on a small graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from leporid.embeddings import netmf
from leporid.embeddings.netmf import (
    LogOperator,
    NetMF,
    deepwalk_factors,
    deepwalk_filter,
    top_singular,
)
from leporid.foundation import NullProgress
from leporid.graph import KnnGraph
from tests.initializers.helpers import planted


def random_graph(n: int = 70, seed: int = 0) -> KnnGraph:
    """A connected weighted graph with unequal degrees."""
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((n, n)) * (rng.random((n, n)) < 0.15), 1)
    upper[np.arange(n - 1), np.arange(1, n)] = 0.3
    W = sparse.csr_array((upper + upper.T).astype(np.float32))
    return KnnGraph(W.indptr.astype(np.int64), W.indices.astype(np.int32), W.data, "rows", n - 1)


def closed_form(graph: KnnGraph, window: int, negatives: float) -> Any:
    """vol / (b T) sum_r (D^-1 W)^r D^-1, by the definition."""
    W = graph.csr().toarray().astype(np.float64)
    d = W.sum(axis=1)
    P = W / d[:, None]
    powers = sum(np.linalg.matrix_power(P, r) for r in range(1, window + 1))
    return d.sum() / (negatives * window) * powers / d[None, :]


@pytest.mark.parametrize(("window", "negatives"), [(10, 1.0), (3, 2.0)])
def test_all_eigenpairs_give_the_closed_form(window: int, negatives: float) -> None:
    graph = random_graph()
    left, signs = deepwalk_factors(graph, window, negatives, rank=graph.n)
    np.testing.assert_allclose(
        (left * signs) @ left.T, closed_form(graph, window, negatives), rtol=1e-3, atol=1e-4
    )


def test_few_eigenpairs_approach_it_and_a_larger_window_needs_fewer() -> None:
    graph = random_graph(200)

    def error(window: int, rank: int) -> float:
        left, signs = deepwalk_factors(graph, window, 1.0, rank=rank)
        exact = closed_form(graph, window, 1.0)
        return float(np.linalg.norm((left * signs) @ left.T - exact) / np.linalg.norm(exact))

    assert error(10, 40) > error(10, 80) > error(10, 180)
    assert error(10, 80) < 0.5 * error(2, 80)


@pytest.mark.parametrize("dense", [True, False])
def test_blockwise_solver_finds_the_singular_vectors(
    monkeypatch: pytest.MonkeyPatch, dense: bool
) -> None:
    monkeypatch.setattr(netmf, "_BLOCK", 37)
    graph = random_graph(170)
    operator = LogOperator(*deepwalk_factors(graph, 10, 1.0, rank=170))
    values, vectors, residual = top_singular(operator, 6, dense=dense, progress=NullProgress())
    Y = np.log(np.maximum(closed_form(graph, 10, 1.0), 1.0))
    u, s, _ = np.linalg.svd(Y)
    np.testing.assert_allclose(values, s[:6], rtol=1e-3)
    # Each vector up to its sign, where its singular value stands apart from the next.
    for column in range(6):
        apart = min(abs(s[column] - s[other]) for other in range(8) if other != column)
        if apart > 0.02 * s[0]:
            assert abs(vectors[:, column] @ u[:, column]) > 0.999
    assert residual < 5e-3


def test_the_operator_is_the_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netmf, "_BLOCK", 32)
    operator = LogOperator(*deepwalk_factors(random_graph(101), 10, 1.0, rank=40))
    B = np.random.default_rng(0).standard_normal((101, 7)).astype(np.float32)
    np.testing.assert_allclose(operator.apply(B), operator.dense() @ B, rtol=1e-3, atol=1e-3)


def test_filter_is_the_mean_of_the_powers() -> None:
    mu = np.array([1.0, 0.7, 0.0, -0.4])
    expected = [np.mean([m**r for r in range(1, 11)]) for m in mu]
    np.testing.assert_allclose(deepwalk_filter(mu, 10), expected)


def test_initialiser_separates_planted_communities() -> None:
    train = planted(90, 60)
    made = NetMF(dim=4, k=10).fit(train)
    assert made.users.vectors.shape == (90, 4)
    assert made.items.vectors.shape == (60, 4)
    for vectors, block in (
        (made.users.vectors, np.arange(90) % 3),
        (made.items.vectors, np.arange(60) // 20),
    ):
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        similar = unit @ unit.T
        same = block[:, None] == block[None, :]
        assert similar[same].mean() > similar[~same].mean() + 0.3
