"""Connections that are too many, send too slowly or too much, or read no answer: closed."""

from __future__ import annotations

import time
from typing import Any

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from leporid.serve.metrics import Metrics
from leporid.serve.schemas import ServeLimits

_HEADER_BYTES = 1 << 16
_FULL_BODY = b'{"error":"too many connections: try again in a moment"}'
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n"
    b"connection: close\r\ncontent-length: %d\r\n\r\n%s" % (len(_FULL_BODY), _FULL_BODY)
)


class BoundedConnection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """uvicorn's protocol; it refuses connections beyond the limit, and headers beyond 64 KiB."""

    _header_bytes = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        # Here rather than by uvicorn's `limit_concurrency`, which counts with the first request.
        if len(self.connections) > self.server_state.limits.connections:
            self.server_state.metrics.refused.inc()
            transport.write(_FULL)
            transport.close()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._header_bytes = 0
        elif _between_requests(self):
            self._header_bytes += len(data)
            if self._header_bytes > _HEADER_BYTES:
                self.transport.abort()


class TimedServer(uvicorn.Server):
    """uvicorn's server; each second it looks for connections that keep it waiting."""

    def __init__(self, config: uvicorn.Config, limits: ServeLimits, metrics: Metrics) -> None:
        super().__init__(config)
        self._limits = limits
        state: Any = self.server_state  # what uvicorn hands to every connection
        state.limits, state.metrics = limits, metrics
        metrics.connections.set_function(lambda: len(state.connections))
        self._since: dict[Any, tuple[Any, float]] = {}  # connection: its state, and since when

    async def on_tick(self, counter: int) -> bool:
        """Called ten times a second by uvicorn."""
        if counter % 10 == 0:
            self.close_late()
        return await super().on_tick(counter)

    def close_late(self) -> None:
        """Cut off whoever has been in the same state for too long."""
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


def _between_requests(link: Any) -> bool:
    """Whether no request is being answered: headers are awaited."""
    return link.cycle is None or bool(link.cycle.response_complete)
