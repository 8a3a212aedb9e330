"""`serve_forever`: one uvicorn process for one application.

Connections that are too many, send too slowly or too much, or read no answer are closed.
"""

import asyncio
import gc
import logging
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.auto import AutoHTTPProtocol
from uvicorn.server import ServerState

from leporid.errors import ConfigError
from leporid.serve.access import is_loopback
from leporid.serve.app import create_app
from leporid.serve.middleware import LogRateLimit, Metrics, is_health, refusal
from leporid.serve.schemas import ServeLimits
from leporid.serve.service import Service

_MAX_HEADER_BYTES = 1 << 16
_PARSED_BYTES = 1 << 10
"""Bytes parsed at once: they may be full of requests, of which only the first is begun."""
MAX_REJECTED = 64
"""Connections beyond a limit that are held until they ask; the oldest gives way to the next."""
_HttpConnection: TypeAlias = Any
"""One of uvicorn's HTTP protocols, which share no base class."""


def serve_forever(  # noqa: PLR0913 (options are spelled out)
    run: str | Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    allowed_hosts: Iterable[str] = (),
    items: str | Path | None = None,
    compare: str | Path | None = None,
    store: str | Path | None = None,
    share: float | None = None,
    token: str | None = None,
    admin_token: str | None = None,
    public_reading: bool = False,
    cors: Iterable[str] = (),
    limits: ServeLimits | None = None,
    include_seen: bool | None = None,
    clock: Callable[[], float] = time.time,
) -> None:
    """Serve until interrupted; prints the address once it accepts connections.

    A request must name `host`, localhost, the address it came to or one of `allowed_hosts` as its
    host; '*' among those lets every name pass. The other options are those of `create_app`.
    """
    with _listen(host, port) as listening:
        hosts = {host, "localhost", *allowed_hosts}
        app = create_app(
            run,
            items=items,
            compare=compare,
            store=store,
            share=share,
            token=token,
            admin_token=admin_token,
            public_reading=public_reading,
            cors=cors,
            limits=limits,
            include_seen=include_seen,
            allowed_hosts=None if "*" in hosts else hosts,
            local=is_loopback(listening.getsockname()[0]),
            clock=clock,
        )
        service: Service = app.state.service
        service.after_load = freeze_loaded_objects
        freeze_loaded_objects()
        # From here on a connection waits instead of being refused, so the line below is true.
        listening.listen(2048)
        for served in service.runs.values():
            print(f"{served.label}: {served.fitted}", file=sys.stderr, flush=True)
        print(app.state.access.sentence(), file=sys.stderr, flush=True)
        address, bound_port = listening.getsockname()[:2]
        shown = f"[{address}]" if ":" in address else address
        print(
            f"serving {run} on http://{shown}:{bound_port} (Ctrl-C stops)", flush=True
        )
        settings = uvicorn.Config(
            app,
            http=BoundedConnection,
            ws="none",
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_keep_alive=service.limits.keep_alive_seconds,
            timeout_graceful_shutdown=service.limits.shutdown_seconds,
        )
        logging.getLogger("uvicorn.error").addFilter(LogRateLimit())
        server = TimedServer(settings, service.limits, service.metrics)
        server.run(sockets=[listening])


