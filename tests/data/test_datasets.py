from __future__ import annotations

import hashlib
import io
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from leporid import load
from leporid.data import ItemInfo, datasets, fetch, load_items
from leporid.data.datasets import download
from leporid.errors import DataError, UnknownNameError
from leporid.foundation import NullProgress


class Server:
    """Files over HTTP on this machine; it can break off transfers."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.requests: list[str] = []
        self.breaks = 0
        """How many of the next answers stop half way."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.answer(self)

            def log_message(self, *_: Any) -> None:
                """Quiet."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        self.thread = threading.Thread(target=self.http.serve_forever)
        self.thread.start()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        self.requests.append(handler.path)
        body = self.files.get(handler.path)
        if body is None:
            handler.send_error(404)
            return
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        if self.breaks:
            body = body[: len(body) // 2]
            self.breaks -= 1
        handler.wfile.write(body)

    def close(self) -> None:
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """pooch waits some seconds before it tries again."""
    monkeypatch.setattr("pooch.core.time.sleep", lambda _: None)


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LEPORID_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "datasets"


BODY = bytes(range(256)) * 4000


class Recorded(NullProgress):
    """Remembers what was reported."""

    def __init__(self) -> None:
        self.stages: list[str] = []

    def start(self, description: str, total: int | None = None) -> None:
        self.stages.append(description)


def test_a_broken_transfer_is_tried_again(server: Server, tmp_path: Path) -> None:
    server.files["/a.zip"] = BODY
    server.breaks = 1
    seen, md5 = Recorded(), hashlib.md5(BODY).hexdigest()
    target = download(f"{server.url}/a.zip", tmp_path / "a.zip", md5=md5, progress=seen)
    assert target.read_bytes() == BODY
    assert server.requests == ["/a.zip", "/a.zip"]
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]
    assert seen.stages == ["downloading a.zip"]


def test_a_transfer_that_keeps_breaking_is_one_error(server: Server, tmp_path: Path) -> None:
    server.files["/a.zip"] = BODY
    server.breaks = 9
    with pytest.raises(DataError, match=r"could not download http.*/a\.zip to .*a\.zip: "):
        download(f"{server.url}/a.zip", tmp_path / "a.zip")
    assert len(server.requests) == 3
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_checksum_leaves_nothing(server: Server, tmp_path: Path) -> None:
    server.files["/a.zip"] = BODY
    with pytest.raises(DataError, match=r"MD5 hash .*a\.zip.* expected md5:0000.* but got"):
        download(f"{server.url}/a.zip", tmp_path / "a.zip", md5="0" * 32)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(DataError, match="answered 404"):
        download(f"{server.url}/none.zip", tmp_path / "none.zip")


def test_an_address_out_of_reach_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"could not download http://127\.0\.0\.1:9/a\.zip"):
        download("http://127.0.0.1:9/a.zip", tmp_path / "a.zip")


def zipped(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


ML_1M = {
    "ml-1m/README": b"...",
    "ml-1m/ratings.dat": b"1::10::4::7\n1::20::3::5\n2::10::1::6\n",
    "ml-1m/movies.dat": "10::Caf\xe9: x::y (1995)::Comedy|Drama\n20::Other (1990)::War\n".encode(
        "latin-1"
    ),
}


def offer(server: Server, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    from dataclasses import replace

    content = server.files.get(f"/{name}.zip", b"")
    md5 = hashlib.md5(content).hexdigest()
    moved = replace(datasets.DATASETS[name], url=f"{server.url}/{name}.zip", md5=md5)
    monkeypatch.setattr(datasets, "DATASETS", {**datasets.DATASETS, name: moved})


def test_a_named_data_set_is_fetched_once(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files["/ml-1m.zip"] = zipped(ML_1M)
    offer(server, monkeypatch, "ml-1m")
    data = load("ml-1m", min_rating=3)
    assert data.users.ids.to_pylist() == [1]
    assert data.items.ids.to_pylist() == [10, 20]
    titles = load_items("ml-1m")
    assert titles[10] == ItemInfo("Café: x::y (1995)", ("Comedy", "Drama"))
    asked = len(server.requests)
    assert len(load("ml-1m")) == 3
    assert len(server.requests) == asked
    assert sorted(path.name for path in (cache / "ml-1m").iterdir()) == [
        "movies.dat",
        "ratings.dat",
    ]


def test_a_bad_archive_is_refused(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.files["/ml-1m.zip"] = b"no archive"
    offer(server, monkeypatch, "ml-1m")
    with pytest.raises(DataError, match="damaged"):
        fetch("ml-1m")


def test_licensed_data_sets_say_what_to_do(cache: Path) -> None:
    with pytest.raises(DataError, match=r"licence click .*kaggle.*rating\.csv .*datasets/anime"):
        load("anime")
    with pytest.raises(DataError, match=r"by hand: .*steam\.inter"):
        load("steam")
    (cache / "anime").mkdir(parents=True)
    log = b"user_id,anime_id,rating\n1,20,-1\n1,24,8\n3,20,10\n"
    (cache / "anime" / "archive.zip").write_bytes(
        zipped({"rating.csv": log, "anime.csv": b'anime_id,name,genre\n20,N,"Action, Drama"\n'})
    )
    data = load("anime")
    assert data.csr().toarray().tolist() == [[0, 1], [1, 0]]
    assert data.dropped == {"below min_rating": 1}
    assert load("anime", min_rating=-1).dropped == {}
    assert load_items("anime")[20] == ItemInfo("N", ("Action", "Drama"))


def test_a_path_wins_over_a_name(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ml-1m").write_text("user,item\n5,6\n")
    assert load("ml-1m").users.ids.to_pylist() == [5]
    with pytest.raises(UnknownNameError, match="'ml-100k'"):
        fetch("ml-100")


INTER = b"user_id:token\titem_id:token\trating:float\ttimestamp:float\n1\t10\t4\t7\n2\t10\t3\t9\n"
ITEM = (
    b"item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq\n"
    b'10\t"Toy" Story\t1995\tAnimation Comedy\n'
)


def test_the_wheel_is_a_second_source(cache: Path, tmp_path: Path) -> None:
    folder = "recbole/dataset_example/ml-100k/"
    wheel = tmp_path / "recbole.whl"
    wheel.write_bytes(zipped({folder + "ml-100k.inter": INTER, folder + "ml-100k.item": ITEM}))
    known = {
        "ml-100k.item": hashlib.sha256(ITEM).hexdigest(),
        "ml-100k.inter": hashlib.sha256(INTER).hexdigest(),
    }
    with pytest.raises(DataError, match="has not the sha256"):
        datasets.extract(wheel, cache / "ml-100k", known, {**known, "ml-100k.item": "0" * 64})
    assert list((cache / "ml-100k").iterdir()) == []
    datasets.extract(wheel, cache / "ml-100k", known, known)
    assert load("ml-100k").time.tolist() == [7, 9]  # type: ignore[union-attr]
    assert load_items("ml-100k") == {10: ItemInfo('"Toy" Story (1995)', ("Animation", "Comedy"))}


def test_both_sources_out_of_reach_is_one_sentence(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(server, monkeypatch, "ml-100k")
    monkeypatch.setattr(datasets, "_RECBOLE", "leporid-no-such-package==0")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(DataError, match=r"neither from its official address .*404.* nor from"):
        fetch("ml-100k")


def test_titles_from_tables(tmp_path: Path) -> None:
    (tmp_path / "u.item").write_bytes(
        b"1|Toy Story (1995)|01-Jan-1995||url|0|0|0|1|1|1" + b"|0" * 13 + b"\n"
    )
    assert load_items(tmp_path / "u.item") == {
        1: ItemInfo("Toy Story (1995)", ("Animation", "Children's", "Comedy"))
    }
    (tmp_path / "a.csv").write_text("title,asin,year\nX,007,1\n")
    assert load_items(tmp_path / "a.csv") == {"007": ItemInfo("X")}
    (tmp_path / "b.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="needs a column of item ids"):
        load_items(tmp_path / "b.csv")
