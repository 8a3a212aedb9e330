"""The outermost layer: size of the body, time and count of every request, safe headers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any

from fastapi.responses import JSONResponse

from leporid.serve.metrics import Metrics
from leporid.serve.schemas import ServeLimits
from leporid.serve.seldom import Seldom

_LOG = logging.getLogger(__name__)
_LOG.addFilter(Seldom())

_Message = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]

_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (
        b"content-security-policy",
        b"default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'",
    ),
]


class Guard:
    """Reads a bounded body in bounded time before anything else sees the request.

    `hosts` are the names under which the server may be asked, besides the address that the
    connection came to; None lets every name pass.
    """

    def __init__(
        self, app: Any, *, limits: ServeLimits, metrics: Metrics, hosts: Collection[str] | None
    ) -> None:
        self._app, self._limits, self._metrics, self._hosts = app, limits, metrics, hosts

    async def __call__(self, scope: dict[str, Any], receive: _Receive, send: _Send) -> None:
        """One ASGI call."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        status = 0

        async def counted(message: _Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), *_HEADERS]
            await send(message)

        try:
            body = await self._body(scope, receive)
            if isinstance(body, JSONResponse):
                await body(scope, receive, counted)
            else:
                await self._app(scope, _replayed(body, receive), counted)
        except Exception as error:
            # Not passed on: whoever starts the server would log a traceback per request.
            _LOG.error("a request failed", exc_info=error)
            if not status:
                text = "the server could not answer; its log says why"
                await _refusal(500, text)(scope, receive, counted)
        finally:
            route = scope.get("route")
            path = getattr(route, "path", None) or "other"
            method = scope["method"] if route is not None else "other"
            self._metrics.request(path, method, status or 500, time.perf_counter() - began)

    async def _body(self, scope: dict[str, Any], receive: _Receive) -> bytes | JSONResponse:
        """The whole body, or what is answered where there is something wrong with it."""
        headers = dict(scope["headers"])
        if self._hosts is not None:
            host = _host(headers.get(b"host", b"").decode("latin-1"))
            if host not in self._hosts and host != (scope.get("server") or ("",))[0]:
                text = f"this server is not called {host!r}: start it with --allowed-hosts {host}"
                return _refusal(400, text)
        most = self._limits.body_bytes
        too_long = 413, f"the body is larger than {most} bytes: send fewer at once"
        announced = headers.get(b"content-length", b"0")
        if announced.isdigit() and int(announced[:20]) > most:
            return _refusal(*too_long)
        parts, size, more = [], 0, True
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                while more:
                    message = await receive()
                    if message["type"] != "http.request":
                        break
                    part = message.get("body", b"")
                    parts.append(part)
                    size += len(part)
                    if size > most:
                        return _refusal(*too_long)
                    more = message.get("more_body", False)
        except TimeoutError:
            return _refusal(408, "the body did not come in time: send it at once")
        return b"".join(parts)


def _refusal(status: int, text: str) -> JSONResponse:
    """One sentence, and the end of the connection."""
    return JSONResponse({"error": text}, status, {"connection": "close"})


def _host(header: str) -> str:
    """The name or address in a Host header, without the port, in lower case."""
    name = header[1:].partition("]")[0] if header.startswith("[") else header.partition(":")[0]
    return name.lower()


def _replayed(body: bytes, receive: _Receive) -> _Receive:
    """`receive` for the application: the body that was read already, then what comes after."""
    first: list[_Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> _Message:
        return first.pop() if first else await receive()

    return replay
