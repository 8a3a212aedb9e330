"""From which share of changed rows on a refresh should search for every row again.

`python -m benchmarks refresh_share`: some rows lose one member each; the graph is then made by
merging lists whatever the share, and by searching for all rows.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.bench_eigenvectors import interactions
from benchmarks.harness import timed, write_record
from leporid import knn_graph
from leporid.graph import refresh

SHARES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
K = 1000


def without_one(X: sparse.csr_array, share: float) -> sparse.csr_array:
    """The first member of every row in a random share of the rows is gone."""
    chosen = np.random.default_rng(0).random(X.shape[0]) < share
    rows = np.flatnonzero(chosen & (np.diff(X.indptr) > 1))
    keep = np.ones(X.nnz, bool)
    keep[X.indptr[rows]] = False
    lengths = np.diff(X.indptr)
    lengths[rows] -= 1
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    return sparse.csr_array((X.data[keep], X.indices[keep], indptr), shape=X.shape)


def run() -> None:
    """Both data sets, one record."""
    threshold, rows = refresh.SEARCH_ALL_FROM, []
    for name in ("ml-1m-r3", "anime-shaped"):
        X = interactions(name)
        graph = knn_graph(X, k=K)
        spare = refresh.refresh_graph(graph, X, X).spare
        for share in SHARES:
            Y = without_one(X, share)
            ways: dict[str, Any] = {}
            for way, limit in (("merge", 2.0), ("search", 0.0)):
                refresh.SEARCH_ALL_FROM = limit
                again = partial(refresh.refresh_graph, graph, X, Y, spare=spare)
                ways[way] = timed(again, repeat=3)
            merged, searched = ways["merge"][1], ways["search"][1]
            assert np.array_equal(merged.graph.weights, searched.graph.weights)
            rows.append(
                {
                    "data": name,
                    "changed rows": merged.changed / X.shape[0],
                    "searched after merging": merged.searched / X.shape[0],
                    "merge s": ways["merge"][0],
                    "search s": ways["search"][0],
                    "of search": ways["merge"][0] / ways["search"][0],
                }
            )
            print(rows[-1], flush=True)
    refresh.SEARCH_ALL_FROM = threshold
    write_record(
        "refresh_share",
        rows,
        {"k": K, "SEARCH_ALL_FROM": threshold},
        ["Seconds of the graph alone, best of three; both ways give the same graph to the bit."],
    )
