"""What workers compute, here in one process: against brute force and against one machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from leporid import knn_graph
from leporid.distributed.graph import (
    Rows,
    block_neighbours,
    block_sums,
    merge_block,
    multiply_block,
    reverse_edges,
    thresholds,
    writable,
)
from leporid.embeddings import laplacian_operator
from leporid.graph import KnnGraph, binary_csr
from tests.spectral.graphs import jaccard_graph

pytest.importorskip("distributed")


def interactions(rows: int, columns: int, seed: int) -> sparse.csr_array:
    """Popular columns, rows of all sizes (some empty), and many rows that are equal."""
    rng = np.random.default_rng(seed)
    dense = rng.random((rows, columns)) < rng.random((rows, 1)) * np.linspace(0.7, 0.1, columns)
    dense[rng.random(rows) < 0.4] = dense[0]
    dense[rng.random(rows) < 0.1] = False
    return sparse.csr_array(dense.astype(np.float32))


def made_in_blocks(X: sparse.csr_array, k: int, size: int) -> tuple[list[Rows], np.ndarray]:
    """The steps of `BlockGraph` without a cluster."""
    members = binary_csr(X)
    k = min(k, members.n - 1)
    firsts = range(0, members.n, size)
    found = [block_neighbours(members, a, min(a + size, members.n), k) for a in firsts]
    limits = np.concatenate([thresholds(block, k) for block in found])
    sent = [reverse_edges(block, members.n, size) for block in found]
    return [
        merge_block(block, [pieces[place] for pieces in sent], size)
        for place, block in enumerate(found)
    ], limits


def as_graph(blocks: list[Rows], k: int) -> KnnGraph:
    lengths = np.concatenate([np.diff(block.indptr) for block in blocks])
    return KnnGraph(
        np.concatenate([[0], np.cumsum(lengths)]),
        np.concatenate([block.indices for block in blocks]),
        np.concatenate([block.weights for block in blocks]),
        "rows",
        k,
    )


def assert_same(one: KnnGraph, other: KnnGraph) -> None:
    np.testing.assert_array_equal(one.indptr, other.indptr)
    np.testing.assert_array_equal(one.indices, other.indices)
    np.testing.assert_array_equal(one.weights, other.weights)


@settings(deadline=None, max_examples=40)
@given(
    rows=st.integers(2, 60),
    columns=st.integers(1, 12),
    k=st.integers(1, 20),
    size=st.integers(1, 70),
    seed=st.integers(0, 10**6),
)
def test_blocks_are_the_rows_of_the_graph(
    rows: int, columns: int, k: int, size: int, seed: int
) -> None:
    X = interactions(rows, columns, seed)
    blocks, limits = made_in_blocks(X, k, size)
    graph = as_graph(blocks, k)
    assert_same(graph, jaccard_graph(X, k))
    assert_same(graph, knn_graph(X, k=k))
    sums = [block_sums(block) for block in blocks]
    degrees = np.concatenate([own for _, own in sums])
    np.testing.assert_array_equal(degrees, graph.degrees())
    one = knn_graph(X, k=k)
    np.testing.assert_array_equal(limits, one.thresholds)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("n", [700, 70_000])
def test_products_of_blocks_are_the_rows_of_the_product(n: int, kind: Any) -> None:
    """Against scipy in float64, and to the bit against the product of one machine."""
    rng = np.random.default_rng(3)
    edges = n * 20
    ends = (rng.random((2, edges)) ** 2 * n).astype(np.int64)
    half = sparse.coo_array((rng.uniform(0.1, 1.0, edges), ends), shape=(n, n)).tocsr()
    W = sparse.csr_array(half.maximum(half.T), dtype=np.float32)
    W.setdiag(0.0)
    W.eliminate_zeros()
    W.sort_indices()
    graph = KnnGraph(W.indptr.astype(np.int64), W.indices.astype(np.int32), W.data, "rows", 20)
    x = rng.standard_normal((n, 16)).astype(kind)
    size = n // 3 + 1
    image = np.concatenate(
        [
            multiply_block(
                Rows(
                    graph.indptr[a : min(a + size, n) + 1] - graph.indptr[a],
                    graph.indices[graph.indptr[a] : graph.indptr[min(a + size, n)]],
                    graph.weights[graph.indptr[a] : graph.indptr[min(a + size, n)]],
                ),
                x,
            )
            for a in range(0, n, size)
        ]
    )
    exact = W.astype(np.float64) @ x.astype(np.float64)
    np.testing.assert_allclose(image, exact, rtol=0, atol=10_000 * np.finfo(kind).eps)
    # alpha = 0 and no normalisation: M = W + diagonal, and the diagonal is taken off again.
    operator = laplacian_operator(graph, 0.0, normalized=False)
    whole, scaled = np.zeros_like(x), np.zeros_like(x)
    operator.product()(x, scaled, whole)
    again = image + operator.diagonal.astype(kind)[:, None] * x
    np.testing.assert_array_equal(again[operator.active], whole[operator.active])


def test_read_only_arrays_are_copied_and_others_are_not() -> None:
    frozen = np.arange(3, dtype=np.float32)
    frozen.flags.writeable = False
    free = np.arange(3, dtype=np.int32)
    made = writable(Rows(np.arange(3), free, frozen))
    assert made.weights.flags.writeable
    assert made.indices is free
