"""`node2vec`: exact transition probabilities, the skip-gram step, structure, determinism."""

from __future__ import annotations

import itertools
from typing import Any

import numba
import numpy as np
import pytest
from scipy import sparse, stats

from leporid.embeddings import node2vec
from leporid.embeddings.node2vec import (
    Node2Vec,
    alias_table,
    biased_step,
    bipartite_adjacency,
    count_visits,
    in_row,
    merge_replicas,
    sigmoid_table,
    train_round,
    update_position,
    walk_into,
)
from leporid.errors import ConfigError
from tests.initializers.helpers import SplitMix, make_interactions, planted


def house() -> tuple[Any, Any, Any]:
    """A graph with triangles, squares and a pendant: every kind of weight occurs."""
    edges = [(0, 1), (0, 2), (1, 2), (1, 3), (2, 4), (3, 4), (4, 5), (1, 4)]
    dense = np.zeros((6, 6), int)
    for a, b in edges:
        dense[a, b] = dense[b, a] = 1
    matrix = sparse.csr_array(dense)
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), dense


def reference_walk(
    dense: Any, start: int, length: int, p: float, q: float, seed: int, name: int
) -> list[int]:
    """A walk by rejection sampling, in plain Python."""
    stream = SplitMix(seed, name, 1)
    near = [np.flatnonzero(row).tolist() for row in dense]
    walk = [start, near[start][stream.below(len(near[start]))]]
    weights = {"back": 1 / p, "near": 1.0, "out": 1 / q}
    while len(walk) < length:
        previous, current = walk[-2:]
        following = near[current][stream.below(len(near[current]))]
        if len(set(weights.values())) > 1:
            far = "near" if following in near[previous] else "out"
            kind = "back" if following == previous else far
            if stream.uniform() * max(weights.values()) >= weights[kind]:
                continue
        walk.append(following)
    return walk


@pytest.mark.parametrize(("p", "q"), [(0.25, 3.0), (4.0, 0.5), (1.0, 1.0)])
def test_walks_are_those_of_the_plain_program(p: float, q: float) -> None:
    indptr, indices, dense = house()
    walk = np.empty(40, np.int32)
    for name in range(12):
        walk_into(walk, indptr, indices, name % 6, p, q, np.uint64(5), np.uint64(name))
        assert walk.tolist() == reference_walk(dense, name % 6, 40, p, q, 5, name)


def test_in_row_is_membership() -> None:
    indptr, indices, dense = house()
    found = [[in_row(indptr, indices, row, value) for value in range(6)] for row in range(6)]
    np.testing.assert_array_equal(found, dense.astype(bool))
    assert not in_row(np.array([0, 0, 1]), np.array([3], np.int32), 0, 3)


@pytest.mark.parametrize(("p", "q"), [(0.25, 3.0), (4.0, 0.5), (1.0, 1.0)])
def test_transition_frequencies_are_the_exact_probabilities(p: float, q: float) -> None:
    indptr, indices, dense = house()
    state = np.uint64(12345)
    for previous, current in [(0, 1), (3, 4), (4, 2), (1, 4)]:
        weights = np.zeros(6)
        for x in np.flatnonzero(dense[current]):
            weights[x] = 1 / p if x == previous else 1.0 if dense[previous, x] else 1 / q
        exact = weights / weights.sum()
        counts = np.zeros(6, int)
        for _ in range(4000):
            found, after = biased_step(indptr, indices, previous, current, p, q, state)
            state = np.uint64(after)
            counts[found] += 1
        possible = exact > 0
        assert counts[~possible].sum() == 0
        assert stats.chisquare(counts[possible], 4000 * exact[possible]).pvalue > 1e-4


