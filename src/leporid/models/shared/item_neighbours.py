"""`ItemNeighbours`: which items share their users, for similar items and for reasons."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from leporid.data import Interactions
from leporid.graph import top_k_neighbours


class ItemNeighbours:
    """The `k` items nearest to each item, by the Jaccard similarity of the two sets of users.

    With `items` (indices) only their lists are searched for: enough for one question, where a
    service wants the lists of all items at once.
    """

    def __init__(
        self, known: Interactions, k: int = 100, items: Sequence[int] | None = None
    ) -> None:
        rows = known.csr().T.tocsr()
        if items is None:
            self._items = np.arange(known.n_items)
            lists = top_k_neighbours(rows, k)
            self._near, self._weight = lists.indices, lists.weights
            return
        self._items = np.unique(np.asarray(items, np.int64))
        # One more than k: an item is its own nearest neighbour, which is moved to the end.
        lists = top_k_neighbours(rows[self._items], k + 1, against=rows)
        own = lists.indices == self._items[:, None]
        others = np.argsort(own, axis=1, kind="stable")[:, : min(k, known.n_items - 1)]
        self._near = np.take_along_axis(lists.indices, others, axis=1)
        self._weight = np.take_along_axis(lists.weights, others, axis=1)

    def similar(self, item: int, n: int) -> list[tuple[int, float]]:
        """At most `n` nearest items with their similarity, nearest first."""
        near, weight = self._lists(np.asarray([item]))
        pairs = zip(near[0].tolist(), weight[0].tolist(), strict=True)
        return [(index, value) for index, value in pairs if index >= 0][:n]

    def reasons(self, item: int, history: NDArray[np.int32], n: int = 3) -> list[tuple[int, float]]:
        """The `n` items of a history nearest to an item: one is on the other's list."""
        near, weight = (lists[0] for lists in self._lists(np.asarray([item])))
        near_history, weight_history = self._lists(history)
        own = np.isin(near, history)
        row, column = np.nonzero(near_history == item)
        items = [*near[own].tolist(), *history[row].tolist()]
        weights = [*weight[own].tolist(), *weight_history[row, column].tolist()]
        joined = dict(zip(items, weights, strict=True))
        return sorted(joined.items(), key=lambda pair: (-pair[1], pair[0]))[:n]

    def _lists(self, items: NDArray[np.integer]) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        rows = np.searchsorted(self._items, items)
        return self._near[rows], self._weight[rows]
