"""`ModelVectors`, and where they can go: parquet files, faiss, Qdrant, PostgreSQL, ONNX.

Each target is written, and can be searched as its users will search it.
"""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from leporid.data import VECTOR_READERS, IdMap, Sequences
from leporid.errors import ConfigError, import_extra
from leporid.evaluation import chunk_rows, masked_top_k
from leporid.models import Recommender

_POINTS_AT_ONCE = 1000
Positions = NDArray[np.int32]
"""int32[m, n]: rows of the item vectors, best first; -1 fills short lists."""
HISTORY_MODELS = ("dlr2", "hgn", "sasrec")
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
        everyone = np.arange(len(model.users), dtype=np.int32)
        users, seen = model.user_vectors(model.known.sequences(), everyone), model.known.hidden()
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

    def write(self, vectors: ModelVectors) -> None:
        """`items.parquet` (`id`, `vector`), and `users.parquet` with `seen`, item ids, as well."""
        items = {"id": vectors.item_ids.ids, "vector": _lists(vectors.items)}
        pq.write_table(pa.table(items), self.folder / "items.parquet")
        seen = pa.ListArray.from_arrays(
            pa.array(vectors.seen.indptr - vectors.seen.indptr[0], pa.int32()),
            vectors.item_ids.ids.take(pa.array(vectors.seen.items)),
        )
        users = {"id": vectors.user_ids.ids, "vector": _lists(vectors.users), "seen": seen}
        pq.write_table(pa.table(users), self.folder / "users.parquet")

    def search(self, vectors: ModelVectors, users: Positions, n: int) -> Positions:
        """The best `n` unseen items, by the products of what is in the files."""
        read = VECTOR_READERS["parquet"]
        rows, items = (read(self.folder / f"{side}.parquet")[1] for side in ("users", "items"))
        stored = replace(vectors, items=items)
        return stored.top_k(rows[users], vectors.seen.take(users), n)


class FaissIndex(ParquetFiles):
    """`items.faiss` beside the parquet files; its labels are the rows of `items.parquet`."""

    def write(self, vectors: ModelVectors) -> None:
        """An exact index, or an HNSW graph."""
        faiss = import_extra("faiss", "exporting to faiss", "faiss")
        super().write(vectors)
        index = (
            faiss.IndexHNSWFlat(vectors.width, 32, faiss.METRIC_INNER_PRODUCT)
            if self.approximate
            else faiss.IndexFlatIP(vectors.width)
        )
        index.add(np.ascontiguousarray(vectors.items))
        faiss.write_index(index, str(self.folder / "items.faiss"))

    def search(self, vectors: ModelVectors, users: Positions, n: int) -> Positions:
        """Ask for as many more as the longest history, and leave out what each user has seen."""
        faiss = import_extra("faiss", "exporting to faiss", "faiss")
        index, hidden = faiss.read_index(str(self.folder / "items.faiss")), vectors.seen
        longest = int(np.diff(hidden.indptr)[users].max(initial=0))
        count = min(n + longest, len(vectors.items))
        if self.approximate:
            index.hnsw.efSearch = max(64, 2 * count)
        _, found = index.search(np.ascontiguousarray(vectors.users[users]), count)
        kept = np.full((len(users), n), -1, np.int32)
        for row, items in enumerate(found):
            free = items[(items >= 0) & ~np.isin(items, hidden.of(users[row]))][:n]
            kept[row, : len(free)] = free
        return kept


class QdrantCollections(ParquetFiles):
    """Collections `NAME_items` and `NAME_users`, in a local folder or on a server.

    The id of a point is its row; the payload has the external `id`, and of users `seen`: the
    points of the items they have.
    """

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


class PostgresTables(ParquetFiles):
    """A schema with `items`, `users`, `seen` and `recommend(for_user, n)`.

    `load.sql` is for `psql -f`; with an address the tables are also loaded from here. Both replace
    the whole schema in one transaction.
    """

    def write(self, vectors: ModelVectors) -> None:
        """Write `load.sql`, and load the tables where there is an address."""
        if not re.fullmatch(r"[a-z_][a-z0-9_]{0,50}", self.name):
            raise ConfigError(f"a schema's name has small letters, digits and _, not {self.name!r}")
        with open(self.folder / "load.sql", "w", encoding="utf-8", newline="\n") as file:
            file.write(f"BEGIN;\n{self._create(vectors)}")
            for table, lines in _rows(vectors):
                file.write(f"COPY {self.name}.{table} FROM stdin;\n")
                file.writelines(lines)
                file.write("\\.\n")
            file.write(f"COMMIT;\nANALYZE {self.name}.items, {self.name}.seen;\n")
        if self.address:
            with self._connect() as connection, connection.cursor() as cursor:
                cursor.execute(self._create(vectors))
                for table, lines in _rows(vectors):
                    with cursor.copy(f"COPY {self.name}.{table} FROM stdin") as copy:
                        for line in lines:
                            copy.write(line)

    def search(self, vectors: ModelVectors, users: Positions, n: int) -> Positions:
        """What the function in the database answers."""
        found = np.full((len(users), n), -1, np.int32)
        with self._connect() as connection:
            for row, user in enumerate(vectors.user_ids.externals(users).tolist()):
                query = f"SELECT item FROM {self.name}.recommend(%s, %s)"
                rows = connection.execute(query, (user, n)).fetchall()
                found[row, : len(rows)] = vectors.item_ids.indices(item for (item,) in rows)
        return found

    def _connect(self) -> Any:
        return import_extra("psycopg", "loading into PostgreSQL", "postgres").connect(self.address)

    def _create(self, vectors: ModelVectors) -> str:
        user, item = (
            "bigint" if ids.is_integer else "text" for ids in (vectors.user_ids, vectors.item_ids)
        )
        # Of equal products the smaller id is first, as in the model's lists: texts by their bytes.
        order = ' COLLATE "C"' if item == "text" else ""
        width = vectors.width
        return _CREATE.format(name=self.name, user=user, item=item, width=width, order=order)


