"""The fused search against the CPU kernels, on a GPU."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU, or LEPORID_TEST_CUDA=1 is not set", allow_module_level=True)
pytest.importorskip("triton", reason="Triton is not installed: it comes with torch for CUDA")

from leporid.foundation import NullProgress  # noqa: E402
from leporid.graph import binary_csr, fused, gpu, knn_graph  # noqa: E402
from tests.graph import matrices  # noqa: E402


def assert_same_graph(monkeypatch: pytest.MonkeyPatch, X: object, k: int) -> None:
    """Of the fused search with small strips and blocks, and the CPU's."""
    device, members = torch.device("cuda"), binary_csr(X)
    monkeypatch.setattr(fused, "FIRST_STRIP", fused.TILE)
    monkeypatch.setattr(fused, "CANDIDATES", 2**16)
    monkeypatch.setattr(gpu, "_blocks", lambda *_: fused.FusedSearch(members, device).blocks(k))
    graph = gpu.knn_graph_on(members, k, "cuda", "rows", NullProgress())
    expected = knn_graph(X, k, device="cpu")
    np.testing.assert_array_equal(graph.indptr, expected.indptr)
    np.testing.assert_array_equal(graph.indices, expected.indices)
    np.testing.assert_array_equal(graph.weights, expected.weights)


@pytest.mark.parametrize(("n", "columns", "k"), [(450, 120, 17), (129, 40, 100), (300, 300, 1)])
def test_skewed_matrices(monkeypatch: pytest.MonkeyPatch, n: int, columns: int, k: int) -> None:
    assert_same_graph(monkeypatch, matrices.skewed(n, columns, seed=n), k)


def test_ties_go_to_the_smaller_index(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four kinds of rows, each hundred times: most similarities are equal."""
    X = np.tile(np.array([[1, 1, 0, 0], [1, 0, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]]), (100, 1))
    assert_same_graph(monkeypatch, X, 7)


def test_rows_without_anything_in_common(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.zeros((200, 150))
    X[np.arange(100), np.arange(100)] = 1
    X[50:60, 120] = 1
    assert_same_graph(monkeypatch, X, 12)


def test_strips_cover_all_columns_once() -> None:
    for n, k in ((5_000, 10), (100_000, 1000), (4096, 3), (300_001, 100)):
        strips = list(fused._strips(n, k))
        assert strips[0][0] == 0
        assert strips[-1][1] == n
        assert all(stop == begin for (_, stop), (begin, _) in pairwise(strips))
        assert all(begin % fused.TILE == 0 for begin, _ in strips)


def test_many_rows_take_this_path_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    search, called = fused.FusedSearch.blocks, []

    def watched(self: fused.FusedSearch, k: int) -> object:
        called.append(k)
        return search(self, k)

    monkeypatch.setattr(fused.FusedSearch, "blocks", watched)
    X = matrices.skewed(8 * fused.FIRST_STRIP, 60, seed=1)
    graph, expected = knn_graph(X, 20, device="cuda"), knn_graph(X, 20, device="cpu")
    np.testing.assert_array_equal(graph.indices, expected.indices)
    np.testing.assert_array_equal(graph.weights, expected.weights)
    assert called == [20]
