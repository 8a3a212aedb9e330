"""The outermost layer: size of the body, time and count of every request, safe headers."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from fastapi.responses import JSONResponse

from leporid.serve.metrics import Metrics

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
    """Reads at most `body_bytes` of a request before anything else sees it."""

    def __init__(self, app: Any, *, body_bytes: int, metrics: Metrics) -> None:
        self._app, self._body_bytes, self._metrics = app, body_bytes, metrics

    async def __call__(self, scope: dict[str, Any], receive: _Receive, send: _Send) -> None:
        """One ASGI call."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        status = 500

        async def counted(message: _Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), *_HEADERS]
            await send(message)

        try:
            body = await self._body(scope, receive)
            if body is None:
                text = f"the body is larger than {self._body_bytes} bytes: send fewer at once"
                refusal = JSONResponse({"error": text}, 413, {"connection": "close"})
                await refusal(scope, receive, counted)
            else:
                await self._app(scope, _replayed(body, receive), counted)
        finally:
            route = scope.get("route")
            path = getattr(route, "path", None) or "other"
            method = scope["method"] if route is not None else "other"
            self._metrics.request(path, method, status, time.perf_counter() - began)

    async def _body(self, scope: dict[str, Any], receive: _Receive) -> bytes | None:
        """The whole body; None where it is too long."""
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if announced.isdigit() and int(announced[:20]) > self._body_bytes:
            return None
        parts, size, more = [], 0, True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                break
            part = message.get("body", b"")
            parts.append(part)
            size += len(part)
            if size > self._body_bytes:
                return None
            more = message.get("more_body", False)
        return b"".join(parts)


def _replayed(body: bytes, receive: _Receive) -> _Receive:
    """`receive` for the application: the body that was read already, then what comes after."""
    first: list[_Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> _Message:
        return first.pop() if first else await receive()

    return replay
