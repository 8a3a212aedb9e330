"""`ItemNeighbours`: which items share their users, for similar items and for reasons."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from leporid.data import Interactions
from leporid.graph import top_k_neighbours


class ItemNeighbours:
    """The `k` items nearest to each item (or to `items`) by the Jaccard similarity of their users."""

    def __init__(
        self, known: Interactions, k: int = 100, items: Sequence[int] | None = None
    ) -> None:
        rows = known.csr().T.tocsr()
        if items is None:
            self._items = np.arange(known.n_items)
            lists = top_k_neighbours(rows, k)
        else:
            self._items = np.unique(np.asarray(items, np.int64))
            lists = top_k_neighbours(rows[self._items], k, against=rows, own=self._items)
        self._near, self._weight = lists.indices, lists.weights

    def similar(self, item: int, n: int) -> list[tuple[int, float]]:
        """At most `n` nearest items with their similarity, nearest first."""
        near, weight = self._lists(np.asarray([item]))
        pairs = zip(near[0].tolist(), weight[0].tolist(), strict=True)
        return [(index, value) for index, value in pairs if index >= 0][:n]

    def reasons(self, item: int, history: NDArray[np.int32], n: int = 3) -> list[tuple[int, float]]:
        """The `n` items of a history nearest to an item: one is on the other's list."""
        return self.reasons_for(np.asarray([item]), history, n)[0]

    def reasons_for(
        self, items: NDArray[np.integer], history: NDArray[np.int32], n: int = 3
    ) -> list[list[tuple[int, float]]]:
        """`reasons` of several distinct items at once, each list of neighbours read once."""
        history = np.sort(history)
        # float32[items, history]: the weight of each joined pair, -1 where two are not joined
        joined = np.full((len(items), len(history)), -1, np.float32)
        near, weight = self._lists(items)
        row, column = np.nonzero(np.isin(near, history))
        joined[row, np.searchsorted(history, near[row, column])] = weight[row, column]
        near, weight = self._lists(history)
        row, column = np.nonzero(np.isin(near, items))
        order = np.argsort(items)
        rank = order[np.searchsorted(items, near[row, column], sorter=order)]
        joined[rank, row] = weight[row, column]
        reasons: list[list[tuple[int, float]]] = [[] for _ in items]
        each = np.arange(len(items))
        for _ in range(min(n, len(history))):
            best = joined.argmax(axis=1)  # of equals the smallest id: the history is sorted
            nearest = zip(history[best].tolist(), joined[each, best].tolist(), strict=True)
            for own, pair in zip(reasons, nearest, strict=True):
                if pair[1] >= 0:
                    own.append(pair)
            joined[each, best] = -1
        return reasons

    def _lists(self, items: NDArray[np.integer]) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        rows = np.searchsorted(self._items, items)
        return self._near[rows], self._weight[rows]
