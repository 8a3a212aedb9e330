"""Where `ModelVectors` can go: parquet files, faiss, Qdrant, PostgreSQL.

Each target is written, as a whole or as changes, and can be searched as its users will search it.
"""

import contextlib
import re
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from leporid.errors import ConfigError, import_extra
from leporid.interop.formats import vector_table
from leporid.interop.vectors import Changes, ModelVectors, Positions

Tables = dict[str, pa.Table]
"""Of "items" and "users"."""
_POINTS_AT_ONCE = 1000
_CREATE = """\
CREATE EXTENSION IF NOT EXISTS vector;
DROP SCHEMA IF EXISTS {name} CASCADE;
CREATE SCHEMA {name};
CREATE TABLE {name}.items (id {item} PRIMARY KEY, vector vector({width}) NOT NULL);
CREATE TABLE {name}.users (id {user} PRIMARY KEY, vector vector({width}) NOT NULL);
CREATE TABLE {name}.seen (user_id {user}, item_id {item}, PRIMARY KEY (user_id, item_id));
CREATE FUNCTION {name}.recommend(for_user {user}, n integer DEFAULT 10)
RETURNS TABLE (item {item}, score double precision) LANGUAGE sql STABLE AS $$
    SELECT i.id, -(i.vector <#> u.vector)
    FROM {name}.users u, {name}.items i
    WHERE u.id = for_user
      AND NOT EXISTS (SELECT FROM {name}.seen s WHERE s.user_id = for_user AND s.item_id = i.id)
    ORDER BY i.vector <#> u.vector, i.id{order}
    LIMIT n
$$;
"""
_STAGE = """\
CREATE TEMP TABLE new_items (LIKE {name}.items) ON COMMIT DROP;
CREATE TEMP TABLE new_users (LIKE {name}.users) ON COMMIT DROP;
CREATE TEMP TABLE new_seen (LIKE {name}.seen) ON COMMIT DROP;
CREATE TEMP TABLE gone_items ON COMMIT DROP AS SELECT id FROM {name}.items LIMIT 0;
CREATE TEMP TABLE gone_users ON COMMIT DROP AS SELECT id FROM {name}.users LIMIT 0;
"""
_MERGE = """\
INSERT INTO {name}.items SELECT * FROM new_items
    ON CONFLICT (id) DO UPDATE SET vector = excluded.vector;
INSERT INTO {name}.users SELECT * FROM new_users
    ON CONFLICT (id) DO UPDATE SET vector = excluded.vector;
INSERT INTO {name}.seen SELECT * FROM new_seen ON CONFLICT DO NOTHING;
DELETE FROM {name}.items WHERE id IN (SELECT id FROM gone_items);
DELETE FROM {name}.users WHERE id IN (SELECT id FROM gone_users);
DELETE FROM {name}.seen
    WHERE item_id IN (SELECT id FROM gone_items) OR user_id IN (SELECT id FROM gone_users);
"""
_NO_EXPORT = "{} to refresh: export the model whole first, without --refresh"


@dataclass
class ParquetFiles:
    """`items.parquet` and `users.parquet`, for everything that has its own search."""

    folder: Path
    address: str | None = None
    name: str = "leporid"

    def write(self, vectors: ModelVectors, changes: Changes | None = None) -> Tables:
        """`items.parquet` (`id`, `vector`), and `users.parquet` with `seen`, item ids, as well.

        Both are whole; the rows that a store lacks are returned.
        """
        ids = vectors.item_ids.ids
        seen = pa.ListArray.from_arrays(
            pa.array(vectors.seen.indptr, pa.int32()),
            ids.take(pa.array(vectors.seen.items)),
        )
        tables = {
            "items": vector_table(ids, vectors.items),
            "users": vector_table(vectors.user_ids.ids, vectors.users, seen=seen),
        }
        for side, table in tables.items():
            pq.write_table(table, self.folder / f"{side}.parquet")
            if changes is not None:
                tables[side] = table.filter(changes.written[side])
        return tables

    def search(self, vectors: ModelVectors, users: Positions, n: int) -> Positions:
        """The best `n` unseen items, by the products of what is in the files."""
        stored = ModelVectors.read(self.folder)
        return stored.top_k(stored.users[users], stored.seen.take(users), n)


