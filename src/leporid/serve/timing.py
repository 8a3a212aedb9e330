"""Connections that are too many, send too slowly or too much, or read no answer: closed."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from leporid.serve.middleware import is_health, refusal
from leporid.serve.monitoring import Metrics
from leporid.serve.schemas import ServeLimits

_HEADER_BYTES = 1 << 16
_CROWDED = 64
"""Connections beyond a limit that are held until they ask; the oldest gives way to the next."""


class BoundedConnection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """uvicorn's protocol; beyond a limit it answers only /health, and it bounds what it reads."""

    _admitted = False
    _part: Any = None  # of which request, and whether its headers or its body
    _received = 0  # bytes of that part

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        state, limits = self.server_state, self.server_state.limits
        others = [link.client and link.client[0] for link in self.connections if link._admitted]
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
        if self.transport.is_closing():
            return
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
        text, again = "too many connections: try again in a moment", {"retry-after": "1"}
        answer = app if is_health(scope) else refusal(status, text, again)
        await answer(scope, receive, send)

    return crowded


class TimedServer(uvicorn.Server):
    """uvicorn's server; each second it looks for connections that keep it waiting."""

    def __init__(self, config: uvicorn.Config, limits: ServeLimits, metrics: Metrics) -> None:
        super().__init__(config)
        self._limits = limits
        state: Any = self.server_state  # what uvicorn hands to every connection
        state.limits, state.metrics, state.crowded = limits, metrics, deque()
        metrics.connections.set_function(lambda: len(state.connections))
        self._since: dict[Any, tuple[Any, float]] = {}  # connection: its state, and since when

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


def _between_requests(link: Any) -> bool:
    """Whether no request is being answered: headers are awaited."""
    return link.cycle is None or bool(link.cycle.response_complete)
