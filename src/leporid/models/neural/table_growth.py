"""`TableGrowth`: rows for new users and items in the tables of a trained network.

A new user gets the mean of the rows of users with shared items (`TableExtension`). A new item gets
the direction of the mean of its neighbours' trained rows: items with shared users and items with
similar content, which counts the more the fewer interactions the item has.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from leporid.data import (
    IdMap,
    Interactions,
    ItemTable,
    item_features,
)
from leporid.embeddings import TableExtension, content_edges
from leporid.errors import ConfigError, DataError, warn
from leporid.graph import top_k_neighbours
from leporid.models.neural.untrained_rows import neighbour_rows
from leporid.models.neural.weights import Weights

_USER_NEIGHBOURS = 50
"""Neighbours by shared users of a new item."""
_ITEM_NEIGHBOURS = 100
"""Neighbours by shared items of a new user."""
_CONTENT_NEIGHBOURS = 5
"""Neighbours by content of a new item."""
_SAMPLE = 512
"""Old items that determine the mean weight of neighbours by shared users."""
MIN_INTERACTIONS = 10
"""Interactions of an item from which on its content no longer counts."""


@dataclass(frozen=True)
class GrownSide:
    """The users or the items before and after."""

    kind: str
    """What the rows stand for: "user" or "item"."""
    n_before: int
    n_after: int
    rows_before: NDArray[np.int64]
    """int64[m]: the rows before of those that are still there."""
    rows_after: NDArray[np.int64]
    """int64[m]: the rows that these have now."""
    new_rows: NDArray[np.int64]
    """Rows that were not there before."""

    @classmethod
    def of(cls, before: IdMap, after: IdMap) -> Self:
        """Compare the ids before and after."""
        rows = after.encode(before.ids).astype(np.int64)
        rows_before = np.flatnonzero(rows >= 0)
        if not len(rows_before):
            raise DataError(
                f"the model knows none of these {len(after):,} {before.kind}s"
            )
        return cls(
            kind=before.kind,
            n_before=len(before),
            n_after=len(after),
            rows_before=rows_before,
            rows_after=rows[rows_before],
            new_rows=np.setdiff1d(np.arange(len(after)), rows),
        )

    @property
    def changed(self) -> bool:
        """Whether rows are new, gone or elsewhere."""
        if self.n_before != self.n_after:
            return True
        return not np.array_equal(self.rows_after, np.arange(self.n_after))


class TableGrowth:
    """The rows that the users and items of `merged` get in the tables of a model of `known`."""

    def __init__(
        self,
        known: Interactions,
        merged: Interactions,
        tables: Sequence[ItemTable] = (),
        columns: tuple[str, ...] = (),
        length: float | None = None,
    ) -> None:
        self.merged = merged
        self.users = GrownSide.of(known.users, merged.users)
        self.items = GrownSide.of(known.items, merged.items)
        self.counts = np.bincount(merged.item, minlength=merged.n_items)
        """Interactions of each item."""
        self.features: sparse.csr_array | None = None
        """Features of the items, if there is a table of them and an item is new."""
        self._length = length
        self._matrix = sparse.csr_array(merged.csr())
        if not len(self.items.new_rows):
            return
        if tables:
            self.features = item_features(merged.items, *tables, columns=columns).matrix
        self._edges = self._item_edges()
        """float[new items, old items]: weights of the neighbours of each new item."""
        lonely = int(np.count_nonzero(self._edges.sum(axis=1) == 0))
        if lonely:
            warn(
                f"{lonely:,} new items share neither users nor content with another: their rows "
                f"are the mean of all items",
                4,
            )

    def _item_edges(self) -> sparse.csr_array:
        """Return the neighbours of new items by shared users, and by content if it is known."""
        items = self.items
        by_item = sparse.csr_array(self._matrix.T.tocsr())
        edges = _shared_users(by_item, items, items.new_rows)
        if self.features is None:
            return edges
        last = len(items.rows_after) - 1
        places = np.linspace(0, last, _SAMPLE).astype(np.int64)
        sample = items.rows_after[np.unique(places)]
        degrees = _shared_users(by_item, items, sample).sum(axis=1)
        content = content_edges(
            self.features,
            self.counts,
            float(degrees.mean()) or 1.0,
            _CONTENT_NEIGHBOURS,
            1.0,
            MIN_INTERACTIONS,
            rows=items.new_rows,
            among=np.isin(np.arange(items.n_after), items.rows_after),
        )
        return sparse.csr_array(edges + content[:, items.rows_after])

    @property
    def shares(self) -> sparse.csr_array | None:
        """float32[n_before, n_after]: of which old items each new one is the mean."""
        items = self.items
        if not len(items.new_rows):
            return None
        edges = sparse.coo_array(self._edges)
        shares = edges.data / self._edges.sum(axis=1)[edges.row]
        return sparse.csr_array(
            (shares.astype(np.float32), (edges.col, items.new_rows[edges.row])),
            shape=(items.n_before, items.n_after),
        )

    def grown(self, trained: Weights, current: Weights) -> Weights:
        """Return the trained weights in the shapes of the current ones, with rows for the new."""
        return {
            name: self._grown_tensor(name, tensor, tuple(current[name].shape))
            for name, tensor in trained.items()
        }

    def _grown_tensor(
        self, name: str, trained: Tensor, shape: tuple[int, ...]
    ) -> Tensor:
        side = self._side(name, trained, shape)
        if side is None:
            return trained
        old_rows = trained.detach().cpu()[side.rows_before]
        grown = torch.empty(shape, dtype=trained.dtype)
        grown[side.rows_after] = old_rows
        if not len(side.new_rows):
            return grown
        flat = old_rows.float().reshape(len(old_rows), -1).numpy()
        if side is self.users:
            placement = TableExtension(
                self._matrix[side.rows_after], flat, _ITEM_NEIGHBOURS
            )
            rows = placement.extend(self._matrix[side.new_rows])
        else:
            rows = neighbour_rows(flat, self._edges, self._length)
        n_new = len(side.new_rows)
        new_rows = torch.from_numpy(rows).reshape(n_new, *shape[1:])
        grown[side.new_rows] = new_rows.to(trained.dtype)
        return grown

    def _side(
        self,
        name: str,
        trained: Tensor,
        shape: tuple[int, ...],
    ) -> GrownSide | None:
        """Return the side that the first dimension indexes, or None if nothing grows."""
        fitting = []
        for side in (self.users, self.items):
            grows = (*trained.shape[:1], *shape[:1]) == (side.n_before, side.n_after)
            if side.changed and grows:
                fitting.append(side)
        if not fitting and tuple(trained.shape) == shape:
            return None
        if len(fitting) == 2:
            fitting = [side for side in fitting if side.kind in name] or fitting
        if trained.shape[1:] != shape[1:] or len(fitting) != 1:
            raise ConfigError(
                f"cannot extend {name!r} from {list(trained.shape)} to {list(shape)}: "
                f"train the model again"
            )
        return fitting[0]


def _shared_users(
    by_item: sparse.csr_array,
    items: GrownSide,
    rows: NDArray[np.int64],
) -> sparse.csr_array:
    """Return csr[len(rows), m], Jaccard with the nearest old items, the item itself left out."""
    place = np.full(items.n_after, -1)
    place[items.rows_after] = np.arange(len(items.rows_after))
    nearest = top_k_neighbours(
        by_item[rows],
        _USER_NEIGHBOURS,
        against=by_item[items.rows_after],
        own=place[rows],
    )
    return sparse.csr_array(nearest.csr())
