"""`ModelVectors`: what an index or a database needs to rank as a model does."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from leporid.data import IdMap, Sequences
from leporid.evaluation import chunk_rows, masked_top_k
from leporid.models import Recommender

Positions = NDArray[np.int32]
"""int32[m, n]: rows of the item vectors, best first; -1 fills short lists."""


@dataclass(frozen=True)
class ModelVectors:
    """The best item of a user, of those not seen, has the largest product with the user's vector.

    A bias of items is the last entry of their vectors; users have a 1 there.
    """

    users: NDArray[np.float32]
    """float32[n_users, width]"""
    items: NDArray[np.float32]
    """float32[n_items, width]"""
    user_ids: IdMap = field(repr=False)
    item_ids: IdMap = field(repr=False)
    seen: Sequences = field(repr=False)
    """The items each user has, in time order: the model recommends none of them."""

    @classmethod
    def of(cls, model: Recommender) -> ModelVectors:
        """The vectors of a fitted model; `VectorsUnsupportedError` where it has none."""
        seen = model.known.sequences()
        everyone = np.arange(len(model.users), dtype=np.int32)
        users = model.user_vectors(seen, everyone)
        return cls(users, model.item_vectors(), model.users, model.items, seen)

    @property
    def width(self) -> int:
        """Entries of a vector."""
        return int(self.items.shape[1])

    def top_k(self, queries: NDArray[np.float32], hidden: Sequences, n: int) -> Positions:
        """The best `n` items for vectors of people, by the products themselves."""
        lists = [np.empty((0, n), np.int32)]
        step = chunk_rows(len(self.items))
        for start in range(0, len(queries), step):
            products = queries[start : start + step] @ self.items.T
            place = np.arange(start, start + len(products))
            lists.append(masked_top_k(products, n, seen=hidden.take(place)).items)
        return np.concatenate(lists)

    def to_parquet(self, folder: Path) -> None:
        """`items.parquet` (`id`, `vector`), and `users.parquet` with `seen`, item ids, as well."""
        items = {"id": self.item_ids.ids, "vector": _lists(self.items)}
        pq.write_table(pa.table(items), folder / "items.parquet")
        seen = pa.ListArray.from_arrays(
            pa.array(self.seen.indptr - self.seen.indptr[0], pa.int32()),
            self.item_ids.ids.take(pa.array(self.seen.items)),
        )
        users = {"id": self.user_ids.ids, "vector": _lists(self.users), "seen": seen}
        pq.write_table(pa.table(users), folder / "users.parquet")


def _lists(vectors: NDArray[np.float32]) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
