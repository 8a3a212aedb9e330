"""New interactions and shown lists, stored so that what was confirmed survives a crash."""

from __future__ import annotations

import abc
import contextlib
import json
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from leporid.errors import DataError, import_extra

_TABLES = (
    "CREATE TABLE IF NOT EXISTS events (id {key} PRIMARY KEY, "
    '"user" TEXT NOT NULL, item TEXT NOT NULL, time BIGINT NOT NULL)',
    "CREATE TABLE IF NOT EXISTS impressions (id {key} PRIMARY KEY, main TEXT NOT NULL, compare "
    'TEXT NOT NULL, run TEXT NOT NULL, "user" TEXT NOT NULL, items TEXT NOT NULL, '
    "time BIGINT NOT NULL)",
)
_CREATE_INDEX = 'CREATE INDEX IF NOT EXISTS events_user ON events ("user", time, id)'
_INSERT_EVENT = 'INSERT INTO events ("user", item, time) VALUES ({0}, {0}, {0})'
_SELECT_EVENTS = 'SELECT "user", item, time FROM events ORDER BY id'
_SELECT_LAST_ITEMS = (
    'SELECT item FROM events WHERE "user" = {0} ORDER BY time DESC, id DESC LIMIT {0}'
)
_INSERT_IMPRESSION = (
    'INSERT INTO impressions (main, compare, run, "user", items, time) '
    "VALUES ({0}, {0}, {0}, {0}, {0}, {0})"
)
_SELECT_IMPRESSIONS = (
    'SELECT main, compare, run, "user", items, time FROM impressions ORDER BY id'
)
_MEMORY = ":memory:"
"""SQLite's name for a database that ends with its connection."""


class StoreError(DataError):
    """The store does not answer, or is full."""


class Event(NamedTuple):
    """One interaction; its ids are text, whatever they are in the interaction log."""

    user: str
    item: str
    time: int
    """Seconds since 1970."""


class Impression(NamedTuple):
    """One list that a user was shown while two runs were served side by side."""

    main: str
    """Folder of the main run."""
    compare: str
    """Folder of the run that it is compared with."""
    run: str
    """The run that made the list: 'main' or 'compare'."""
    user: str
    items: tuple[str, ...]
    time: int
    """Seconds since 1970."""


StoreRows: TypeAlias = list[Event] | list[Impression]
_Connection: TypeAlias = Any
"""A connection of sqlite3 or psycopg, which share no base class."""


def open_store(where: str | Path) -> EventStore:
    """Open a SQLite file, or PostgreSQL if `where` begins with postgresql://."""
    text = str(where).strip()
    if text.startswith(("postgresql://", "postgres://")):
        return PostgresStore(text)
    if "://" in text:
        # The URL may hold a password, so it is not repeated.
        raise DataError(
            "a store is a SQLite file or a URL that begins with postgresql://"
        )
    return SqliteStore(where)


def existing_store(where: str | Path) -> EventStore:
    """Open a store like `open_store`, but refuse a file that does not exist."""
    if "://" not in str(where) and not Path(where).is_file():
        raise DataError(f"no such store: {where}")
    return open_store(where)


class EventStore(abc.ABC):
    """A database of events and impressions. `add` and `items_of` run in two different threads."""

    placeholder: str
    """Stands for a value in a statement."""
    name: str
    """Name of the store in error messages."""
    failure: type[Exception]
    """Base class of the driver's errors."""

    def __init__(self) -> None:
        # Readers must not wait for a writer's commit, so each has a connection.
        self._locks = {"read": threading.Lock(), "write": threading.Lock()}
        self._connections: dict[str, _Connection] = {}

    @abc.abstractmethod
    def _open(self) -> _Connection:
        """Open a new connection."""

    def _transaction(self, connection: _Connection) -> AbstractContextManager[object]:
        """Return a context in which either all statements are written, or none."""
        return connection.transaction()  # type: ignore[no-any-return]

    def _is_lost(self, connection: _Connection) -> bool:
        """Whether the connection has to be opened again."""
        return bool(connection.closed)

    def add(
        self,
        events: Sequence[Event],
        impressions: Sequence[Impression] = (),
    ) -> None:
        """Write either all of these rows or none; they are on disk when this returns."""
        event_rows = list(events)
        impression_rows = [
            row._replace(items=json.dumps(row.items))  # type: ignore[arg-type]
            for row in impressions
        ]
        with (
            self._connection("write") as connection,
            self._transaction(connection),
        ):
            if event_rows:
                statement = _INSERT_EVENT.format(self.placeholder)
                connection.cursor().executemany(statement, event_rows)
            if impression_rows:
                statement = _INSERT_IMPRESSION.format(self.placeholder)
                connection.cursor().executemany(statement, impression_rows)

    def items_of(self, users: Sequence[str], last: int) -> dict[str, list[str]]:
        """Return the `last` items of each user that has any, in order of time."""
        query = _SELECT_LAST_ITEMS.format(self.placeholder)
        items = {}
        with self._connection("read") as connection:
            for user in users:
                # PostgreSQL cannot hold text with a NUL, so there is no such user.
                if "\0" in user:
                    continue
                rows = connection.execute(query, (user, last)).fetchall()
                if rows:
                    events = [self._event(user, item) for (item,) in reversed(rows)]
                    items[user] = [event.item for event in events]
        return items

    def events(self) -> Iterator[Event]:
        """Yield every event, in the order in which they were added."""
        with self._driver_errors(), contextlib.closing(self._open()) as connection:
            for row in connection.execute(_SELECT_EVENTS):
                yield self._event(*row)

    def impressions(self) -> Iterator[Impression]:
        """Yield every list that was shown, in the order in which they were added."""
        with self._driver_errors(), contextlib.closing(self._open()) as connection:
            rows = connection.execute(_SELECT_IMPRESSIONS)
            for main, compare, run, user, items, time in rows:
                try:
                    item_ids = tuple(map(str, json.loads(items)))
                    seconds = int(time)
                    if run not in ("main", "compare"):
                        raise ValueError(run)
                except (TypeError, ValueError):
                    raise DataError(
                        f"{self.name} holds an impression that is not one (run {run!r:.50}, "
                        f"items {items!r:.50}, time {time!r:.50}): correct or delete that row"
                    ) from None
                yield Impression(main, compare, run, user, item_ids, seconds)

    def _event(self, user: object, item: object, time: object = 0) -> Event:
        """Return an event, or raise a `DataError` if a value has the wrong type."""
        if isinstance(user, str) and isinstance(item, str) and isinstance(time, int):
            return Event(user, item, time)
        raise DataError(
            f"{self.name} holds an event that is not one (user {user!r:.50}, item {item!r:.50}, "
            f"time {time!r:.50}): ids must be text and times whole seconds; correct or delete that "
            "row of the table events"
        )

    def close(self) -> None:
        """Close the connections, after their current use."""
        for use, lock in self._locks.items():
            with lock:
                if use in self._connections:
                    self._connections[use].close()

    @contextlib.contextmanager
    def _connection(self, use: str) -> Iterator[_Connection]:
        """Lend the connection for a `use` to one thread at a time; open it if necessary."""
        with self._driver_errors(), self._locks[use]:
            connection = self._connections.get(use)
            if connection is None or self._is_lost(connection):
                connection = self._open()
                self._connections[use] = connection
            yield connection

    @contextlib.contextmanager
    def _driver_errors(self) -> Iterator[None]:
        """Turn errors of the driver into a `StoreError` without SQL."""
        try:
            yield
        except self.failure as error:
            raise StoreError(f"{self.name} does not answer: {error}") from error


