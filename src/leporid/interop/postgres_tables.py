"""A model's vectors as tables of PostgreSQL with pgvector, and a function that ranks with them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from leporid.errors import ConfigError, import_extra
from leporid.interop.vector_targets import ModelVectors, Positions

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


class PostgresTables:
    """A schema with `items`, `users`, `seen` and `recommend(for_user, n)`.

    `load.sql` is for `psql -f`; with an address the tables are also loaded from here. Both replace
    the whole schema in one transaction.
    """

    def __init__(self, folder: Path, address: str | None = None, name: str = "leporid") -> None:
        if not re.fullmatch(r"[a-z_][a-z0-9_]{0,50}", name):
            raise ConfigError(f"a schema's name has small letters, digits and _, not {name!r}")
        self.folder, self.address, self.name = folder, address, name

    def write(self, vectors: ModelVectors) -> None:
        """Write `load.sql`, and load the tables where there is an address."""
        with open(self.folder / "load.sql", "w", encoding="utf-8", newline="\n") as file:
            file.write(f"BEGIN;\n{self._create(vectors)}")
            for table, lines in _rows(vectors):
                file.write(f"COPY {self.name}.{table} FROM stdin;\n")
                file.writelines(lines)
                file.write("\\.\n")
            file.write(f"COMMIT;\nANALYZE {self.name}.items, {self.name}.seen;\n")
        if self.address:
            with _connect(self.address) as connection, connection.cursor() as cursor:
                cursor.execute(self._create(vectors))
                for table, lines in _rows(vectors):
                    with cursor.copy(f"COPY {self.name}.{table} FROM stdin") as copy:
                        for line in lines:
                            copy.write(line)

    def search(self, vectors: ModelVectors, users: Positions, n: int) -> Positions:
        """What the function in the database answers."""
        found = np.full((len(users), n), -1, np.int32)
        with _connect(str(self.address)) as connection:
            for row, user in enumerate(vectors.user_ids.externals(users).tolist()):
                query = f"SELECT item FROM {self.name}.recommend(%s, %s)"
                rows = connection.execute(query, (user, n)).fetchall()
                found[row, : len(rows)] = vectors.item_ids.indices(item for (item,) in rows)
        return found

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


def _connect(address: str) -> Any:
    return import_extra("psycopg", "loading into PostgreSQL", "postgres").connect(address)