def test_whole_walks_use_the_second_order_rule() -> None:
    indptr, indices, dense = house()
    p, q = 0.25, 3.0
    counts: dict[tuple[int, int], Any] = {}
    walk = np.empty(30, np.int32)
    for name in range(400):
        walk_into(walk, indptr, indices, np.int32(name % 6), p, q, np.uint64(3), np.uint64(name))
        for a, b, c in zip(walk, walk[1:], walk[2:], strict=False):
            assert dense[a, b]
            counts.setdefault((int(a), int(b)), np.zeros(6))[c] += 1
    seen = counts[(0, 1)]
    weights = np.array([1 / p, 0, 1.0, 1 / q, 1 / q, 0])
    exact = weights / weights.sum()
    kept = exact > 0
    assert stats.chisquare(seen[kept], seen.sum() * exact[kept]).pvalue > 1e-4


def test_visits_count_every_node_of_every_walk() -> None:
    indptr, indices, _ = house()
    starts = np.array([0, 5, 3, 3], np.int32)
    expected = np.zeros(6, int)
    walk = np.empty(7, np.int32)
    for w, start in enumerate(starts):
        walk_into(walk, indptr, indices, start, 2.0, 0.5, np.uint64(9), np.uint64(w))
        expected += np.bincount(walk, minlength=6)
    for lanes in (1, 3):
        found = count_visits(indptr, indices, starts, 7, 2.0, 0.5, np.uint64(9), lanes)
        np.testing.assert_array_equal(found, expected)


def test_bipartite_adjacency_is_symmetric() -> None:
    train = planted(9, 7)
    indptr, indices = bipartite_adjacency(train.csr())
    dense = sparse.csr_array((np.ones(len(indices)), indices, indptr), shape=(16, 16)).toarray()
    np.testing.assert_array_equal(dense, dense.T)
    np.testing.assert_array_equal(dense[:9, 9:], train.csr().toarray())
    assert dense[:9, :9].sum() == 0
    assert all(np.all(np.diff(indices[a:b]) > 0) for a, b in itertools.pairwise(indptr))


def test_alias_table_has_the_weights() -> None:
    weights = np.array([5.0, 0.0, 1.0, 2.5, 0.1])
    chance, other = alias_table(weights)
    implied = chance.astype(float) / 5
    for cell in range(5):
        implied[other[cell]] += (1 - chance[cell]) / 5
    np.testing.assert_allclose(implied, weights / weights.sum(), atol=1e-6)


def test_update_is_the_gradient_of_the_skip_gram_loss() -> None:
    rng = np.random.default_rng(0)
    inputs, outputs = (rng.standard_normal((6, 5)) * 0.5 for _ in range(2))
    contexts, targets = np.array([0, 3, 4], np.int32), np.array([1, 2, 5], np.int32)

    def loss(A: Any, B: Any) -> float:
        scores = A[contexts] @ B[targets].T
        signs = np.array([1, -1, -1])
        return float(np.log1p(np.exp(-scores * signs)).sum())

    def slope(A: Any, B: Any, which: int) -> Any:
        out = np.zeros_like(A)
        for at in np.ndindex(*A.shape):
            change = np.zeros_like(A)
            change[at] = 1e-6
            high = (A + change, B) if which == 0 else (A, B + change)
            low = (A - change, B) if which == 0 else (A, B - change)
            out[at] = (loss(*high) - loss(*low)) / 2e-6
        return out

    a, b = inputs.astype(np.float32), outputs.astype(np.float32)
    space = np.empty((9, 5), np.float32)
    update_position(a, b, contexts, 3, targets, 3, np.float32(0.1), sigmoid_table(), space)
    np.testing.assert_allclose(a, inputs - 0.1 * slope(inputs, outputs, 0), atol=3e-4)
    np.testing.assert_allclose(b, outputs - 0.1 * slope(inputs, outputs, 1), atol=3e-4)


