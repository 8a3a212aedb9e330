"""`ModelVectors`, and where they can go: parquet files, a faiss index, Qdrant.

Each target is written, and can be searched as its users will search it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from leporid.data import VECTOR_READERS, IdMap, Sequences
from leporid.errors import import_extra
from leporid.evaluation import chunk_rows, masked_top_k
from leporid.models import Recommender

_POINTS_AT_ONCE = 1000
Positions = NDArray[np.int32]
"""int32[m, n]: rows of the item vectors, best first; -1 fills short lists."""


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


class ParquetFiles:
    """`items.parquet` and `users.parquet`, for everything that has its own search."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, vectors: ModelVectors) -> None:
        vectors.to_parquet(self.folder)

    def search(self, vectors: ModelVectors, users: Positions, n: int) -> Positions:
        """The best `n` unseen items, by the products of what is in the files."""
        rows, items = (
            VECTOR_READERS["parquet"](self.folder / f)[1]
            for f in ("users.parquet", "items.parquet")
        )
        stored = replace(vectors, users=rows, items=items)
        return stored.top_k(stored.users[users], vectors.seen.take(users), n)


class FaissIndex:
    """`items.faiss` beside the parquet files; its labels are the rows of `items.parquet`."""

    def __init__(self, folder: Path, approximate: bool = False) -> None:
        self.folder, self.approximate = folder, approximate

    def write(self, vectors: ModelVectors) -> None:
        """An exact index, or an HNSW graph."""
        faiss = _faiss()
        vectors.to_parquet(self.folder)
        index = (
            faiss.IndexHNSWFlat(vectors.width, 32, faiss.METRIC_INNER_PRODUCT)
            if self.approximate
            else faiss.IndexFlatIP(vectors.width)
        )
        index.add(np.ascontiguousarray(vectors.items))
        faiss.write_index(index, str(self.folder / "items.faiss"))

    def search(self, vectors: ModelVectors, users: Positions, n: int) -> Positions:
        """Ask for as many more as the longest history, and leave out what each user has seen."""
        index, hidden = _faiss().read_index(str(self.folder / "items.faiss")), vectors.seen
        longest = int(np.diff(hidden.indptr)[users].max(initial=0))
        count = min(n + longest, len(vectors.items))
        if self.approximate:
            index.hnsw.efSearch = max(64, 2 * count)
        _, found = index.search(np.ascontiguousarray(vectors.users[users]), count)
        return unseen(found, hidden.take(users), n)


class QdrantCollections:
    """Collections `NAME_items` and `NAME_users`, in a local folder or on a server.

    The id of a point is its row; the payload has the external `id`, and of users `seen`: the
    points of the items they have.
    """

    def __init__(self, folder: Path, address: str | None = None, name: str = "leporid") -> None:
        self.folder, self.address, self.name = folder, address, name

    def write(self, vectors: ModelVectors) -> None:
        """Replace both collections."""
        with self._client() as (client, q):
            seen = [{"seen": vectors.seen.of(u).tolist()} for u in range(len(vectors.users))]
            for side, rows, ids, more in (
                ("items", vectors.items, vectors.item_ids, [{}] * len(vectors.items)),
                ("users", vectors.users, vectors.user_ids, seen),
            ):
                collection, external = f"{self.name}_{side}", ids.ids.to_pylist()
                if client.collection_exists(collection):
                    client.delete_collection(collection)
                size = q.VectorParams(size=vectors.width, distance=q.Distance.DOT)
                client.create_collection(collection, vectors_config=size)
                for first in range(0, len(rows), _POINTS_AT_ONCE):
                    part = range(first, min(first + _POINTS_AT_ONCE, len(rows)))
                    points: Any = {"payloads": [{"id": external[r], **more[r]} for r in part]}
                    points["vectors"] = rows[part.start : part.stop].tolist()
                    client.upsert(collection, q.Batch(ids=list(part), **points))

    def search(self, vectors: ModelVectors, users: Positions, n: int) -> Positions:
        """The points of the users, then exact queries; what each has seen is left out after them.

        A filter by `HasId` gives the same, but takes seconds per user in the local mode.
        """
        found = np.full((len(users), n), -1, np.int32)
        with self._client() as (client, q):
            exact = {"search_params": q.SearchParams(exact=True)} if self.address else {}
            for row, user in enumerate(users.tolist()):
                [point] = client.retrieve(f"{self.name}_users", [user], with_vectors=True)
                seen = set(point.payload["seen"])
                answer = client.query_points(
                    f"{self.name}_items", query=point.vector, limit=n + len(seen), **exact
                )
                points = [hit.id for hit in answer.points if hit.id not in seen][:n]
                found[row, : len(points)] = points
        return found

    @contextlib.contextmanager
    def _client(self) -> Iterator[tuple[Any, Any]]:
        qdrant = import_extra("qdrant_client", "exporting to Qdrant", "qdrant")
        where = {"url": self.address} if self.address else {"path": str(self.folder / "qdrant")}
        client = qdrant.QdrantClient(**where)
        try:
            yield client, qdrant.models
        finally:
            client.close()


def unseen(found: NDArray[Any], hidden: Sequences, n: int) -> Positions:
    """The first `n` of each row that are not hidden."""
    kept = np.full((len(found), n), -1, np.int32)
    for row, items in enumerate(found):
        free = items[(items >= 0) & ~np.isin(items, hidden.of(row))][:n]
        kept[row, : len(free)] = free
    return kept


def _faiss() -> Any:
    return import_extra("faiss", "exporting to faiss", "faiss")
