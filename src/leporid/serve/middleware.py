"""The outer layers: what is counted of every request, and which are let in."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection

from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leporid.serve.access import Access
from leporid.serve.batching import Budget, ClientOverloadedError
from leporid.serve.monitoring import LogRateLimit, Metrics, request_id
from leporid.serve.schemas import ServeLimits

_LOG = logging.getLogger(__name__)
_LOG.addFilter(LogRateLimit())

POLICY = "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'"
"""What our pages may load."""
_BYTES = 10
"""Of a body, per unit of work: parsing 1 MiB holds up everybody for 25 ms."""
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", POLICY.encode()),
]


class RequestLog:
    """Names, counts and times every request, and puts safe headers on its answer."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        status = 0
        identity = request_id(dict(scope["headers"]).get(b"x-request-id"))
        scope.setdefault("state", {})["request_id"] = identity
        headers = [*_HEADERS, (b"x-request-id", identity.encode())]

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), *headers]
            await send(message)

        try:
            await self._app(scope, receive, counted)
        except Exception as error:
            # Not raised: uvicorn would log a traceback per request.
            _LOG.error("request %s failed", identity, exc_info=error)
            if not status:
                text = "the server could not answer; its log says why"
                await refusal(500, text)(scope, receive, counted)
        finally:
            # All unknown paths and methods share one label, so there are few labels.
            path = getattr(scope.get("route"), "path", "other")
            method = "other" if path == "other" or status == 405 else scope["method"]
            self._metrics.request(path, method, status or 500, time.perf_counter() - began)


class Guard:
    """Lets in who may read, and reads a bounded body in bounded time, which the budget pays for.

    `hosts` are the names under which the server may be asked, besides the address that the
    connection came to; None lets every name pass.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: ServeLimits,
        access: Access,
        hosts: Collection[str] | None,
        budget: Budget,
    ) -> None:
        self._app, self._limits, self._access, self._hosts = app, limits, access, hosts
        self._budget = budget

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        try:
            body = self._refused(scope, headers) or await self._body(scope, headers, receive)
        except ClientOverloadedError as error:
            body = refusal(429, str(error), {"retry-after": "1"})
        if isinstance(body, JSONResponse):
            await body(scope, receive, send)
        else:
            await self._app(scope, _replayed(body, receive), send)

    def _refused(self, scope: Scope, headers: dict[bytes, bytes]) -> JSONResponse | None:
        """The answer to a request without a token, or for another host."""
        if self._hosts is not None:
            host = _host(headers.get(b"host", b"").decode("latin-1"))
            if host not in self._hosts and host != (scope.get("server") or ("",))[0]:
                text = f"this server is not called {host!r}: start it with --allowed-hosts {host}"
                return refusal(400, text)
        # A balancer asks for the health of a server, and has no token.
        if is_health(scope) or self._access.may_read(headers.get(b"authorization", b"")):
            return None
        # A browser asks its user for a name and a password then.
        challenge = {"www-authenticate": 'Bearer, Basic realm="leporid: the token as password"'}
        return refusal(401, "the token is missing or wrong", challenge)

    async def _body(
        self, scope: Scope, headers: dict[bytes, bytes], receive: Receive
    ) -> bytes | JSONResponse:
        """The whole body, or what is answered where there is something wrong with it."""
        most, client = self._limits.body_bytes, client_of(scope)
        too_long = 413, f"the body is larger than {most} bytes: send fewer at once"
        length = headers.get(b"content-length", b"")
        announced = int(length[:20]) if length.isdigit() else 0
        if announced > most:
            return refusal(*too_long)
        free = is_health(scope)
        if not free:
            self._budget.charge(client, 1 + announced // _BYTES)
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
                        return refusal(*too_long)
                    more = message.get("more_body", False)
        except TimeoutError:
            return refusal(408, "the body did not come in time: send it at once")
        if size > announced and not free:  # in chunks
            self._budget.charge(client, size // _BYTES)
        return b"".join(parts)


def is_health(scope: Scope) -> bool:
    """Whether this is the request that no limit stops."""
    return bool(scope["path"].removeprefix(scope.get("root_path", "")) == "/health")


def client_of(scope: Scope) -> str:
    """The address that asks; behind a proxy on this machine, the one the proxy names."""
    return (scope.get("client") or ("",))[0]


def refusal(status: int, text: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """One sentence, and the end of the connection: a body may still be on its way."""
    return JSONResponse({"error": text}, status, {"connection": "close", **(headers or {})})


def _host(header: str) -> str:
    """The name or address in a Host header, without the port, in lower case."""
    name = header[1:].partition("]")[0] if header.startswith("[") else header.partition(":")[0]
    return name.lower()


def _replayed(body: bytes, receive: Receive) -> Receive:
    """`receive` for the application: the body that was read already, then what comes after."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return first.pop() if first else await receive()

    return replay
