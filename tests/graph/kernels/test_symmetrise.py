"""The edges that rows lack, against sets of pairs."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from leporid.graph import NeighbourLists
from leporid.graph.kernels.symmetrise import add_lacking, merge_rows, row_limits
from tests.graph import oracle


@settings(deadline=None, max_examples=60)
@given(n=st.integers(2, 30), data=st.data(), seed=st.integers(0, 10_000))
def test_lacking_edges_are_pairs_that_only_the_other_chose(
    n: int, data: st.DataObject, seed: int
) -> None:
    k = data.draw(st.integers(1, n - 1))
    begin = data.draw(st.integers(0, n - 1))
    end = data.draw(st.integers(begin + 1, n))
    W = np.random.default_rng(seed).integers(0, 4, (n, n)).astype(np.float32)
    W = np.triu(W, 1) + np.triu(W, 1).T
    indices, _ = oracle.top_k(W, k)
    chosen = {(i, j) for i in range(n) for j in indices[i] if j >= 0}
    lists = NeighbourLists.empty(n, k)
    for i in range(n):
        own = sorted(j for source, j in chosen if source == i)
        lists.length[i] = len(own)
        lists.rows[i, : len(own)], lists.weights[i, : len(own)] = own, W[i, own]
    limits = np.empty(n, np.float32), np.empty(n, np.int32)
    row_limits(lists, k, 0, n, *limits)

    lacking = [
        sorted(j for j, i in chosen if i == row and (row, j) not in chosen) for row in range(n)
    ]
    counts = np.zeros(n, np.int64)
    none = np.zeros(0, np.int32), np.zeros(0, np.float32)
    add_lacking(lists, begin, end, *limits, counts, *none)
    inside = [len(edges) if begin <= row < end else 0 for row, edges in enumerate(lacking)]
    np.testing.assert_array_equal(counts, inside)

    indptr = np.concatenate([[0], np.cumsum(lists.length + counts)])
    rows, weights = np.zeros(indptr[-1], np.int32), np.zeros(indptr[-1], np.float32)
    cursor = indptr[:-1] + lists.length
    add_lacking(lists, begin, end, *limits, cursor, rows, weights)
    np.testing.assert_array_equal(cursor, indptr[1:])
    merge_rows(lists, begin, end, indptr, rows, weights)
    for row in range(begin, end):
        part = slice(indptr[row], indptr[row + 1])
        edges = sorted([j for i, j in chosen if i == row] + lacking[row])
        np.testing.assert_array_equal(rows[part], edges)
        np.testing.assert_array_equal(weights[part], W[row, edges])
