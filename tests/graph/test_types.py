"""What all graphs answer, wherever their edges are.

`graph/kernels/search.py` is tested by the graphs it makes, in `test_neighbours.py` and
`test_knn_graph.py`, `graph/kernels/product.py` by the solvers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from leporid.foundation import NullProgress
from leporid.graph import Graph, KnnGraph, binary_csr, knn_graph
from tests.graph.matrices import skewed

X = skewed(300, 120, seed=5)


def on_device() -> KnnGraph:
    pytest.importorskip("torch")
    from leporid.graph.gpu import knn_graph_on

    return knn_graph_on(binary_csr(X), 15, "cpu", "rows", NullProgress())


@pytest.mark.parametrize("make", [lambda: knn_graph(X, 15), on_device])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_every_graph_answers_a_solver(make: Any, kind: Any) -> None:
    graph: Graph = make()
    assert isinstance(graph, Graph)
    W = knn_graph(X, 15).csr()
    assert (graph.n, graph.n_edges, graph.k) == (300, W.nnz, 15)
    np.testing.assert_allclose(graph.degrees(), W.sum(axis=1), rtol=1e-5)
    np.testing.assert_array_equal(graph.csr().toarray(), W.toarray())
    block = np.random.default_rng(1).standard_normal((300, 16)).astype(kind)
    product = graph.product(block)
    assert product.dtype == kind
    np.testing.assert_allclose(product, W.toarray().astype(np.float64) @ block, atol=1e-4)


def test_a_graph_cannot_be_changed_and_says_what_it_is() -> None:
    graph = knn_graph(X, 15, side="users")
    for name in ("k", "side", "indices", "weights"):
        with pytest.raises(AttributeError):
            setattr(graph, name, 3)
    assert repr(graph).startswith("KnnGraph(n=300, n_edges=")
    assert repr(graph).endswith("side='users', k=15, similarity='jaccard')")
