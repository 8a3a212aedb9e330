"""`ItemNeighbours`: similar items, and the items of a history that explain another one.

`most_similar` finds the rows of a matrix, users or items, that have most in common.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.data import Interactions
from leporid.graph import top_k_neighbours
from leporid.ranking.top_k import Indices, TopK


def most_similar(profiles: sparse.csr_array, rows: Indices, n: int) -> TopK:
    """Return the `n` rows of a matrix nearest to each of some rows, by the Jaccard index."""
    nearest = top_k_neighbours(profiles[rows], n, against=profiles, own=rows)
    top = TopK.empty(len(rows), n)
    found = nearest.indices.shape[1]
    top.items[:, :found] = nearest.indices
    top.scores[:, :found] = np.where(nearest.indices < 0, -np.inf, nearest.weights)
    return top


class ItemNeighbours:
    """The `k` items nearest to each item, or to `items`, by the Jaccard index of their users."""

    def __init__(
        self,
        known: Interactions,
        k: int = 100,
        items: Sequence[int] | None = None,
    ) -> None:
        users_of_items = known.csr().T.tocsr()
        if items is None:
            self._items = np.arange(known.n_items)
            nearest = top_k_neighbours(users_of_items, k)
        else:
            self._items = np.unique(np.asarray(items, np.int64))
            nearest = top_k_neighbours(
                users_of_items[self._items],
                k,
                against=users_of_items,
                own=self._items,
            )
        self._neighbours = nearest.indices
        self._weights = nearest.weights

    def similar(
        self,
        item: int,
        n: int,
    ) -> list[tuple[int, float]]:
        """Return at most `n` nearest items with their similarity, nearest first."""
        neighbours, weights = self._nearest(np.asarray([item]))
        pairs = zip(neighbours[0].tolist(), weights[0].tolist(), strict=True)
        return [(index, value) for index, value in pairs if index >= 0][:n]

    def reasons_for(
        self,
        items: NDArray[np.integer],
        history: Indices,
        n: int = 3,
    ) -> list[list[tuple[int, float]]]:
        """Return for each of distinct items the `n` items of a history that are nearest to it.

        An item and one of the history are near if either is on the other's list.
        """
        history = np.unique(history)
        # float32[items, history]; -1 where neither is on the other's list
        weights = np.full((len(items), len(history)), -1, np.float32)

        neighbours, similarity = self._nearest(items)
        row, position = np.nonzero(np.isin(neighbours, history))
        column = np.searchsorted(history, neighbours[row, position])
        weights[row, column] = similarity[row, position]

        neighbours, similarity = self._nearest(history)
        column, position = np.nonzero(np.isin(neighbours, items))
        order = np.argsort(items)
        place = np.searchsorted(items, neighbours[column, position], sorter=order)
        weights[order[place], column] = similarity[column, position]

        # The sort is stable, so that equal weights go to the smaller item index.
        best = np.argsort(-weights, axis=1, kind="stable")[:, :n]
        return [
            [
                (int(history[column]), float(weights[row, column]))
                for column in columns
                if weights[row, column] >= 0
            ]
            for row, columns in enumerate(best)
        ]

    def _nearest(
        self,
        items: NDArray[np.integer],
    ) -> tuple[Indices, NDArray[np.float32]]:
        """Return int32[m, k] nearest items of some items, -1 where there are fewer; weights."""
        rows = np.searchsorted(self._items, items)
        return self._neighbours[rows], self._weights[rows]
