"""New interactions and shown lists, kept durably: what was answered as stored survives a kill."""

from __future__ import annotations

import abc
import contextlib
import json
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from leporid.data import Duplicates, IdMap, Interactions
from leporid.errors import DataError, import_extra

_TABLES = (
    "CREATE TABLE IF NOT EXISTS events (id {key} PRIMARY KEY, "
    '"user" TEXT NOT NULL, item TEXT NOT NULL, time BIGINT NOT NULL)',
    "CREATE TABLE IF NOT EXISTS impressions (id {key} PRIMARY KEY, main TEXT NOT NULL, compare "
    'TEXT NOT NULL, run TEXT NOT NULL, "user" TEXT NOT NULL, items TEXT NOT NULL, '
    "time BIGINT NOT NULL)",
)
_INDEX = 'CREATE INDEX IF NOT EXISTS events_user ON events ("user", time, id)'
_INSERT = 'INSERT INTO events ("user", item, time) VALUES ({mark}, {mark}, {mark})'
_LAST = 'SELECT item FROM events WHERE "user" = {mark} ORDER BY time DESC, id DESC LIMIT {mark}'
_ALL = 'SELECT "user", item, time FROM events ORDER BY id'
_SHOWN = 'main, compare, run, "user", items, time'
_INSERT_SHOWN = (
    f"INSERT INTO impressions ({_SHOWN}) VALUES ({', '.join(['{mark}'] * 6)})"
)
_MEMORY = ":memory:"
"""What SQLite takes for the name of a database that ends with its connection."""
_ALL_SHOWN = f"SELECT {_SHOWN} FROM impressions ORDER BY id"


class StoreError(DataError):
    """The store does not answer, or is full."""


class Event(NamedTuple):
    """One interaction; ids as text, whatever they are in the log."""

    user: str
    item: str
    time: int
    """Seconds since 1970."""


class Impression(NamedTuple):
    """One list that a user was shown while two runs were served side by side."""

    main: str
    compare: str
    """Folders of the two runs."""
    run: str
    """'main' or 'compare': which of them made the list."""
    user: str
    items: tuple[str, ...]
    time: int
    """Seconds since 1970."""


def open_store(where: str | Path) -> EventStore:
    """A SQLite file, or PostgreSQL where `where` begins with postgresql://."""
    text = str(where).strip()
    if text.startswith(("postgresql://", "postgres://")):
        return PostgresStore(text)
    if "://" in text:  # it may hold a password, so it is not repeated
        raise DataError(
            "a store is a SQLite file or a URL that begins with postgresql://"
        )
    return SqliteStore(where)


def existing_store(where: str | Path) -> EventStore:
    """`open_store`, but a file that is not there is an error."""
    if "://" not in str(where) and not Path(where).is_file():
        raise DataError(f"no such store: {where}")
    return open_store(where)


class EventStore(abc.ABC):
    """Events and impressions. `add` and `items_of` run in two different threads."""

    mark: str  # stands for a value in a statement
    name: str  # what errors call the store
    failure: type[Exception]  # what the driver raises

    def __init__(self) -> None:
        # Readers must not wait for a writer's commit, so each has a connection.
        self._locks = {"read": threading.Lock(), "write": threading.Lock()}
        self._links: dict[str, Any] = {}

    @abc.abstractmethod
    def _open(self) -> Any:
        """A new connection."""

    def _transaction(self, link: Any) -> AbstractContextManager[Any]:
        """All or nothing."""
        return link.transaction()  # type: ignore[no-any-return]

    def add(
        self, events: Sequence[Event], impressions: Sequence[Impression] = ()
    ) -> None:
        """Keep them; they are on disk when this returns, all of them or none."""
        shown = [row._replace(items=json.dumps(row.items)) for row in impressions]  # type: ignore[arg-type]
        with self._link("write") as link, self._transaction(link):
            for statement, rows in ((_INSERT, list(events)), (_INSERT_SHOWN, shown)):
                if rows:
                    link.cursor().executemany(statement.format(mark=self.mark), rows)

    def items_of(self, users: Sequence[str], last: int) -> dict[str, list[str]]:
        """The `last` items of each user that has any, in order of time."""
        query, items = _LAST.format(mark=self.mark), {}
        with self._link("read") as link:
            # PostgreSQL has no text with a NUL in it, so there is no such user.
            for user in (user for user in users if "\0" not in user):
                rows = link.execute(query, (user, last)).fetchall()
                if rows:
                    items[user] = [
                        self._sound(user, item)[1] for (item,) in reversed(rows)
                    ]
        return items

    def events(self) -> Iterator[Event]:
        """Everything, in the order it was added."""
        with self._driver_errors(), contextlib.closing(self._open()) as link:
            yield from (self._sound(*row) for row in link.execute(_ALL))

    def impressions(self) -> Iterator[Impression]:
        """Every list that was shown, in the order of storing."""
        with self._driver_errors(), contextlib.closing(self._open()) as link:
            for main, compare, run, user, items, time in link.execute(_ALL_SHOWN):
                try:
                    shown = tuple(map(str, json.loads(items)))
                    if run not in ("main", "compare"):
                        raise ValueError(run)
                    yield Impression(main, compare, run, user, shown, int(time))
                except (TypeError, ValueError):
                    raise DataError(
                        f"{self.name} holds an impression that is not one (run {run!r:.50}, "
                        f"items {items!r:.50}, time {time!r:.50}): correct or delete that row"
                    ) from None

    def _sound(self, user: Any, item: Any, time: Any = 0) -> Event:
        """The event, if its values have the right types: SQLite keeps any in any column."""
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
                if use in self._links:
                    self._links[use].close()

    @contextlib.contextmanager
    def _link(self, use: str) -> Iterator[Any]:
        """A connection for one thread at a time, opened again where it was lost."""
        with self._driver_errors(), self._locks[use]:
            link = self._links.get(use)
            if link is None or getattr(link, "closed", False):
                link = self._links[use] = self._open()
            yield link

    @contextlib.contextmanager
    def _driver_errors(self) -> Iterator[None]:
        """Turn errors of the driver into a `StoreError` without SQL."""
        try:
            yield
        except self.failure as error:
            raise StoreError(f"{self.name} does not answer: {error}") from error