def freeze_loaded_objects() -> None:
    """Exclude what is loaded from garbage collection, which would stop requests for 0.25 s."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _listen(host: str, port: int) -> socket.socket:
    """Bind the port before the model is loaded, so that a port in use is known at once."""
    if not 0 <= port <= 65535:
        raise ConfigError(f"--port must be in 0 .. 65535, not {port}")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # asyncio turns Nagle's algorithm off only where the protocol is named: without it every
        # answer, sent as head and body, would wait 40 ms for the client's acknowledgement.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except OSError as error:
        reason = error.strerror or error
        raise ConfigError(f"cannot listen on {host}:{port}: {reason}") from error
    return listening


class LimitedState(ServerState):
    """The state that uvicorn hands to every connection, with our limits."""

    def __init__(self, limits: ServeLimits, metrics: Metrics) -> None:
        super().__init__()
        self.limits = limits
        self.metrics = metrics
        self.rejected: deque[BoundedConnection] = deque()
        """Connections beyond a limit, the oldest first."""


class BoundedConnection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """uvicorn's protocol; beyond a limit it answers only /health, and it bounds what it reads."""

    app: ASGIApp
    server_state: LimitedState
    _is_admitted = False
    _part: tuple[object, bool] | None = None
    """The request that is being received, and whether its headers are awaited."""
    _received = 0
    """Bytes of that part."""
    _unparsed = b""
    """What came while a complete request was being answered."""
    _is_paused = False

    @property
    def _address(self) -> str | None:
        """Address of the client."""
        return self.client[0] if self.client else None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        state = self.server_state
        limits = state.limits
        addresses = [
            connection._address
            for connection in self.connections
            if connection._is_admitted
        ]
        is_full = len(addresses) >= limits.connections
        same_client = addresses.count(self._address)
        is_full_for_client = same_client >= limits.connections_per_client
        if not is_full and not is_full_for_client:
            self._is_admitted = True
            return
        # uvicorn's `limit_concurrency` would stop /health as well.
        state.metrics.refused.inc()
        self.app = _only_health(self.app, 429 if is_full_for_client else 503)
        state.rejected.append(self)
        if len(state.rejected) > MAX_REJECTED:
            state.rejected.popleft().transport.abort()

    def data_received(self, data: bytes) -> None:
        received = self._unparsed + data
        start = 0
        while (
            start < len(received)
            and not self.transport.is_closing()
            and not _is_answering(self)
        ):
            self._parse(received[start : start + _PARSED_BYTES])
            start += _PARSED_BYTES
        self._unparsed = received[start:]
        if self.transport.is_closing():
            self._unparsed = b""
        elif self._unparsed:
            # This bypasses uvicorn's flow control, which reads on when the application does.
            self.flow.resume_reading()
            self.transport.pause_reading()
            self._is_paused = True
        elif self._is_paused:
            self.transport.resume_reading()
            self._is_paused = False

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._unparsed:
            self.data_received(b"")

    def _parse(self, data: bytes) -> None:
        """Let uvicorn parse a piece, and abort a connection that sends too much."""
        cycle = self.cycle
        awaits_headers = _awaits_headers(self)
        part = (cycle, awaits_headers)
        if part != self._part:
            self._part = part
            self._received = 0
        super().data_received(data)
        if self.cycle is not cycle:
            return
        # All bytes count, because the extension of a chunk is no part of its body.
        self._received += len(data)
        limit = _MAX_HEADER_BYTES
        if not awaits_headers:
            limit += 2 * self.server_state.limits.body_bytes
        if self._received > limit:
            self.transport.abort()


def _only_health(app: ASGIApp, status: int) -> ASGIApp:
    """Return the application for a connection too many."""

    async def answer_health(scope: Scope, receive: Receive, send: Send) -> None:
        if is_health(scope):
            await app(scope, receive, send)
            return
        message = "too many connections: try again in a moment"
        answer = refusal(status, message, {"retry-after": "1"})
        await answer(scope, receive, send)

    return answer_health


class TimedServer(uvicorn.Server):
    """uvicorn's server; each second it looks for connections that keep it waiting."""

    def __init__(
        self,
        config: uvicorn.Config,
        limits: ServeLimits,
        metrics: Metrics,
    ) -> None:
        super().__init__(config)
        state = LimitedState(limits, metrics)
        self.server_state = state
        self._limits = limits
        metrics.connections.set_function(lambda: len(state.connections))
        self._since: dict[_HttpConnection, tuple[object, float]] = {}
        """What each connection waits for, and since when."""

    async def on_tick(self, counter: int) -> bool:
        """Look for late connections each second; uvicorn calls this ten times a second."""
        if counter % 10 == 0:
            self.close_late()
        return await super().on_tick(counter)

    def close_late(self) -> None:
        """Abort connections that have been waiting for the same thing for too long."""
        now = time.monotonic()
        before = self._since
        self._since = {}
        for connection in list(self.server_state.connections):
            state = self._waiting_state(connection)
            if state is None:
                continue
            waits_for, limit = state
            last, since = before.get(connection, (None, now))
            if last is not waits_for:
                since = now
            if now - since >= limit:
                connection.transport.abort()
            else:
                self._since[connection] = (waits_for, since)

    def _waiting_state(
        self, connection: _HttpConnection
    ) -> tuple[object, float] | None:
        """Return what a connection waits for and how long it may, or None if it does not wait."""
        limits = self._limits
        if connection.transport.is_closing():
            # It was closed, but the client has not read the answer.
            return "closing", limits.keep_alive_seconds
        if _awaits_headers(connection):
            if connection.timeout_keep_alive_task is not None:
                # uvicorn watches the time itself.
                return None
            return connection.cycle, limits.header_seconds
        if connection.flow.write_paused:
            return "writing", limits.keep_alive_seconds
        return None


def _is_answering(connection: _HttpConnection) -> bool:
    """Whether the newest request is complete, but not answered."""
    cycle = connection.cycle
    return cycle is not None and not cycle.more_body and not cycle.response_complete


def _awaits_headers(connection: _HttpConnection) -> bool:
    """Whether no request is being answered, so that headers come next."""
    return connection.cycle is None or bool(connection.cycle.response_complete)