class FaissIndex(ParquetFiles):
    """`items.faiss` beside the parquet files; its labels are the rows of `items.parquet`."""

    def write(self, vectors: ModelVectors, changes: Changes | None = None) -> Tables:
        """An exact index, always of all items."""
        faiss = import_extra("faiss", "exporting to faiss", "faiss")
        index = faiss.IndexFlatIP(vectors.width)
        index.add(np.ascontiguousarray(vectors.items))
        faiss.write_index(index, str(self.folder / "items.faiss"))
        return super().write(vectors, changes)

    def search(self, vectors: ModelVectors, users: Positions, n: int) -> Positions:
        """Ask for as many more as the longest history, and leave out what each user has seen."""
        faiss = import_extra("faiss", "exporting to faiss", "faiss")
        index, hidden = faiss.read_index(str(self.folder / "items.faiss")), vectors.seen
        longest = int(np.diff(hidden.indptr)[users].max(initial=0))
        count = min(n + longest, len(vectors.items))
        _, found = index.search(np.ascontiguousarray(vectors.users[users]), count)
        kept = np.full((len(users), n), -1, np.int32)
        for row, items in enumerate(found):
            free = items[(items >= 0) & ~np.isin(items, hidden.of(users[row]))][:n]
            kept[row, : len(free)] = free
        return kept


def _point(external: Any) -> int | str:
    """The point of an external id in Qdrant, the same in every export."""
    whole = isinstance(external, int) and external >= 0
    return external if whole else str(uuid.uuid5(uuid.NAMESPACE_OID, str(external)))


def _structure(q: Any, row: dict[str, Any]) -> Any:
    """A row of the parquet files as Qdrant takes it."""
    payload: dict[str, Any] = {"id": row["id"]}
    if "seen" in row:
        payload["seen"] = [_point(item) for item in row["seen"]]
    return q.PointStruct(id=_point(row["id"]), vector=row["vector"], payload=payload)


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
        with self._client() as (client, q):
            for side, table in tables.items():
                collection = f"{self.name}_{side}"
                exists = client.collection_exists(collection)
                if changes and not exists:
                    raise ConfigError(
                        _NO_EXPORT.format(f"Qdrant has no collection {collection}")
                    )
                if exists and not changes:
                    client.delete_collection(collection)
                if not changes:
                    size = q.VectorParams(size=vectors.width, distance=q.Distance.DOT)
                    client.create_collection(collection, vectors_config=size)
                for batch in table.to_batches(_POINTS_AT_ONCE):
                    client.upsert(
                        collection, [_structure(q, row) for row in batch.to_pylist()]
                    )
                if changes and len(gone := changes.gone[side]):
                    client.delete(collection, [_point(key) for key in gone.to_pylist()])
        return tables

    def search(self, vectors: ModelVectors, users: Positions, n: int) -> Positions:
        """The points of the users, then exact queries; what each has seen is left out after them.

        A filter by `HasId` gives the same, but takes seconds per user in the local mode.
        """
        found = np.full((len(users), n), -1, np.int32)
        with self._client() as (client, q):
            exact = (
                {"search_params": q.SearchParams(exact=True)} if self.address else {}
            )
            for row, user in enumerate(vectors.user_ids.externals(users).tolist()):
                [point] = client.retrieve(
                    f"{self.name}_users", [_point(user)], with_vectors=True
                )
                seen = set(point.payload["seen"])
                answer = client.query_points(
                    f"{self.name}_items",
                    query=point.vector,
                    limit=n + len(seen),
                    **exact,
                )
                hits = [
                    hit.payload["id"] for hit in answer.points if hit.id not in seen
                ][:n]
                found[row, : len(hits)] = vectors.item_ids.indices(hits)
        return found

    @contextlib.contextmanager
    def _client(self) -> Iterator[tuple[Any, Any]]:
        qdrant = import_extra("qdrant_client", "exporting to Qdrant", "qdrant")
        where = (
            {"url": self.address}
            if self.address
            else {"path": str(self.folder / "qdrant")}
        )
        client = qdrant.QdrantClient(**where)
        try:
            yield client, qdrant.models
        finally:
            client.close()


