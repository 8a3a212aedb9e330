"""Connections beyond the limit are answered and closed, and those within it go on."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import uvicorn

from leporid.serve import ServeLimits
from leporid.serve.metrics import Metrics
from leporid.serve.server import _listen
from leporid.serve.timing import BoundedConnection, TimedServer

ASK = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


async def hello(scope: Any, receive: Any, send: Any) -> None:
    assert scope["type"] == "http"
    headers = [(b"content-length", b"5")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"hello"})


def read_answer(link: socket.socket) -> bytes:
    """Everything to the end of the connection, or to the end of `hello`."""
    read = b""
    while not read.endswith(b"hello") and (part := link.recv(4096)):
        read += part
    return read


def test_a_connection_too_many_is_told_so_and_closed() -> None:
    metrics = Metrics()
    settings = uvicorn.Config(
        hello, http=BoundedConnection, ws="none", lifespan="off", log_level="warning"
    )
    server = TimedServer(settings, ServeLimits(connections=3), metrics)
    with _listen("127.0.0.1", 0) as listening:
        listening.listen()
        address = listening.getsockname()
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            held = [socket.create_connection(address, timeout=30) for _ in range(3)]
            for link in held:
                link.sendall(ASK)
                assert read_answer(link).startswith(b"HTTP/1.1 200")
            for _ in range(2):
                with socket.create_connection(address, timeout=30) as link:
                    refused = read_answer(link)
                head, _, body = refused.partition(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 503")
                assert b"retry-after: 1" in head
                assert b"content-length: %d" % len(body) in head
                assert body.startswith(b'{"error":"too many connections')
            held[0].sendall(ASK)
            assert read_answer(held[0]).endswith(b"hello"), "who is in stays in"
            assert b"leporid_connections 3.0" in metrics.text()
            assert b"leporid_refused_connections_total 2.0" in metrics.text()
            held.pop().close()
            until = time.monotonic() + 30
            while b"leporid_connections 2.0" not in metrics.text():
                assert time.monotonic() < until
                time.sleep(0.01)
            held.append(socket.create_connection(address, timeout=30))
            held[-1].sendall(ASK)
            assert read_answer(held[-1]).endswith(b"hello")
        finally:
            server.should_exit = True
            for link in held:
                link.close()
            thread.join(30)
