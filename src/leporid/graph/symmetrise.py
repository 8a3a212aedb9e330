"""OR-symmetrise top-K lists into a graph: W_ij is set if j is in top-K(i) or i in top-K(j)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leporid.graph.kernels.layout import NeighbourLists
from leporid.graph.kernels.symmetrise import Limits, add_lacking, merge_rows, row_limits
from leporid.graph.types import KnnGraph, Side
from leporid.progress import NullProgress, ProgressLike
from leporid.threads import on_each_share


def _in_memory(_name: str, dtype: Any, size: int) -> NDArray[Any]:
    return np.empty(size, dtype)


def symmetrise(
    lists: NeighbourLists,
    k: int,
    side: Side,
    similarity: str,
    threads: int,
    new_array: Callable[[str, Any, int], NDArray[Any]] = _in_memory,
    edges_at_a_time: int | None = None,
    progress: ProgressLike | None = None,
) -> KnnGraph:
    """The symmetric graph of the neighbours of n rows among themselves.

    Needs a similarity that is symmetric to the bit. The lists stay as they are. The arrays of
    the graph are `new_array(name, dtype, size)`; they are filled from front to back, in parts of
    `edges_at_a_time` (None: all at once).
    """
    n = len(lists.length)
    limits = Limits.empty(n)
    on_each_share(lambda _, a, b: row_limits(lists, k, a, b, limits), 0, n, threads)
    lacking = np.zeros(n, np.int64)
    none = np.zeros(0, np.int32), np.zeros(0, np.float32)

    def count(_: int, begin: int, end: int) -> None:
        add_lacking(lists, 0, begin, end, limits, lacking, *none)

    on_each_share(count, 0, n, threads)
    indptr = np.zeros(n + 1, np.int64)
    np.cumsum(lists.length + lacking, out=indptr[1:])
    cursor = indptr[:-1] + lists.length
    indices = new_array("edges", np.int32, int(indptr[-1]))
    weights = new_array("weights", np.float32, int(indptr[-1]))

    def fill(_: int, begin: int, end: int) -> None:
        add_lacking(lists, 0, begin, end, limits, cursor, indices, weights)
        merge_rows(lists, begin, end, indptr, indices, weights)

    reporter = progress or NullProgress()
    reporter.start("graph", n)
    first = 0
    while first < n:
        room = int(indptr[-1]) if edges_at_a_time is None else indptr[first] + edges_at_a_time
        stop = max(first + 1, int(np.searchsorted(indptr, room, side="right")) - 1)
        on_each_share(fill, first, stop, threads)
        reporter.advance(stop - first)
        first = stop
    return KnnGraph(indptr, indices, weights, side, k, similarity)
