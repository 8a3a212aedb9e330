"""The torch path on CPU tensors: the same code a GPU runs, against the CPU kernels."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from leporid.foundation import NullProgress  # noqa: E402
from leporid.graph import KnnGraph, binary_csr, gpu, knn_graph  # noqa: E402
from tests.graph import matrices  # noqa: E402

ADVERSARIAL = {name: case for name, case in matrices.adversarial().items() if case[0].shape[0] > 1}


def on_tensors(X: object, k: int) -> KnnGraph:
    return gpu.knn_graph_on(binary_csr(X), k, "cpu", "rows", NullProgress())


def assert_same(left: KnnGraph, right: KnnGraph) -> None:
    np.testing.assert_array_equal(left.indptr, right.indptr)
    np.testing.assert_array_equal(left.indices, right.indices)
    np.testing.assert_array_equal(left.weights, right.weights)
    assert left.indices.dtype == right.indices.dtype


@pytest.mark.parametrize("name", list(ADVERSARIAL))
def test_adversarial_matrices(name: str) -> None:
    X, k = ADVERSARIAL[name]
    k = min(k, X.shape[0] - 1)
    assert_same(on_tensors(X, k), knn_graph(X, k))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_skewed_matrices(seed: int) -> None:
    X = matrices.skewed(350 + seed, 120, seed)
    assert_same(on_tensors(X, 17), knn_graph(X, 17))


def test_small_blocks_and_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    X = matrices.skewed(310, 140, seed=3)
    expected = knn_graph(X, 21)
    monkeypatch.setattr(gpu, "BLOCK_ENTRIES", {"cpu": 310 * 37})
    monkeypatch.setattr(gpu, "DENSE_ENTRIES", {"cpu": 140 * 53})
    assert_same(on_tensors(X, 21), expected)


def test_edges_come_to_the_host_only_when_asked_for() -> None:
    X = matrices.skewed(300, 120, seed=5)
    graph, expected = on_tensors(X, 15), knn_graph(X, 15)
    assert (graph.n, graph.n_edges, graph.k) == (expected.n, expected.n_edges, expected.k)
    np.testing.assert_allclose(graph.degrees(), expected.degrees(), rtol=1e-12)
    assert "_arrays" not in vars(graph)
    assert_same(graph, expected)
    with pytest.raises(AttributeError):
        graph.k = 3  # type: ignore[misc]


def test_a_row_without_edges_has_degree_zero() -> None:
    X = np.array([[1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [1, 1, 1, 0], [0, 0, 0, 1]])
    np.testing.assert_allclose(on_tensors(X, 2).degrees(), knn_graph(X, 2).degrees())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("similarity", ["jaccard", "cosine"])
def test_cuda_equals_cpu(similarity: str) -> None:
    X = matrices.skewed(5000, 3000, seed=4)
    expected = knn_graph(X, 100, similarity=similarity)
    assert_same(knn_graph(X, 100, similarity=similarity, device="cuda"), expected)
