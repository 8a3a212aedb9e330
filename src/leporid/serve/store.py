"""New interactions, kept durably: an event that was answered with 200 survives a kill."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from leporid.errors import DataError, MissingExtraError

__all__ = ["Event", "EventStore", "PostgresStore", "SqliteStore", "open_store"]


class Event(NamedTuple):
    """One interaction; ids as text, whatever they are in the log."""

    user: str
    item: str
    time: int
    """Seconds since 1970."""


class EventStore(Protocol):
    """What the service needs of a store. `add` and `items_of` run in two different threads."""

    def add(self, events: Sequence[Event]) -> None:
        """Keep events; they are on disk when this returns, all of them or none."""

    def items_of(self, users: Sequence[str], last: int) -> dict[str, list[str]]:
        """The `last` items of each user that has any, in order of time."""

    def events(self) -> Iterator[Event]:
        """Everything, in the order it was added."""

    def close(self) -> None:
        """Let go of the connection."""


def open_store(where: str | Path) -> EventStore:
    """A SQLite file, or PostgreSQL where `where` begins with postgresql://."""
    if str(where).startswith(("postgresql://", "postgres://")):
        return PostgresStore(str(where))
    return SqliteStore(where)


class SqliteStore:
    """One file in WAL mode; a commit is synchronised with the disk before it returns."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # Readers must not wait for a writer's fsync, so each has a connection.
        self._writer, self._reader = self._connect(), self._connect()
        self._write_lock, self._read_lock = threading.Lock(), threading.Lock()

    def _connect(self) -> sqlite3.Connection:
        try:
            link = sqlite3.connect(self.path, check_same_thread=False, timeout=30)
            link.execute("PRAGMA journal_mode = WAL")
            link.execute("PRAGMA synchronous = FULL")
            link.execute(
                "CREATE TABLE IF NOT EXISTS events (id INTEGER PRIMARY KEY, "
                "user TEXT NOT NULL, item TEXT NOT NULL, time INTEGER NOT NULL)"
            )
            link.execute("CREATE INDEX IF NOT EXISTS events_user ON events (user, time, id)")
            link.commit()
        except sqlite3.Error as error:
            raise DataError(f"{self.path} is no store of events: {error}") from error
        return link

    def add(self, events: Sequence[Event]) -> None:
        """Keep events in one transaction."""
        with self._write_lock, _told(self.path), self._writer:
            self._writer.executemany(
                "INSERT INTO events (user, item, time) VALUES (?, ?, ?)", events
            )

    def items_of(self, users: Sequence[str], last: int) -> dict[str, list[str]]:
        """The `last` items of each user that has any, in order of time."""
        found: dict[str, list[str]] = {}
        with self._read_lock, _told(self.path):
            for user in users:
                rows = self._reader.execute(
                    "SELECT item FROM events WHERE user = ? ORDER BY time DESC, id DESC LIMIT ?",
                    (user, last),
                ).fetchall()
                if rows:
                    found[user] = [item for (item,) in reversed(rows)]
        return found

    def events(self) -> Iterator[Event]:
        """Everything, in the order it was added."""
        link = self._connect()
        try:
            for row in link.execute("SELECT user, item, time FROM events ORDER BY id"):
                yield Event(*row)
        finally:
            link.close()

    def close(self) -> None:
        """Close both connections; the write-ahead log is folded into the file."""
        with self._write_lock, self._read_lock:
            self._reader.close()
            self._writer.close()


@contextlib.contextmanager
def _told(where: Path) -> Iterator[None]:
    """A failing disk is reported in words, without SQL."""
    try:
        yield
    except sqlite3.Error as error:
        raise DataError(f"the event store {where} does not answer: {error}") from error


class PostgresStore:
    """The same table on a PostgreSQL server; needs the package psycopg."""

    def __init__(self, url: str) -> None:
        try:
            import psycopg
        except ImportError as error:
            raise MissingExtraError("a PostgreSQL store", "postgres") from error
        self._connect, self._failure, self._url = psycopg.connect, psycopg.Error, url
        # As with SQLite: readers must not wait for a writer's commit.
        self._writer, self._reader = _Link(self._open), _Link(self._open)
        with self._told(), self._writer as link, link.transaction():
            # Two servers that start together would both find no table.
            link.execute("SELECT pg_advisory_xact_lock(hashtext('leporid events'))")
            link.execute(
                "CREATE TABLE IF NOT EXISTS events (id BIGSERIAL PRIMARY KEY, "
                '"user" TEXT NOT NULL, item TEXT NOT NULL, time BIGINT NOT NULL)'
            )
            link.execute('CREATE INDEX IF NOT EXISTS events_user ON events ("user", time, id)')

    def _open(self) -> Any:
        link = self._connect(self._url, autocommit=True, connect_timeout=10)
        # Whatever the server's default is: a commit that returned is on its disk.
        link.execute("SET synchronous_commit = on")
        return link

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except self._failure as error:
            raise DataError(f"the PostgreSQL store does not answer: {error}") from error

    def add(self, events: Sequence[Event]) -> None:
        """Keep events in one transaction."""
        with self._told(), self._writer as link, link.transaction(), link.cursor() as cursor:
            cursor.executemany(
                'INSERT INTO events ("user", item, time) VALUES (%s, %s, %s)', list(events)
            )

    def items_of(self, users: Sequence[str], last: int) -> dict[str, list[str]]:
        """The `last` items of each user that has any, in order of time."""
        found: dict[str, list[str]] = {}
        with self._told(), self._reader as link:
            # PostgreSQL has no text with a NUL in it, so nobody is called that.
            for user in (user for user in users if "\0" not in user):
                rows = link.execute(
                    'SELECT item FROM events WHERE "user" = %s '
                    "ORDER BY time DESC, id DESC LIMIT %s",
                    (user, last),
                ).fetchall()
                if rows:
                    found[user] = [row[0] for row in reversed(rows)]
        return found

    def events(self) -> Iterator[Event]:
        """Everything, in the order it was added."""
        # A named cursor, which needs a transaction: rows stay on the server until asked for.
        with (
            self._told(),
            self._open() as link,
            link.transaction(),
            link.cursor("events") as cursor,
        ):
            cursor.execute('SELECT "user", item, time FROM events ORDER BY id')
            for row in cursor:
                yield Event(*row)

    def close(self) -> None:
        """Close both connections."""
        self._reader.close()
        self._writer.close()


class _Link:
    """A connection for one thread at a time, made again where it was lost."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._link: Any = None
        self._lock = threading.Lock()

    def __enter__(self) -> Any:
        self._lock.acquire()
        try:
            if self._link is None or self._link.closed:
                self._link = self._connect()
        except BaseException:
            self._lock.release()
            raise
        return self._link

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def close(self) -> None:
        """Let go of the connection; waits for who uses it."""
        with self._lock:
            if self._link is not None:
                self._link.close()