def test_a_round_trains_each_replica_on_walks_of_its_own() -> None:
    indptr, indices, dense = house()
    rng = np.random.default_rng(1)
    tables = [(rng.standard_normal((2, 6, 4)) * 0.4).astype(np.float32) for _ in range(2)]
    expected = [table.astype(float) for table in tables]
    used = [np.zeros((2, 6), np.int32) for _ in range(2)]
    starts = np.array([0, 5, 3, 2, 1], np.int32)
    chance, other = alias_table(np.array([5.0, 0.5, 1.0, 2.5, 0.1, 3.0]))
    sigmoid, window, negatives, step, epoch = sigmoid_table(), 3, 2, 0.05, 4
    train_round(
        *tables, *used, indptr, indices, starts, 1, 2, 9, 2.0, 0.5, window, negatives,
        chance, other, np.uint64(7), epoch, np.float32(step), sigmoid,
    )  # fmt: skip
    counts = np.zeros((2, 2, 6), int)
    for w, replica in ((1, 0), (2, 0), (3, 1), (4, 1)):
        walk = np.array(reference_walk(dense, int(starts[w]), 9, 2.0, 0.5, 7, w))
        stream = SplitMix(7, w, epoch + 2)
        inputs, outputs = expected[0][replica], expected[1][replica]
        for position in range(9):
            reach = 1 + stream.below(window)
            near = [x for x in range(9) if x != position and abs(x - position) <= reach]
            targets = [walk[position]]
            for _ in range(negatives):
                cell = stream.below(6)
                drawn = cell if stream.uniform() < chance[cell] else int(other[cell])
                targets += [drawn] if drawn != walk[position] else []
            np.add.at(counts[0, replica], walk[near], 1)
            np.add.at(counts[1, replica], targets, 1)
            rows, heads = inputs[walk[near]], outputs[targets]
            labels = np.arange(len(targets)) == 0
            gains = (labels - 1 / (1 + np.exp(-rows @ heads.T))) * step
            np.add.at(inputs, walk[near], gains @ heads)
            np.add.at(outputs, targets, gains.T @ rows)
    np.testing.assert_array_equal(used, counts)
    for table, target in zip(tables, expected, strict=True):
        np.testing.assert_allclose(table, target, atol=3e-4)  # the logistic function is a table


def test_replicas_are_averaged_by_use() -> None:
    tables = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    used = np.array([[3, 0, 0], [1, 2, 0]], np.int32)
    before = tables.copy()
    merge_replicas(tables, used)
    np.testing.assert_allclose(tables[0, 0], 0.75 * before[0, 0] + 0.25 * before[1, 0])
    np.testing.assert_array_equal(tables[0, 1], before[1, 1])
    np.testing.assert_array_equal(tables[:, 2], before[:, 2])
    np.testing.assert_array_equal(tables[0, :2], tables[1, :2])
    assert used.sum() == 0


@pytest.mark.parametrize("replicas", [1, 3])
def test_communities_are_found_and_bits_do_not_depend_on_threads(
    monkeypatch: pytest.MonkeyPatch, replicas: int
) -> None:
    monkeypatch.setattr(node2vec, "_NODES_PER_REPLICA", 60)
    train = planted(120, 60)
    settings = {"dim": 16, "walks": 10, "length": 40, "seed": 2, "replicas": replicas}
    made = Node2Vec(**settings).fit(train)
    unit = made.users.vectors / np.linalg.norm(made.users.vectors, axis=1, keepdims=True)
    own = made.items.vectors / np.linalg.norm(made.items.vectors, axis=1, keepdims=True)
    same = (np.arange(120) % 3)[:, None] == (np.arange(60) // 20)[None, :]
    similar = unit @ own.T
    assert similar[same].mean() > similar[~same].mean() + 0.3
    threads = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        alone = Node2Vec(**settings).fit(train)
    finally:
        numba.set_num_threads(threads)
    np.testing.assert_array_equal(made.users.vectors, alone.users.vectors)
    np.testing.assert_array_equal(made.items.vectors, alone.items.vectors)


def test_nodes_without_edges_get_zeros_and_wrong_settings_an_error() -> None:
    dense = planted(20, 12).csr().toarray() > 0
    dense[:, 5] = False
    dense[3] = False
    made = Node2Vec(dim=4, walks=2, length=5).fit(make_interactions(dense))
    assert not made.items.vectors[5].any()
    assert not made.users.vectors[3].any()
    assert made.users.vectors[4].any()
    with pytest.raises(ConfigError, match="p must be above 0"):
        Node2Vec(p=0.0)
    with pytest.raises(ConfigError, match="length"):
        Node2Vec(length=1)
