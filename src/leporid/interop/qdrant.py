"""`QdrantCollections`: users and items in Qdrant, local or on a server."""

import contextlib
import shutil
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from leporid.errors import ConfigError, import_extra
from leporid.interop.parquet_files import NO_EXPORT, ParquetFiles, Tables
from leporid.interop.vectors import Changes, ModelVectors, Positions

_POINTS_AT_ONCE = 1000
"""Number of points in one request."""


class QdrantCollections(ParquetFiles):
    """Collections `NAME_items` and `NAME_users`, in a local folder or on a server.

    A whole number is its own point, any other id is the UUID `uuid5(NAMESPACE_OID, id)`. The
    payload has the external `id`, and of users `seen`: the points of the items they have.
    """

    def write(self, vectors: ModelVectors, changes: Changes | None = None) -> Tables:
        """Replace both collections, or write `changes` into those of an earlier export."""
        tables = super().write(vectors, changes)
        if changes and not self.address and (changes.earlier / "qdrant").is_dir():
            shutil.copytree(changes.earlier / "qdrant", self.folder / "qdrant")
        with self._client() as client:
            for side, table in tables.items():
                collection = f"{self.name}_{side}"
                if changes is None:
                    _make_empty(client, collection, vectors.width)
                elif not client.collection_exists(collection):
                    raise ConfigError(
                        NO_EXPORT.format(f"Qdrant has no collection {collection}")
                    )
                for batch in table.to_batches(_POINTS_AT_ONCE):
                    points = [_structure(row) for row in batch.to_pylist()]
                    client.upsert(collection, points)
                if changes is not None and len(changes.gone[side]):
                    gone = changes.gone[side].to_pylist()
                    client.delete(collection, [_point(external) for external in gone])
        return tables

    def search(self, vectors: ModelVectors, users: Positions, n: int) -> Positions:
        """Fetch the points of the users, then ask for more than `n` and leave out the seen items.

        A filter by `HasId` gives the same, but takes seconds per user in the local mode.
        """
        lists = np.full((len(users), n), -1, np.int32)
        # Only a server searches approximately, and knows this parameter.
        exact = _qdrant().models.SearchParams(exact=True) if self.address else None
        with self._client() as client:
            for row, user in enumerate(vectors.user_ids.externals(users).tolist()):
                [point] = client.retrieve(
                    f"{self.name}_users", [_point(user)], with_vectors=True
                )
                seen = set(point.payload["seen"])
                answer = client.query_points(
                    f"{self.name}_items",
                    query=point.vector,
                    limit=n + len(seen),
                    search_params=exact,
                )
                unseen = [
                    hit.payload["id"] for hit in answer.points if hit.id not in seen
                ]
                best = unseen[:n]
                lists[row, : len(best)] = vectors.item_ids.indices(best)
        return lists

    @contextlib.contextmanager
    def _client(self) -> Iterator[Any]:
        """Open the server, or the local folder."""
        make_client = _qdrant().QdrantClient
        if self.address:
            client = make_client(url=self.address)
        else:
            client = make_client(path=str(self.folder / "qdrant"))
        try:
            yield client
        finally:
            client.close()


def _qdrant() -> Any:
    """Import the client library."""
    return import_extra("qdrant_client", "exporting to Qdrant", "qdrant")


def _make_empty(client: Any, collection: str, width: int) -> None:
    """Make an empty collection, in place of one that is there."""
    if client.collection_exists(collection):
        client.delete_collection(collection)
    models = _qdrant().models
    size = models.VectorParams(size=width, distance=models.Distance.DOT)
    client.create_collection(collection, vectors_config=size)


def _point(external: object) -> int | str:
    """Return the point of an external id in Qdrant, the same in every export."""
    if isinstance(external, int) and external >= 0:
        return external
    return str(uuid.uuid5(uuid.NAMESPACE_OID, str(external)))


def _structure(row: Mapping[str, Any]) -> object:
    """Return a row of the parquet files as Qdrant takes it."""
    payload = {"id": row["id"]}
    if "seen" in row:
        payload["seen"] = [_point(item) for item in row["seen"]]
    return _qdrant().models.PointStruct(
        id=_point(row["id"]), vector=row["vector"], payload=payload
    )
