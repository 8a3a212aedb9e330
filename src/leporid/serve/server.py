"""One uvicorn process for one application.

Connections that are too many, send too slowly or too much, or read no answer are closed.
"""

import gc
import logging
import socket
import sys
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from leporid.errors import ConfigError
from leporid.serve.access import is_loopback
from leporid.serve.app import create_app
from leporid.serve.middleware import LogRateLimit, Metrics, is_health, refusal
from leporid.serve.schemas import ServeLimits

_HEADER_BYTES = 1 << 16
_PARSED_BYTES = 1 << 10
"""Of what has come, at once: it may be full of requests, of which only the first is begun."""
_CROWDED = 64
"""Connections beyond a limit that are held until they ask; the oldest gives way to the next."""


def serve_forever(
    run: str | Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    allowed_hosts: Iterable[str] = (),
    **options: Any,
) -> None:
    """Serve until interrupted; prints the address once it accepts connections.

    A request must name `host`, localhost, the address it came to or one of `allowed_hosts` as its
    host; '*' among those lets every name pass. `options` are those of `create_app`.
    """
    with _listen(host, port) as listening:
        hosts = {host, "localhost", *allowed_hosts}
        local = is_loopback(listening.getsockname()[0])
        names = None if "*" in hosts else hosts
        app = create_app(run, allowed_hosts=names, local=local, **options)
        service = app.state.service
        service.after_load = _settle
        _settle()
        # From here on a connection waits instead of being refused, so the line below is true.
        listening.listen(2048)
        address = listening.getsockname()
        for served in service.run_infos():
            print(f"{served['label']}: {served['fitted']}", file=sys.stderr, flush=True)
        print(app.state.access.sentence(), file=sys.stderr, flush=True)
        shown = f"[{address[0]}]" if ":" in address[0] else address[0]
        print(
            f"serving {run} on http://{shown}:{address[1]} (Ctrl-C stops)", flush=True
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
        TimedServer(settings, service.limits, service.metrics).run(sockets=[listening])


def _settle() -> None:
    """Take what is loaded out of garbage collection, which would stop requests for 0.25 s."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _listen(host: str, port: int) -> socket.socket:
    """Taken before the model is loaded: a port in use is known at once."""
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
        raise ConfigError(
            f"cannot listen on {host}:{port}: {error.strerror or error}"
        ) from error
    return listening


class BoundedConnection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """uvicorn's protocol; beyond a limit it answers only /health, and it bounds what it reads."""

    _admitted = False
    _part: Any = None  # of which request, and whether its headers or its body
    _received = 0  # bytes of that part
    _held = b""  # what came while a request that had come whole was being answered
    _is_paused = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        state, limits = self.server_state, self.server_state.limits
        others = [
            link.client and link.client[0]
            for link in self.connections
            if link._admitted
        ]
        own = sum(address == (self.client and self.client[0]) for address in others)
        if len(others) < limits.connections and own < limits.connections_per_client:
            self._admitted = True
            return
        # Not uvicorn's `limit_concurrency`, which stops /health as well.
        state.metrics.refused.inc()
        status = 429 if own >= limits.connections_per_client else 503
        self.app: Any = _only_health(self.app, status)
        state.crowded.append(self)
        if len(state.crowded) > _CROWDED:
            state.crowded.popleft().transport.abort()

    def data_received(self, data: bytes) -> None:
        came, parsed = self._held + data, 0
        while (
            parsed < len(came)
            and not self.transport.is_closing()
            and not _is_answering(self)
        ):
            self._parse(came[parsed : parsed + _PARSED_BYTES])
            parsed += _PARSED_BYTES
        self._held = came[parsed:]
        if self.transport.is_closing():
            self._held = b""
        elif self._held:
            # Past uvicorn's own flow control, which reads on as soon as the application does.
            self.flow.resume_reading()
            self.transport.pause_reading()
            self._is_paused = True
        elif self._is_paused:
            self.transport.resume_reading()
            self._is_paused = False

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._held:
            self.data_received(b"")

    def _parse(self, data: bytes) -> None:
        part = before, between = self.cycle, _between_requests(self)
        if part != self._part:
            self._part, self._received = part, 0
        super().data_received(data)
        if self.cycle is before:
            # All that comes counts: the extension of a chunk is no part of its body.
            self._received += len(data)
            body = 0 if between else 2 * self.server_state.limits.body_bytes
            if self._received > _HEADER_BYTES + body:
                self.transport.abort()


def _only_health(app: Any, status: int) -> Any:
    """The application for a connection too many."""

    async def crowded(scope: Any, receive: Any, send: Any) -> None:
        text, again = (
            "too many connections: try again in a moment",
            {"retry-after": "1"},
        )
        answer = app if is_health(scope) else refusal(status, text, again)
        await answer(scope, receive, send)

    return crowded


class TimedServer(uvicorn.Server):
    """uvicorn's server; each second it looks for connections that keep it waiting."""

    def __init__(
        self, config: uvicorn.Config, limits: ServeLimits, metrics: Metrics
    ) -> None:
        super().__init__(config)
        self._limits = limits
        state: Any = self.server_state  # what uvicorn hands to every connection
        state.limits, state.metrics, state.crowded = limits, metrics, deque()
        metrics.connections.set_function(lambda: len(state.connections))
        self._since: dict[
            Any, tuple[Any, float]
        ] = {}  # connection: its state, and since when

    async def on_tick(self, counter: int) -> bool:
        """Called ten times a second by uvicorn."""
        if counter % 10 == 0:
            self.close_late()
        return await super().on_tick(counter)

    def close_late(self) -> None:
        """Abort connections that have been in the same state for too long."""
        now, before, self._since = time.monotonic(), self._since, {}
        links: list[Any] = list(self.server_state.connections)
        for link in links:
            state: Any = None
            if link.transport.is_closing():
                # Closed, but the answer is still to be read.
                state, limit = "closing", float(self._limits.keep_alive_seconds)
            elif _between_requests(link):
                if link.timeout_keep_alive_task is not None:  # uvicorn's own clock runs
                    continue
                state, limit = link.cycle, self._limits.header_seconds
            elif link.flow.write_paused:
                state, limit = "writing", float(self._limits.keep_alive_seconds)
            else:
                continue
            last, since = before.get(link, (None, now))
            if last is not state:
                since = now
            if now - since >= limit:
                link.transport.abort()
            else:
                self._since[link] = state, since


def _is_answering(link: Any) -> bool:
    """Whether the newest request has come whole, but not been answered."""
    cycle = link.cycle
    return cycle is not None and not cycle.more_body and not cycle.response_complete


def _between_requests(link: Any) -> bool:
    """Whether no request is being answered: headers are awaited."""
    return link.cycle is None or bool(link.cycle.response_complete)
