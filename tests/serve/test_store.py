"""The store of events: SQLite always, PostgreSQL where a server can be started."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

import leporid
from leporid.cli.app import app as command
from leporid.errors import DataError, MissingExtraError
from leporid.models import Recommender
from leporid.serve import Event, create_app, open_store
from leporid.serve.store import StoreError
from tests.serve.conftest import get, post
from tests.serve.postgres import Cluster, cluster, why_not
from tests.serve.test_kill import kill_and_count

WRITE = {"Authorization": "Bearer write"}
needs_postgres = [
    pytest.mark.slow,
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]


@pytest.fixture(scope="module")
def postgres() -> Iterator[Cluster]:
    with cluster() as running:
        yield running


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=needs_postgres)])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A file name, or the URL of a database with nothing in it."""
    if request.param == "sqlite":
        return str(tmp_path / "deep" / "events.db")
    running: Cluster = request.getfixturevalue("postgres")
    _forget(running.url)
    return running.url


def _forget(url: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as link:
        link.execute("DROP TABLE IF EXISTS events, impressions")


def test_events_come_back_in_order_and_the_last_of_a_user_in_time(where: str) -> None:
    store = open_store(where)
    store.add([Event("ana", "7", 300), Event("bo", "7", 5), Event("ana", "é'\"%s", 100)])
    store.add([Event("ana", "3", 200), Event("ana", "4", 200)])
    assert store.items_of(["ana", "bo", "nobody", "a\0b"], 3) == {
        "ana": ["3", "4", "7"],
        "bo": ["7"],
    }
    assert store.items_of(["ana"], 10) == {"ana": ["é'\"%s", "3", "4", "7"]}
    assert store.items_of([], 3) == {}
    assert [event.item for event in store.events()] == ["7", "7", "é'\"%s", "3", "4"]
    store.close()
    again = open_store(where)
    assert list(again.events())[1] == Event("bo", "7", 5)
    again.close()


def test_the_store_is_safe_from_several_threads(where: str) -> None:
    store = open_store(where)

    def write(writer: int) -> None:
        for i in range(20):
            store.add([Event(f"u{writer}", str(i), i)])
            assert store.items_of([f"u{writer}"], 5)[f"u{writer}"][-1] == str(i)

    threads = [threading.Thread(target=write, args=(w,)) for w in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(store.events())) == 60
    assert store.items_of(["u1", "nobody"], 3) == {"u1": ["17", "18", "19"]}
    store.close()


def test_a_request_of_which_one_event_fails_stores_none(where: str) -> None:
    store = open_store(where)
    with pytest.raises(DataError, match="does not answer"):
        store.add([Event("ana", "1", 1), Event("ana", None, 2)])  # type: ignore[arg-type]
    assert list(store.events()) == []
    store.add([Event("ana", "1", 1)])
    assert store.items_of(["ana"], 9) == {"ana": ["1"]}
    store.close()


def test_the_service_stores_folds_in_and_exports(
    where: str, run_dir: Path, model: Recommender, tmp_path: Path
) -> None:
    app: Any = create_app(run_dir, store=where, token="write", public_reading=True)
    items = [model.items.external(i) for i in (3, 17, 5)]
    sent = [{"user": "77001", "item": items[i], "time": 100 + i} for i in (2, 0, 1)]
    answer = post(app, "/events", {"events": sent}, headers=WRITE)
    assert answer.json() == {"stored": 3}
    shown = post(app, "/recommend", {"users": [77001], "n": 8}).json()["results"][0]
    expected = model.recommend_history(items, n=8)[0].tolist()
    assert [item["id"] for item in shown["items"]] == expected
    assert get(app, "/users/77001").json()["new_events"] == 3
    for odd in ("a\0b", "%00"):
        assert get(app, f"/users/{odd}".replace("\0", "%00")).status_code == 422
    refused = post(app, "/events", {"events": [{**sent[0], "user": "a\0b"}]}, headers=WRITE)
    assert refused.status_code == 422
    app.state.service.close()
    out = tmp_path / "events.csv"
    told = CliRunner().invoke(command, ["data", "import", "--from-store", where, "-o", str(out)])
    assert told.exit_code == 0, told.output
    log = leporid.load(out)
    assert log.items.externals(log.sequences().of(log.users.index(77001))).tolist() == items


def test_every_event_answered_with_200_survives_sigkill(
    where: str, run_dir: Path, model: Recommender
) -> None:
    kill_and_count(run_dir, where, model.items.external(0))


@pytest.mark.slow
@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_events_survive_a_crash_of_postgres_and_the_store_connects_again(postgres: Cluster) -> None:
    _forget(postgres.url)
    store = open_store(postgres.url)
    store.add([Event("ana", str(i), i) for i in range(50)])
    postgres.stop()
    try:
        for broken in (lambda: store.add([Event("bo", "1", 1)]), lambda: store.items_of(["a"], 1)):
            with pytest.raises(DataError, match="does not answer"):
                broken()
    finally:
        postgres.start()
    assert len(store.items_of(["ana"], 100)["ana"]) == 50
    store.add([Event("bo", "2", 1)])
    assert store.items_of(["bo"], 9) == {"bo": ["2"]}
    store.close()


def test_a_missing_driver_is_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[postgres\]"):
        open_store("postgresql://127.0.0.1:1/none")


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_no_server_is_said_in_words_without_the_password() -> None:
    with pytest.raises(DataError, match="does not answer") as told:
        open_store("postgresql://leporid:secret@127.0.0.1:1/none")
    assert "secret" not in str(told.value)


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a database, but long enough to look at " * 50)
    with pytest.raises(DataError, match=r"notes\.txt is no store"):
        open_store(tmp_path / "notes.txt")


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        (("ana", "1", "yesterday"), "'yesterday'"),
        ((b"\xff", "1", 5), r"b'\\xff'"),
        (("ana", b"1", 5), "b'1'"),
        (("ana", "1", 2.5), "2.5"),
    ],
)
def test_a_row_that_is_no_event_is_named_in_one_sentence(
    tmp_path: Path, row: tuple[Any, ...], shown: str
) -> None:
    file = tmp_path / "events.db"
    open_store(file).close()
    with contextlib.closing(sqlite3.connect(file)) as link, link:
        link.execute('INSERT INTO events ("user", item, time) VALUES (?, ?, ?)', row)
    for out in ("next.csv", "next.parquet"):
        fetch = ["data", "import", "--from-store", str(file), "-o", str(tmp_path / out)]
        told = CliRunner().invoke(command, fetch)
        assert isinstance(told.exception, DataError)
        for part in ("events.db", "correct or delete that row"):
            assert part in str(told.exception)
    with contextlib.closing(open_store(file)) as store:
        with pytest.raises(DataError, match=shown):
            list(store.events())
        if isinstance(row[1], bytes):
            with pytest.raises(DataError, match="is not one"):
                store.items_of(["ana"], 5)