class PostgresTables(ParquetFiles):
    """A schema with `items`, `users`, `seen` and `recommend(for_user, n)`.

    `load.sql` is for `psql -f`; with an address the tables are also loaded from here. Both replace
    the whole schema in one transaction. `refresh.sql` writes changes into it instead.
    """

    def write(self, vectors: ModelVectors, changes: Changes | None = None) -> Tables:
        """Write the SQL file, and load the tables where there is an address."""
        if not re.fullmatch(r"[a-z_][a-z0-9_]{0,50}", self.name):
            raise ConfigError(
                f"a schema's name has small letters, digits and _, not {self.name!r}"
            )
        tables = super().write(vectors, changes)
        before, after = _STAGE.format(name=self.name), _MERGE.format(name=self.name)
        file_name, copied = "refresh.sql", "new_{}"
        if changes is None:
            before, after = self._create(vectors), ""
            file_name, copied = "load.sql", f"{self.name}.{{}}"
        with open(self.folder / file_name, "w", encoding="utf-8", newline="\n") as file:
            file.write(f"BEGIN;\n{before}")
            for table, lines in _rows(tables, changes, copied):
                file.write(f"COPY {table} FROM stdin;\n")
                file.writelines(lines)
                file.write("\\.\n")
            file.write(
                f"{after}COMMIT;\nANALYZE {self.name}.items, {self.name}.seen;\n"
            )
        if self.address:
            with self._connect() as connection, connection.cursor() as cursor:
                [held] = cursor.execute(
                    f"SELECT to_regclass('{self.name}.items')"
                ).fetchone()
                if changes and held is None:
                    raise ConfigError(
                        _NO_EXPORT.format(f"there is no table {self.name}.items")
                    )
                cursor.execute(before)
                for table, lines in _rows(tables, changes, copied):
                    with cursor.copy(f"COPY {table} FROM stdin") as copy:
                        for line in lines:
                            copy.write(line)
                cursor.execute(after)
        return tables

    def search(self, vectors: ModelVectors, users: Positions, n: int) -> Positions:
        """What the function in the database answers."""
        found = np.full((len(users), n), -1, np.int32)
        with self._connect() as connection:
            for row, user in enumerate(vectors.user_ids.externals(users).tolist()):
                query = f"SELECT item FROM {self.name}.recommend(%s, %s)"
                rows = connection.execute(query, (user, n)).fetchall()
                found[row, : len(rows)] = vectors.item_ids.indices(
                    item for (item,) in rows
                )
        return found

    def _connect(self) -> Any:
        return import_extra("psycopg", "loading into PostgreSQL", "postgres").connect(
            self.address
        )

    def _create(self, vectors: ModelVectors) -> str:
        user, item = (
            "bigint" if ids.is_integer else "text"
            for ids in (vectors.user_ids, vectors.item_ids)
        )
        # Of equal products the smaller id is first, as in the model's lists: texts by their bytes.
        order = ' COLLATE "C"' if item == "text" else ""
        width = vectors.width
        return _CREATE.format(
            name=self.name, user=user, item=item, width=width, order=order
        )


def _rows(
    tables: Tables, changes: Changes | None, copied: str
) -> Iterator[tuple[str, Iterator[str]]]:
    """The lines of each table, as COPY reads them."""
    for side, table in tables.items():
        numbers = (",".join(map(str, vector.as_py())) for vector in table["vector"])
        rows = zip(_escaped(table["id"]), numbers, strict=True)
        yield copied.format(side), (f"{key}\t[{row}]\n" for key, row in rows)
    users = tables["users"]
    pairs = zip(_escaped(users["id"]), users["seen"], strict=True)
    yield (
        copied.format("seen"),
        (
            f"{key}\t{item}\n"
            for key, seen in pairs
            for item in _escaped(pc.unique(seen.values))
        ),
    )
    for side, ids in changes.gone.items() if changes else ():
        yield f"gone_{side}", (f"{key}\n" for key in _escaped(ids))


def _escaped(ids: pa.Array) -> list[str]:
    marks = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})
    return [str(value).translate(marks) for value in ids.to_pylist()]


TARGETS: dict[str, type[ParquetFiles]] = {
    "faiss": FaissIndex,
    "parquet": ParquetFiles,
    "pgvector": PostgresTables,
    "qdrant": QdrantCollections,
}
