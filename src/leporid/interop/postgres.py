"""`PostgresTables`: users, items and a function that recommends, in PostgreSQL with pgvector."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leporid.errors import ConfigError, import_extra
from leporid.interop.parquet_files import NO_EXPORT, ParquetFiles, Tables
from leporid.interop.vectors import Changes, ModelVectors, Positions

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


class _Script(NamedTuple):
    """The statements around the rows of one export."""

    file_name: str
    """File that holds the whole script."""
    before: str
    """Statements that make the tables which the rows are copied into."""
    copied_table: str
    """Name of such a table, with {} for items, users or seen."""
    after: str
    """Statements that end the export."""


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
        script = self._script(vectors, changes)
        path = self.folder / script.file_name
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(f"BEGIN;\n{script.before}")
            for table, lines in _rows(tables, changes, script.copied_table):
                file.write(f"COPY {table} FROM stdin;\n")
                file.writelines(lines)
                file.write("\\.\n")
            file.write(f"{script.after}COMMIT;\n")
            file.write(f"ANALYZE {self.name}.items, {self.name}.seen;\n")
        if self.address:
            self._load(script, tables, changes)
        return tables

    def search(self, vectors: ModelVectors, users: Positions, n: int) -> Positions:
        """Return what the function in the database answers."""
        query = f"SELECT item FROM {self.name}.recommend(%s, %s)"
        lists = np.full((len(users), n), -1, np.int32)
        with self._connect() as connection:
            for row, user in enumerate(vectors.user_ids.externals(users).tolist()):
                rows = connection.execute(query, (user, n)).fetchall()
                items = vectors.item_ids.indices(item for (item,) in rows)
                lists[row, : len(rows)] = items
        return lists

    def _connect(self) -> Any:
        """Connect to the database."""
        psycopg = import_extra("psycopg", "loading into PostgreSQL", "postgres")
        return psycopg.connect(self.address)

    def _script(self, vectors: ModelVectors, changes: Changes | None) -> _Script:
        """Return the statements of an export, or of a refresh."""
        if changes is not None:
            return _Script(
                file_name="refresh.sql",
                before=_STAGE.format(name=self.name),
                copied_table="new_{}",
                after=_MERGE.format(name=self.name),
            )
        item_type = _sql_type(vectors.item_ids.is_integer)
        # Of equal products the smaller id is first, as in the model's lists: texts by their bytes.
        order = ' COLLATE "C"' if item_type == "text" else ""
        before = _CREATE.format(
            name=self.name,
            user=_sql_type(vectors.user_ids.is_integer),
            item=item_type,
            width=vectors.width,
            order=order,
        )
        return _Script(
            file_name="load.sql",
            before=before,
            copied_table=f"{self.name}.{{}}",
            after="",
        )

    def _load(self, script: _Script, tables: Tables, changes: Changes | None) -> None:
        """Run the script in the database."""
        with self._connect() as connection, connection.cursor() as cursor:
            if changes is not None:
                query = f"SELECT to_regclass('{self.name}.items')"
                [table] = cursor.execute(query).fetchone()
                if table is None:
                    raise ConfigError(
                        NO_EXPORT.format(f"there is no table {self.name}.items")
                    )
            cursor.execute(script.before)
            for table, lines in _rows(tables, changes, script.copied_table):
                with cursor.copy(f"COPY {table} FROM stdin") as copy:
                    for line in lines:
                        copy.write(line)
            cursor.execute(script.after)


def _sql_type(is_integer: bool) -> str:
    """Return the type of an id's column."""
    return "bigint" if is_integer else "text"


def _rows(
    tables: Tables, changes: Changes | None, copied_table: str
) -> Iterator[tuple[str, Iterator[str]]]:
    """Yield each table with its lines, as COPY reads them."""
    for side, table in tables.items():
        yield copied_table.format(side), _vector_lines(table)
    yield copied_table.format("seen"), _seen_lines(tables["users"])
    if changes is not None:
        for side, ids in changes.gone.items():
            yield f"gone_{side}", (f"{key}\n" for key in _escaped(ids))


def _vector_lines(table: pa.Table) -> Iterator[str]:
    """Yield a line with the id and the vector of each row."""
    for key, vector in zip(_escaped(table["id"]), table["vector"], strict=True):
        numbers = ",".join(map(str, vector.as_py()))
        yield f"{key}\t[{numbers}]\n"


def _seen_lines(users: pa.Table) -> Iterator[str]:
    """Yield a line for each user and distinct item."""
    for key, seen in zip(_escaped(users["id"]), users["seen"], strict=True):
        for item in _escaped(pc.unique(seen.values)):
            yield f"{key}\t{item}\n"


def _escaped(ids: pa.Array) -> list[str]:
    """Return ids as text in which COPY's special characters are escaped."""
    escapes = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})
    return [str(value).translate(escapes) for value in ids.to_pylist()]
