"""The graph on disk is the graph in memory, however small the part that is made at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from leporid.embeddings import laplacian_eigenpairs
from leporid.errors import GraphError
from leporid.foundation import NullProgress
from leporid.graph import binary_csr, knn_graph, stored_knn_graph
from tests.graph.matrices import adversarial, skewed


@pytest.mark.parametrize("memory", [1, 3000, 10**9])
@pytest.mark.parametrize("threads", [1, 2])
def test_equal_to_the_graph_in_memory(tmp_path: Any, memory: int, threads: int) -> None:
    cases = {name: case for name, case in adversarial().items() if case[0].shape[0] > 1}
    cases["skewed"] = (skewed(300, 60, 2), 25)
    for X, k in cases.values():
        made = stored_knn_graph(
            binary_csr(X), k, tmp_path, memory, threads=threads, progress=NullProgress()
        )
        expected = knn_graph(X, k)
        np.testing.assert_array_equal(made.indptr, expected.indptr)
        np.testing.assert_array_equal(made.indices, expected.indices)
        np.testing.assert_array_equal(made.weights, expected.weights)
        assert made.k == expected.k
    assert sorted(file.name for file in tmp_path.iterdir()) == ["rows-edges", "rows-weights"]


def test_eigenvectors_of_both_are_the_same_bits(tmp_path: Any) -> None:
    X = skewed(1300, 90, 5)
    X = X[np.diff(X.indptr) > 2]
    made = stored_knn_graph(binary_csr(X), 40, tmp_path, 10**6, threads=2, progress=NullProgress())
    settings: Any = {"solver": "lanczos", "device": "cpu", "alpha": 0.5}
    one = laplacian_eigenpairs(made, 8, **settings)
    other = laplacian_eigenpairs(knn_graph(X, 40), 8, **settings)
    assert one.vectors.tobytes() == other.vectors.tobytes()


def test_a_disk_that_is_too_small_is_refused(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000}))
    with pytest.raises(GraphError, match="where 1 kB are free: lower k"):
        stored_knn_graph(
            binary_csr(skewed(300, 60, 2)), 25, tmp_path, 10, threads=1, progress=NullProgress()
        )
    assert not list(tmp_path.iterdir())
