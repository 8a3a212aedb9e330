"""Connections beyond a limit get /health and a refusal; nothing is read without end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn

from leporid.serve import ServeLimits
from leporid.serve.middleware import Metrics
from leporid.serve.server import MAX_REJECTED, BoundedConnection, TimedServer, _listen

ASK = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
HEALTH = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"
many_addresses = pytest.mark.skipif(
    sys.platform == "darwin", reason="its loopback has one address unless more are added"
)


async def hello(scope: Any, receive: Any, send: Any) -> None:
    assert scope["type"] == "http"
    headers = [(b"content-length", b"5")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"hello"})


async def waiting(scope: Any, receive: Any, send: Any) -> None:
    """Reads the body to its end."""
    while (await receive()).get("more_body"):
        pass


@contextlib.contextmanager
def serving(app: Any = hello, **limits: int) -> Iterator[tuple[Any, Metrics]]:
    """The address of a server in a thread, and what it counts."""
    metrics = Metrics()
    settings = uvicorn.Config(
        app,
        http=BoundedConnection,
        ws="none",
        lifespan="off",
        log_level="warning",
        timeout_graceful_shutdown=1,
    )
    server = TimedServer(settings, ServeLimits(**limits), metrics)
    with _listen("127.0.0.1", 0) as listening:
        listening.listen(256)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield listening.getsockname(), metrics
        finally:
            server.should_exit = True
            thread.join(60)


def connect(address: Any, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(address, timeout=60, source_address=(source, 0))


def read_answer(link: socket.socket, sent: bytes = ASK) -> bytes:
    """The answer: to the end of the connection, or to the end of `hello`."""
    link.sendall(sent)
    read = b""
    while not read.endswith(b"hello") and (part := link.recv(4096)):
        read += part
    return read


def check_refusal(answer: bytes, status: int) -> None:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d" % status)
    assert b"retry-after: 1" in head
    assert b"connection: close" in head
    assert b"content-length: %d" % len(body) in head
    assert json.loads(body)["error"].startswith("too many connections")


def wait_for(metrics: Metrics, line: bytes) -> None:
    until = time.monotonic() + 60
    while line not in metrics.text():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_connection_too_many_is_told_so_and_closed_but_gets_the_health() -> None:
    with serving(connections=3) as (address, metrics), contextlib.ExitStack() as links:
        held = [links.enter_context(connect(address)) for _ in range(3)]
        for link in held:
            assert read_answer(link).startswith(b"HTTP/1.1 200")
        for _ in range(2):
            with connect(address) as link:
                check_refusal(read_answer(link), 503)
        with connect(address) as link:
            assert read_answer(link, HEALTH).endswith(b"hello")
        assert read_answer(held[0]).endswith(b"hello"), "who is in stays in"
        assert b"leporid_refused_connections_total 3.0" in metrics.text()
        held.pop().close()
        wait_for(metrics, b"leporid_connections 2.0")
        assert read_answer(links.enter_context(connect(address))).endswith(b"hello")


@many_addresses
def test_one_address_cannot_take_all_connections() -> None:
    limits = {"connections": 10, "connections_per_client": 2}
    with serving(**limits) as (address, metrics), contextlib.ExitStack() as links:
        for _ in range(2 + MAX_REJECTED + 5):
            links.enter_context(connect(address, "127.0.0.2"))
        # Of those beyond the limit only the newest are held.
        wait_for(metrics, b"leporid_connections %.1f" % (2 + MAX_REJECTED))
        with connect(address, "127.0.0.2") as link:
            assert read_answer(link, HEALTH).endswith(b"hello")
        with connect(address, "127.0.0.2") as link:
            check_refusal(read_answer(link), 429)
        for source in ("127.0.0.1", "127.0.0.3"):
            link = links.enter_context(connect(address, source))
            assert read_answer(link).endswith(b"hello")


def test_a_chunk_extension_without_end_is_cut() -> None:
    head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    with serving(waiting, body_bytes=1000) as (address, _), connect(address) as link:
        link.sendall(head + b"1;")
        sent = 0
        with contextlib.suppress(OSError):  # reset, or a broken pipe
            while sent < 1 << 26:
                link.sendall(b"a" * 65536)
                sent += 65536
        # What the two sockets hold was sent, but not read by the server.
        assert sent < 1 << 25


def test_bodies_within_the_limit_are_read_again_and_again_on_one_connection() -> None:
    async def counting(scope: Any, receive: Any, send: Any) -> None:
        await waiting(scope, receive, send)
        await hello(scope, receive, send)

    body = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 400000\r\n\r\n" + b"a" * 400_000
    with serving(counting, body_bytes=400_000) as (address, _), connect(address) as link:
        for _ in range(8):
            assert read_answer(link, body).endswith(b"hello")
            link.sendall(body[:9])  # half of the next headers
            with connect(address) as other:  # by its answer, that half was read
                assert read_answer(other).endswith(b"hello")
            assert read_answer(link, body[9:]).endswith(b"hello")


class Wire(asyncio.Transport):
    """A connection without a network."""

    def __init__(self) -> None:
        super().__init__({"peername": ("10.0.0.1", 1), "sockname": ("10.0.0.9", 80)})
        self.written = b""
        self._is_reading = True

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return False

    def is_reading(self) -> bool:
        return self._is_reading

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True


def test_requests_sent_before_an_answer_wait_unread_and_are_answered_in_order() -> None:
    asked: list[str] = []

    async def main() -> None:
        go = asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            asked.append(scope["path"])
            await receive()
            await go.wait()
            await hello(scope, receive, send)

        settings = uvicorn.Config(app, ws="none", lifespan="off")
        settings.load()
        state: Any = TimedServer(settings, ServeLimits(), Metrics()).server_state
        link, wire = BoundedConnection(settings, state, {}), Wire()
        link.connection_made(wire)
        link.data_received(
            b"".join(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % i for i in range(2000))
        )
        for _ in range(20):
            await asyncio.sleep(0)
        assert asked == ["/0"]
        assert not wire.is_reading(), "not even because the application reads"
        assert len(link.pipeline) < 50
        link.data_received(b"GET /2000 HTTP/1.1\r\nHost: a\r\n\r\nGET /20")
        go.set()
        while len(asked) < 2001:
            await asyncio.sleep(0)
        assert wire.is_reading()
        link.data_received(b"01 HTTP/1.1\r\nHost: a\r\n\r\n")
        while wire.written.count(b"hello") < 2002:
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(main(), 60))
    assert asked == [f"/{i}" for i in range(2002)]


def test_headers_without_end_are_cut() -> None:
    with serving() as (address, _), connect(address) as link:
        link.sendall(ASK[:-2])
        with contextlib.suppress(OSError):
            for number in range(1 << 16):
                link.sendall(b"X-%d: %s\r\n" % (number, b"a" * 1000))
        assert number < 1 << 15