class SqliteStore(EventStore):
    """One file in WAL mode; a commit is synchronised with the disk before it returns."""

    mark = "?"
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
        with self._link("write"), self._link("read"):
            pass  # a file that is no store is refused at once
        self._opened = self._identity()

    def _open(self) -> sqlite3.Connection:
        try:
            link = sqlite3.connect(self.path, check_same_thread=False, timeout=30)
            link.execute("PRAGMA journal_mode = WAL")
            link.execute("PRAGMA synchronous = FULL")
            for table in _TABLES:
                link.execute(table.format(key="INTEGER"))
            link.execute(_INDEX)
            link.commit()
        except sqlite3.Error as error:
            raise DataError(f"{self.path} is no store of events: {error}") from error
        return link

    @contextlib.contextmanager
    def _transaction(self, link: sqlite3.Connection) -> Iterator[None]:
        """All or nothing, in a file that is still there: what SQLite writes to a removed one is
        gone with the connection.
        """
        with link:
            yield
            self._check_files()  # what is refused here is not written either
        self._check_files()

    def _identity(self) -> list[tuple[int, int] | None]:
        """Which files the database and its log of the newest commits are; None for one not there.

        Some network drives allow no such log.
        """
        found: list[tuple[int, int] | None] = []
        for path in (self.path, self.path.with_name(f"{self.path.name}-wal")):
            try:
                status = path.stat()
            except FileNotFoundError:
                found.append(None)
            else:
                found.append((status.st_dev, status.st_ino))
        return found

    def _check_files(self) -> None:
        """Refuse to go on where the open files are no longer those that have their names."""
        if self._identity() != self._opened:
            raise StoreError(
                f"the file of {self.name} (or the -wal beside it) was removed or replaced while "
                "it was open: put it back, or start the server again"
            )


class PostgresStore(EventStore):
    """The same tables on a PostgreSQL server; needs the package psycopg."""

    mark = "%s"
    name = "the PostgreSQL store"

    def __init__(self, url: str) -> None:
        psycopg = import_extra("psycopg", "a PostgreSQL store", "postgres")
        self._connect, self.failure, self._url = psycopg.connect, psycopg.Error, url
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
        with self._link("write") as link, link.transaction():
            # Two servers that start together would both find no table.
            link.execute("SELECT pg_advisory_xact_lock(hashtext('leporid events'))")
            for table in _TABLES:
                link.execute(table.format(key="BIGSERIAL"))
            link.execute(_INDEX)

    def _open(self) -> Any:
        link = self._connect(self._url, autocommit=True, connect_timeout=10)
        # Whatever the server's default is: a commit that returned is on its disk.
        link.execute("SET synchronous_commit = on")
        return link


def merged_log(
    store: str | Path, log: Interactions | None = None, duplicates: Duplicates = "first"
) -> Interactions:
    """The events of a store, after those of a log where one is given.

    Ids are whole numbers where all of them are; `duplicates` is as in `leporid.load`.
    """
    with contextlib.closing(existing_store(store)) as opened:
        events = list(opened.events())
    if not events:
        # A URL may hold a password.
        raise DataError(
            f"{'the store' if '://' in str(store) else store} holds no events yet"
        )
    if log is not None and log.time is None:
        raise DataError(
            "the log has no times, so events cannot be put in order with it: read it with "
            "--order file if its rows are in time order"
        )
    if log is not None and (
        log.weight is not None or log.goal is not None or log.disliked
    ):
        raise DataError(
            "the log has weights or kinds of events, and events have none: read it without them"
        )
    kinds = {"user_id": pa.string(), "item_id": pa.string(), "timestamp": pa.int64()}
    table = pa.table(
        dict(zip(kinds, zip(*events, strict=True), strict=True)), pa.schema(kinds)
    )
    if log is not None:
        table = pa.concat_tables([log.to_table().cast(table.schema), table])
    sides: list[Any] = []
    for kind in ("user", "item"):
        texts = table[f"{kind}_id"].combine_chunks()
        whole = pc.all(
            pc.match_substring_regex(texts, r"^(0|-?[1-9][0-9]{0,17})$")
        ).as_py()
        values = texts.cast(pa.int64()) if whole else texts
        known = IdMap.from_values(values, kind)
        sides += [known, known.encode(values)]
    (users, user, items, item), time = sides, table["timestamp"].to_numpy()
    return Interactions.from_arrays(
        user, item, time, users, items, duplicates=duplicates
    )
