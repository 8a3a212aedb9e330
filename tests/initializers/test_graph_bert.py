"""`graph_bert`: push against dense PageRank, recovery better than chance, same seed same bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from leporid.embeddings.graph_bert import GraphBert, intimate_nodes, push, recovery_loss
from leporid.embeddings.node2vec import bipartite_adjacency
from leporid.errors import ConfigError
from leporid.foundation import NullProgress, ProgressLike
from tests.initializers.helpers import make_interactions, planted


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """These matrices are too small to share: waiting for other threads costs more."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def dense_pagerank(train: Any, alpha: float) -> Any:
    """alpha (I - (1 - alpha) A D^-1)^-1; column v is the intimacy of v."""
    X = train.csr().toarray().astype(float)
    A = np.block([[np.zeros((len(X), len(X))), X], [X.T, np.zeros((X.shape[1],) * 2)]])
    return alpha * np.linalg.inv(np.eye(len(A)) - (1 - alpha) * A / A.sum(axis=0))


@pytest.mark.parametrize("tolerance", [1e-3, 1e-7])
def test_push_is_pagerank_within_its_bound(tolerance: float) -> None:
    train = planted(30, 18)
    indptr, indices = bipartite_adjacency(train.csr())
    n = len(indptr) - 1
    exact = dense_pagerank(train, 0.15)
    for source in (0, 7, 35):
        found, waiting = np.zeros(n), np.zeros(n)
        scratch = (np.empty(n, np.int32), np.zeros(n, np.uint8), np.empty(n + 1, np.int32))
        push(indptr, indices, np.int32(source), 0.15, tolerance, found, waiting, *scratch)
        assert np.all(waiting < tolerance * np.diff(indptr))
        error = exact[:, source] - found
        assert np.all(error > -1e-12)
        np.testing.assert_allclose(error.sum(), waiting.sum(), rtol=1e-6, atol=1e-12)
        # The exact identity of push: what is missing is the PageRank of the waiting mass.
        np.testing.assert_allclose(error, exact @ waiting, atol=1e-9)


def test_the_most_intimate_nodes_are_found() -> None:
    train = planted(30, 18)
    indptr, indices = bipartite_adjacency(train.csr())
    exact = dense_pagerank(train, 0.15)
    np.fill_diagonal(exact, -1)
    nodes, values = intimate_nodes(indptr, indices, 4, 0.15, 1e-9, NullProgress())
    expected = np.argsort(-exact, axis=0, kind="stable")[:4].T
    np.testing.assert_array_equal(nodes, expected)
    np.testing.assert_allclose(values, np.take_along_axis(exact.T, expected, 1), rtol=1e-3)


def test_few_neighbours_are_padded() -> None:
    dense = np.zeros((3, 2), bool)
    dense[0, 0] = dense[1, 0] = True
    indptr, indices = bipartite_adjacency(make_interactions(dense).csr())
    nodes, _ = intimate_nodes(indptr, indices, 4, 0.15, 1e-6, NullProgress())
    np.testing.assert_array_equal(nodes[2], [-1] * 4)
    np.testing.assert_array_equal(nodes[0], [3, 1, -1, -1])


def test_loss_is_zero_only_for_the_right_cosines() -> None:
    first = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
    assert recovery_loss(first, first * 3, torch.ones(2)).item() == pytest.approx(0.0)
    assert recovery_loss(first, first.flip(0), torch.zeros(2)).item() == pytest.approx(1.0)
    assert recovery_loss(first, -first, torch.ones(2)).item() == pytest.approx(4.0)


def test_recovery_loss_falls_beats_chance_and_repeats() -> None:
    train = planted(90, 60)
    settings: dict[str, Any] = {"dim": 16, "steps": 60, "batch": 48, "seed": 3, "device": "cpu"}
    settings |= {"learning_rate": 3e-3}
    before = torch.random.get_rng_state()
    losses: list[float] = []

    class Progress(ProgressLike):
        def advance(self, steps: int = 1, **fields: Any) -> None:
            losses.extend([fields["loss"]] if fields else [])

    made = GraphBert(**settings).fit(train, progress=Progress())
    assert torch.equal(before, torch.random.get_rng_state())
    assert len(losses) == 60
    assert np.mean(losses[-6:]) < 0.7 * np.mean(losses[:6])
    # Cosines of intimate pairs against those of random pairs: chance is one half.
    indptr, indices = bipartite_adjacency(train.csr())
    nodes, _ = intimate_nodes(indptr, indices, 7, 0.15, 5e-5, NullProgress())
    vectors = np.vstack([made.users.vectors, made.items.vectors])
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosine = unit @ unit.T
    rng = np.random.default_rng(0)
    near = cosine[np.repeat(np.arange(150), 7), nodes.ravel()]
    far = cosine[rng.integers(0, 150, 3000), rng.integers(0, 150, 3000)]
    assert np.mean(near[:, None] > far[None, :]) > 0.75
    # Another state of torch's global generator changes nothing.
    torch.manual_seed(99)
    again = GraphBert(**settings).fit(train)
    np.testing.assert_array_equal(made.items.vectors, again.items.vectors)


def test_settings_and_isolated_nodes() -> None:
    with pytest.raises(ConfigError, match="heads must divide"):
        GraphBert(dim=9, heads=2)
    dense = planted(20, 12).csr().toarray() > 0
    dense[3] = False
    made = GraphBert(dim=4, steps=2, batch=8, device="cpu").fit(make_interactions(dense))
    assert not made.users.vectors[3].any()
    assert made.users.vectors[2].any()