def test_a_full_store_is_503_in_words_and_reading_goes_on(
    run_dir: Path, model: Recommender, tmp_path: Path
) -> None:
    app: Any = create_app(run_dir, store=tmp_path / "events.db", token="t", public_reading=True)
    store = app.state.service.store
    [(pages,)] = store._connections["write"].execute("PRAGMA page_count")
    store._connections["write"].execute(f"PRAGMA max_page_count = {pages + 2}")
    item, headers = model.items.external(0), {"Authorization": "Bearer t"}

    def send(count: int) -> Any:
        events = [{"user": f"ana{i}" * 40, "item": item} for i in range(count)]
        return post(app, "/events", {"events": events}, headers=headers)

    assert send(1).status_code == 200
    full = send(300)
    assert full.status_code == 503
    assert int(full.headers["retry-after"]) > 0
    assert "full" in full.json()["error"]
    assert str(tmp_path) not in full.text
    assert len(list(store.events())) == 1, "all or nothing"
    known = {"users": [model.users.external(0)]}
    assert post(app, "/recommend", known).status_code == 200
    store._connections["write"].execute(f"PRAGMA max_page_count = {pages + 1000}")
    assert send(300).status_code == 200


@pytest.mark.parametrize("where", [":memory:", "./:memory:", Path(":memory:")])
def test_a_store_in_memory_is_refused(where: str | Path) -> None:
    with pytest.raises(DataError, match=r"a store in memory .* keeps nothing: name a file"):
        open_store(where)


@pytest.mark.skipif(sys.platform == "win32", reason="there an open file cannot be removed")
@pytest.mark.parametrize("gone", ["events.db", "events.db-wal"])
@pytest.mark.parametrize("replaced", [False, True])
def test_events_for_a_file_that_is_gone_are_503_until_it_is_back(
    run_dir: Path, model: Recommender, tmp_path: Path, gone: str, replaced: bool
) -> None:
    app: Any = create_app(run_dir, store=tmp_path / "events.db", token="t", public_reading=True)
    write = {"Authorization": "Bearer t"}
    item = model.items.external(0)

    def send(user: str) -> httpx.Response:
        return post(app, "/events", {"events": [{"user": user, "item": item}]}, headers=write)

    assert send("ana").status_code == 200
    kept = (tmp_path / gone).rename(tmp_path / "kept")
    if replaced:
        shutil.copy(kept, tmp_path / gone)
    refused = send("bo")
    assert refused.status_code == 503
    assert "gone" in refused.json()["error"]
    assert post(app, "/recommend", {"users": [model.users.external(0)]}).status_code == 200
    kept.replace(tmp_path / gone)
    assert send("cy").status_code == 200
    assert [event.user for event in app.state.service.store.events()] == ["ana", "cy"]


@pytest.mark.skipif(sys.platform == "win32", reason="there an open file cannot be removed")
def test_a_file_that_goes_before_the_first_event_is_noticed(tmp_path: Path) -> None:
    with contextlib.closing(open_store(tmp_path / "events.db")) as store:
        (tmp_path / "events.db").rename(tmp_path / "kept")
        shutil.copy(tmp_path / "kept", tmp_path / "events.db")
        with pytest.raises(StoreError, match="removed or replaced while it was open"):
            store.add([Event("ana", "1", 1)])
