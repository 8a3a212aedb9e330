"""Figures 1 and 2: the simulations behind them."""

from __future__ import annotations

import numpy as np
import pytest

from leporid.errors import ConfigError
from leporid.experiments.embedding_change import barabasi_albert, simulate_embedding_change
from leporid.experiments.le_dimensions import le_dimensions


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


def test_simulation_is_deterministic_whatever_the_threads() -> None:
    settings = {"graphs": 2, "nodes": 30, "edges": 4, "dim": 8, "insertions": 3, "seed": 5}
    one = simulate_embedding_change(threads=1, **settings)
    two = simulate_embedding_change(threads=2, **settings)
    assert np.array_equal(one.change, two.change)
    assert np.array_equal(one.count, two.count)


def test_change_equals_a_plain_loop() -> None:
    """An oracle without sharing, batching or weights: one decomposition an insertion."""
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
    for node in range(14):
        free = [j for j in range(14) if j != node and adjacency[node, j] == 0]
        moves = []
        for other in rng.choice(np.array(free), 4):
            changed = adjacency.copy()
            changed[node, other] = changed[other, node] = 1
            after = embed(changed)
            after *= np.sign((before * after).sum(axis=0))
            moves.append(np.linalg.norm(after[node] - before[node]))
        by_degree.setdefault(int(adjacency[node].sum()), []).append(float(np.mean(moves)))
    assert result.degree.tolist() == sorted(by_degree)
    expected = [np.mean(by_degree[d]) for d in sorted(by_degree)]
    np.testing.assert_allclose(result.change, expected, atol=1e-8)


def test_later_dimensions_fluctuate_more() -> None:
    fluctuation = le_dimensions(seed=2).fluctuation()
    assert len(fluctuation) == 4
    assert np.all(np.diff(fluctuation) > 0)
