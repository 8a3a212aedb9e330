"""`ModelVectors`, the `Changes` since an earlier export, and the parquet files that hold both."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from leporid.data import VECTOR_READERS, IdMap, Sequences
from leporid.evaluation import chunk_rows, masked_top_k
from leporid.models import Recommender

Positions = NDArray[np.int32]
"""int32[m, n]: rows of the item vectors, best first; -1 fills short lists."""
Tables = dict[str, pa.Table]
"""Of "items" and "users"."""


@dataclass(frozen=True)
class ModelVectors:
    """User and item vectors whose products rank the items a user has not seen.

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
        users = model.user_vectors(seen, np.arange(len(model.users), dtype=np.int32))
        return cls(users, model.item_vectors(), model.users, model.items, seen)

    @classmethod
    def read(cls, folder: Path) -> ModelVectors:
        """The vectors in an export's parquet files."""
        read = VECTOR_READERS["parquet"]
        (user_ids, users), (item_ids, items) = (
            read(folder / f"{side}.parquet") for side in ("users", "items")
        )
        seen = pq.read_table(folder / "users.parquet", columns=["seen"])["seen"].combine_chunks()
        known = IdMap(item_ids, "item")
        indptr = np.concatenate([[0], np.cumsum(pc.list_value_length(seen))])
        sequences = Sequences(indptr, known.encode(seen.flatten()))
        return cls(users, items, IdMap(user_ids, "user"), known, sequences)

    def sides(self) -> list[tuple[str, NDArray[np.float32], IdMap]]:
        """Name, vectors and ids of the users and of the items."""
        return [("users", self.users, self.user_ids), ("items", self.items, self.item_ids)]

    @property
    def width(self) -> int:
        """Entries of a vector."""
        return int(self.items.shape[1])

    def top_k(self, queries: NDArray[np.float32], hidden: Sequences, n: int) -> Positions:
        """The best `n` items for user vectors, by the products themselves."""
        lists = [np.empty((0, n), np.int32)]
        step = chunk_rows(len(self.items))
        for first in range(0, len(queries), step):
            products = queries[first : first + step] @ self.items.T
            rows = np.arange(first, first + len(products))
            lists.append(masked_top_k(products, n, seen=hidden.take(rows)).items)
        return np.concatenate(lists)


@dataclass(frozen=True)
class Changes:
    """What a store that holds an earlier export lacks, by side: "users" and "items"."""

    written: dict[str, NDArray[np.bool_]]
    """bool[n]: the rows that are new, or have changed."""
    gone: dict[str, pa.Array]
    """External ids of those that are no more."""
    earlier: Path

    def counts(self) -> dict[str, dict[str, int]]:
        """Rows written and deleted, as `export.json` has them."""
        return {
            "written": {side: int(rows.sum()) for side, rows in self.written.items()},
            "deleted": {side: len(ids) for side, ids in self.gone.items()},
        }


def _lists(vectors: NDArray[np.float32]) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])


@dataclass
class ParquetFiles:
    """`items.parquet` and `users.parquet`, for everything that has its own search."""

    folder: Path
    model: Any = None
    approximate: bool = False
    address: str | None = None
    name: str = "leporid"
    notes: dict[str, Any] = field(default_factory=dict)
    """What a reader of `export.json` must know besides."""

    def write(self, vectors: ModelVectors, changes: Changes | None = None) -> Tables:
        """`items.parquet` (`id`, `vector`), and `users.parquet` with `seen`, item ids, as well.

        Both are whole; the rows that a store lacks are returned. Of `changes` these are in
        `upsert/` too, and the ids that are gone in `delete/`.
        """
        ids = vectors.item_ids.ids
        seen = pa.ListArray.from_arrays(
            pa.array(vectors.seen.indptr, pa.int32()), ids.take(pa.array(vectors.seen.items))
        )
        users = {"id": vectors.user_ids.ids, "vector": _lists(vectors.users), "seen": seen}
        tables = {
            "items": pa.table({"id": ids, "vector": _lists(vectors.items)}),
            "users": pa.table(users),
        }
        self._write("", tables)
        if changes is None:
            return tables
        rows = {side: table.filter(changes.written[side]) for side, table in tables.items()}
        self._write("upsert", rows)
        self._write("delete", {side: pa.table({"id": ids}) for side, ids in changes.gone.items()})
        return rows

    def _write(self, part: str, tables: Tables) -> None:
        (self.folder / part).mkdir(exist_ok=True)
        for side, table in tables.items():
            pq.write_table(table, self.folder / part / f"{side}.parquet")

    def search(self, vectors: ModelVectors, users: Positions, n: int) -> Positions:
        """The best `n` unseen items, by the products of what is in the files."""
        stored = ModelVectors.read(self.folder)
        return stored.top_k(stored.users[users], stored.seen.take(users), n)
