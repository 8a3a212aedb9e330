"""`ItemNeighbours`: similar items, and the items of a history that explain another one."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from leporid.data import Interactions
from leporid.graph import top_k_neighbours


class ItemNeighbours:
    """The `k` items nearest to each item, or to `items`, by the Jaccard index of their users."""

    def __init__(
        self, known: Interactions, k: int = 100, items: Sequence[int] | None = None
    ) -> None:
        rows = known.csr().T.tocsr()
        if items is None:
            self._items = np.arange(known.n_items)
            lists = top_k_neighbours(rows, k)
        else:
            self._items = np.unique(np.asarray(items, np.int64))
            lists = top_k_neighbours(
                rows[self._items], k, against=rows, own=self._items
            )
        self._near, self._weight = lists.indices, lists.weights

    def similar(self, item: int, n: int) -> list[tuple[int, float]]:
        """At most `n` nearest items with their similarity, nearest first."""
        near, weight = self._lists(np.asarray([item]))
        pairs = zip(near[0].tolist(), weight[0].tolist(), strict=True)
        return [(index, value) for index, value in pairs if index >= 0][:n]

    def reasons_for(
        self, items: NDArray[np.integer], history: NDArray[np.int32], n: int = 3
    ) -> list[list[tuple[int, float]]]:
        """Of distinct items, the `n` of a history nearest to each: one is on the other's list."""
        history = np.unique(history)
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
        best = np.argsort(-joined, axis=1, kind="stable")[
            :, :n
        ]  # of equals the smallest id
        return [
            [(int(history[c]), float(row[c])) for c in columns if row[c] >= 0]
            for row, columns in zip(joined, best, strict=True)
        ]

    def _lists(
        self, items: NDArray[np.integer]
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        rows = np.searchsorted(self._items, items)
        return self._near[rows], self._weight[rows]