class SqliteStore(EventStore):
    """A file in WAL mode; a commit is synchronised with the disk before it returns."""

    placeholder = "?"
    failure = sqlite3.Error

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.name = f"the event store {path}"
        if str(self.path) == _MEMORY:
            raise DataError(
                f"a store in memory ({_MEMORY}) keeps nothing: name a file for it"
            )
        self.path.parent.mkdir(parents=True, exist_ok=True)
        super().__init__()
        # A file that is no store is refused here.
        with self._connection("write"), self._connection("read"):
            pass
        self._opened = self._file_identities()

    def _open(self) -> sqlite3.Connection:
        try:
            connection = sqlite3.connect(self.path, timeout=30, check_same_thread=False)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            for table in _TABLES:
                connection.execute(table.format(key="INTEGER"))
            connection.execute(_CREATE_INDEX)
            connection.commit()
        except sqlite3.Error as error:
            raise DataError(f"{self.path} is no store of events: {error}") from error
        return connection

    def _is_lost(self, connection: sqlite3.Connection) -> bool:
        return False

    @contextlib.contextmanager
    def _transaction(self, connection: sqlite3.Connection) -> Iterator[None]:
        """Write either all statements or none, to a file that still exists.

        What SQLite writes to a removed file is gone when the connection ends.
        """
        with connection:
            yield
            # What is refused here is not written.
            self._check_files()
        self._check_files()

    def _file_identities(self) -> list[tuple[int, int] | None]:
        """Return device and inode of the database and of its log of the newest commits.

        A file that does not exist is None: some network drives allow no such log.
        """
        identities: list[tuple[int, int] | None] = []
        for path in (self.path, self.path.with_name(f"{self.path.name}-wal")):
            try:
                status = path.stat()
            except FileNotFoundError:
                identities.append(None)
            else:
                identities.append((status.st_dev, status.st_ino))
        return identities

    def _check_files(self) -> None:
        """Refuse to continue if the files on disk are no longer the ones that are open."""
        if self._file_identities() != self._opened:
            raise StoreError(
                f"the file of {self.name} (or the -wal beside it) was removed or replaced while "
                "it was open: put it back, or start the server again"
            )


class PostgresStore(EventStore):
    """The tables of events and impressions on a PostgreSQL server; needs the package psycopg."""

    placeholder = "%s"
    name = "the PostgreSQL store"

    def __init__(self, url: str) -> None:
        psycopg = import_extra("psycopg", "a PostgreSQL store", "postgres")
        self._connect = psycopg.connect
        self.failure = psycopg.Error
        self._url = url
        try:
            if url.partition("?")[0].count("@") > 1:
                raise psycopg.ProgrammingError("the password ends at the first @")
            psycopg.conninfo.conninfo_to_dict(url)
        except psycopg.ProgrammingError:
            # The driver repeats the part it could not read, which may be the password.
            raise DataError(
                "the URL of the PostgreSQL store is not well-formed: write a space as %20, and "
                "other special characters of a name or password likewise"
            ) from None
        super().__init__()
        with (
            self._connection("write") as connection,
            self._transaction(connection),
        ):
            # Two servers that start together would both find no table.
            connection.execute(
                "SELECT pg_advisory_xact_lock(hashtext('leporid events'))"
            )
            for table in _TABLES:
                connection.execute(table.format(key="BIGSERIAL"))
            connection.execute(_CREATE_INDEX)

    def _open(self) -> _Connection:
        connection = self._connect(self._url, autocommit=True, connect_timeout=10)
        # Whatever the server's default is: a commit that returned is on its disk.
        connection.execute("SET synchronous_commit = on")
        return connection