def _rows(vectors: ModelVectors) -> Iterator[tuple[str, Iterator[str]]]:
    """The lines of each table, as COPY reads them."""
    items, users = _escaped(vectors.item_ids.ids), _escaped(vectors.user_ids.ids)
    for table, ids, rows in (("items", items, vectors.items), ("users", users, vectors.users)):
        numbers = (",".join(map(str, row.tolist())) for row in rows)
        yield table, (f"{key}\t[{row}]\n" for key, row in zip(ids, numbers, strict=True))
    seen = (np.unique(vectors.seen.of(user)) for user in range(len(users)))
    pairs = ((key, item) for key, own in zip(users, seen, strict=True) for item in own)
    yield "seen", (f"{key}\t{items[item]}\n" for key, item in pairs)


def _escaped(ids: pa.Array) -> list[str]:
    marks = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})
    return [str(value).translate(marks) for value in ids.to_pylist()]


@dataclass
class OnnxEncoder(ParquetFiles):
    """`encoder.onnx` beside the parquet files.

    Inputs: `history` int64[users, length], rows of `items.parquet`, oldest first and filled as
    `export.json` says; where the model has a user table `user` int64[users], rows of
    `users.parquet`, or -1 for a new user, who has a blank row. Output: `vector`
    float32[users, width].
    """

    def __post_init__(self) -> None:
        model = self.model
        if model.name not in HISTORY_MODELS:
            raise ConfigError(
                f"{model.name} does not read histories in time order: ONNX is for "
                f"{', '.join(HISTORY_MODELS)}; other models' vectors go to parquet or an index"
            )
        self._reads_users, sampling = model.user_table() is not None, model.sampling()
        repeats = sampling.kind == "windows" and sampling.repeat
        short = "its first item, repeated" if repeats else "-1"
        self.notes = {"history_length": sampling.length, "short_histories_begin_with": short}

    def write(self, vectors: ModelVectors) -> None:
        import torch

        import_extra("onnx", "ONNX", "onnx")
        super().write(vectors)
        model, length = self.model, self.model.sampling().length
        names = ["history", "user"] if self._reads_users else ["history"]

        class Encoder(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.net = model.net

            def forward(self, history: Any, user: Any = None) -> Any:
                rows = user
                if user is not None:
                    rows = model.user_table()[user.clamp(min=0)] * (user >= 0)[:, None]
                return model.encode_users(rows, history, history)

        zeros = (torch.zeros(2, length, dtype=torch.int64), torch.zeros(2, dtype=torch.int64))
        before = model.device
        try:
            # The exporter prints hints about itself, and warns of what `encode` promises.
            quiet = contextlib.redirect_stdout(io.StringIO())
            with warnings.catch_warnings(action="ignore"), quiet, torch.no_grad():
                model.to("cpu")
                torch.onnx.export(
                    Encoder().eval(),
                    zeros[: len(names)],
                    str(self.folder / "encoder.onnx"),
                    input_names=names,
                    output_names=["vector"],
                    dynamic_axes={name: {0: "users"} for name in (*names, "vector")},
                    dynamo=False,
                )
        finally:
            model.to(before)

    def encode(
        self, histories: Sequences, users: NDArray[Any] | None = None
    ) -> NDArray[np.float32]:
        """User vectors from the file, run by onnxruntime on the CPU."""
        session = import_extra("onnxruntime", "ONNX", "onnx").InferenceSession(
            str(self.folder / "encoder.onnx"), providers=["CPUExecutionProvider"]
        )
        rows = np.arange(len(histories), dtype=np.int32)
        feed = {"history": self.model._recent(histories, rows).cpu().numpy()}
        if self._reads_users:
            blank = np.full(len(histories), -1)
            feed["user"] = (blank if users is None else users).astype(np.int64)
        return np.asarray(session.run(["vector"], feed)[0])

    def search(self, vectors: ModelVectors, users: Positions, n: int) -> Positions:
        """Encode the histories of the users, then take products with the item vectors."""
        hidden = vectors.seen.take(users)
        return vectors.top_k(self.encode(hidden, users), hidden, n)


TARGETS: dict[str, type[ParquetFiles]] = {
    "faiss": FaissIndex,
    "onnx": OnnxEncoder,
    "parquet": ParquetFiles,
    "pgvector": PostgresTables,
    "qdrant": QdrantCollections,
}
