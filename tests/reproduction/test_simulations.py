"""Figures 1 and 2: the simulations behind them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from leporid.embeddings import laplacian_eigenpairs
from leporid.errors import ConfigError
from reproduction.simulations import (
    barabasi_albert,
    draw_insertions,
    simulate_embedding_change,
    simulate_le_dimensions,
)


def test_barabasi_albert_has_the_right_number_of_edges() -> None:
    adjacency = barabasi_albert(60, 7, np.random.default_rng(0))
    assert np.array_equal(adjacency, adjacency.T)
    assert np.trace(adjacency) == 0
    assert adjacency.sum() == 2 * 7 * (60 - 7)


def test_barabasi_albert_prefers_the_well_connected() -> None:
    rng = np.random.default_rng(1)
    degrees = np.mean([barabasi_albert(100, 5, rng).sum(axis=0) for _ in range(20)], axis=0)
    assert degrees[5:15].mean() > 2 * degrees[-10:].mean()


def test_impossible_graph_is_refused() -> None:
    with pytest.raises(ConfigError, match="1 <= m < n"):
        barabasi_albert(5, 5, np.random.default_rng(0))


def test_change_falls_with_degree() -> None:
    result = simulate_embedding_change(graphs=4, insertions=10, seed=3)
    assert result.spearman() < -0.8
    assert np.all(result.change > 0)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.7, 1.0])
def test_eigenvectors_minimise_the_regularised_objective(alpha: float) -> None:
    """The paper's theorem: its objective as sums and as a matrix, and other orthonormal vectors."""
    rng = np.random.default_rng(7)
    weights = barabasi_albert(60, 4, rng)
    weights *= np.triu(rng.random(weights.shape)) + np.triu(rng.random(weights.shape), 1).T
    weights = np.triu(weights) + np.triu(weights).T
    degree = weights.sum(axis=1)

    def objective(q: np.ndarray) -> float:
        smooth = 0.5 * (weights[..., None] * (q[:, None] - q[None]) ** 2).sum()
        return float(smooth + alpha * ((degree.max() - degree)[:, None] * q**2).sum())

    l_reg = (1 - alpha) * np.diag(degree) - weights + alpha * degree.max() * np.eye(60)
    least = np.linalg.eigvalsh(l_reg)
    assert least[0] > -1e-9
    pairs = laplacian_eigenpairs(sparse.csr_array(weights), 8, alpha=alpha, normalized=False)
    ours = pairs.vectors.astype(np.float64)
    assert objective(ours) == pytest.approx(np.trace(ours.T @ l_reg @ ours), rel=1e-6)
    assert objective(ours) == pytest.approx(least[:8].sum(), rel=1e-4)
    for scale in (0.01, 0.1, 10.0):
        other, _ = np.linalg.qr(ours + scale * rng.standard_normal(ours.shape))
        assert objective(other) > objective(ours)


def test_simulation_is_deterministic_whatever_the_threads() -> None:
    settings = {"graphs": 2, "nodes": 30, "edges": 4, "dim": 8, "insertions": 3, "seed": 5}
    one = simulate_embedding_change(threads=1, **settings)
    two = simulate_embedding_change(threads=2, **settings)
    assert np.array_equal(one.change, two.change)
    assert np.array_equal(one.count, two.count)


def test_every_node_gets_its_insertions_and_no_edge_twice() -> None:
    rng = np.random.default_rng(4)
    adjacency = barabasi_albert(40, 6, rng)
    pairs = draw_insertions(adjacency, 9, rng)
    assert np.all(adjacency[pairs[:, 0], pairs[:, 1]] == 0)
    assert np.all(pairs[:, 0] != pairs[:, 1])
    assert len({frozenset(pair) for pair in pairs.tolist()}) == len(pairs)
    ends = np.bincount(pairs.ravel(), minlength=40)
    free = 39 - adjacency.sum(axis=1)
    assert np.all(ends >= np.minimum(9, free))
    # Shared between both ends: hardly more edges than half of what the nodes need.
    assert len(pairs) < 1.2 * 40 * 9 / 2


def test_change_equals_a_plain_loop() -> None:
    """An oracle without batching: one decomposition per insertion, each end by itself."""
    settings = {"graphs": 1, "nodes": 14, "edges": 3, "dim": 5, "insertions": 4, "seed": 9}
    result = simulate_embedding_change(**settings)
    rng = np.random.default_rng(np.random.SeedSequence(9).spawn(1)[0])
    adjacency = barabasi_albert(14, 3, rng)

    def embed(graph: np.ndarray) -> np.ndarray:
        root = np.diag(1 / np.sqrt(graph.sum(axis=1)))
        laplacian = np.eye(14) - root @ graph @ root
        return np.linalg.eigh(laplacian)[1][:, :5]

    before = embed(adjacency)
    by_degree: dict[int, list[float]] = {}
    moves: dict[int, list[float]] = {}
    for pair in draw_insertions(adjacency, 4, rng):
        changed = adjacency.copy()
        changed[pair[0], pair[1]] = changed[pair[1], pair[0]] = 1
        after = embed(changed)
        after *= np.sign((before * after).sum(axis=0))
        for node in pair:
            distance = np.linalg.norm(after[node] - before[node])
            moves.setdefault(int(node), []).append(float(distance))
    for node, distances in moves.items():
        by_degree.setdefault(int(adjacency[node].sum()), []).append(float(np.mean(distances)))
    assert result.degree.tolist() == sorted(by_degree)
    expected = [np.mean(by_degree[d]) for d in sorted(by_degree)]
    np.testing.assert_allclose(result.change, expected, atol=1e-8)


def test_later_dimensions_fluctuate_more() -> None:
    """The mean squared difference across edges grows with the dimension."""
    result = simulate_le_dimensions(seed=2)
    a, b = result.edges.T
    fluctuation = ((result.values[a] - result.values[b]).astype(np.float64) ** 2).mean(axis=0)
    assert len(fluctuation) == 4
    assert np.all(np.diff(fluctuation) > 0)
