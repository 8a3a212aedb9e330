"""The outer layers of the application: they count requests and decide which are let in."""

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from traceback import extract_tb

import psutil
from fastapi.responses import JSONResponse
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leporid.serve.access import Access
from leporid.serve.batching import Budget, ClientOverloadedError, Turns
from leporid.serve.schemas import ServeLimits

POLICY = (
    "default-src 'self'; img-src 'self' data: {}; base-uri 'none'; form-action 'none'"
)
"""Content-Security-Policy: what our pages may load, with a place for the hosts of pictures."""
_BODY_BYTES_PER_WORK = 10
"""Bytes of a body per unit of work: parsing 1 MiB delays everybody for 25 ms."""
_METRICS_BYTES_PER_WORK = 100
"""Bytes of the text for Prometheus per unit of work: 12,700 bytes take 1.3 ms."""
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
]
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_LOG_SECONDS = 60.0
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class LogRateLimit(logging.Filter):
    """Passes a message once a minute, with the number of those suppressed before it."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[object, tuple[float, int]] = {}
        """Time of the last message that passed, and the number suppressed since, by message."""

    def filter(self, record: logging.LogRecord) -> bool:
        kind, _, trace = record.exc_info or (None, None, None)
        line_that_raised = str(extract_tb(trace, -1))
        key = (record.msg, kind, line_that_raised)
        last, suppressed = self._last.get(key, (-_LOG_SECONDS, 0))
        now = time.monotonic()
        if now - last < _LOG_SECONDS:
            self._last[key] = last, suppressed + 1
            return False
        self._last[key] = now, 0
        if suppressed:
            record.msg = (
                f"{record.msg} ({suppressed} more like this since it was last written)"
            )
        return True


_LOG = logging.getLogger(__name__)
_LOG.addFilter(LogRateLimit())


class Metrics:
    """The counters of one application, in a registry of its own."""

    def __init__(self, **gauges: Callable[[], float]) -> None:
        """Create the counters; `gauges` return their value whenever the metrics are read."""
        registry = CollectorRegistry()
        self._registry = registry
        self._text_length = 10_000
        self._requests = Counter(
            "leporid_requests",
            "Answered requests.",
            ("path", "method", "status"),
            registry=registry,
        )
        self._seconds = Histogram(
            "leporid_request_seconds",
            "Time to answer.",
            ["path"],
            buckets=_BUCKETS,
            registry=registry,
        )
        self.events = Counter("leporid_events", "Events kept.", registry=registry)
        self.impressions = Counter(
            "leporid_impressions", "Impressions kept.", registry=registry
        )
        self.lost_impressions = Counter(
            "leporid_lost_impressions",
            "Impressions that the store refused.",
            registry=registry,
        )
        self.reloads = Counter(
            "leporid_reloads", "Runs loaded again.", registry=registry
        )
        self.connections = Gauge(
            "leporid_connections", "Open connections.", registry=registry
        )
        self.refused = Counter(
            "leporid_refused_connections",
            "Closed because there were too many.",
            registry=registry,
        )
        resident = Gauge(
            "process_resident_memory_bytes", "Resident memory.", registry=registry
        )
        resident.set_function(lambda: psutil.Process().memory_info().rss)
        for name, value in gauges.items():
            words = name.replace("_", " ").capitalize()
            gauge = Gauge(f"leporid_{name}", f"{words}.", registry=registry)
            gauge.set_function(value)

    def request(self, path: str, method: str, status: int, seconds: float) -> None:
        """Count an answered request; `path` is the pattern of its route, so there are few paths."""
        self._requests.labels(path, method, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    @property
    def cost(self) -> int:
        """Work of `text`, estimated from the length that it had last."""
        return self._text_length // _METRICS_BYTES_PER_WORK

    def text(self) -> bytes:
        """Return all metrics in the text format that Prometheus reads."""
        text = generate_latest(self._registry)
        self._text_length = len(text)
        return text


@dataclass
class RequestLog:
    """Names, counts and times every request, and adds security headers to its answer."""

    app: ASGIApp
    metrics: Metrics
    hosts: Callable[[], str]
    """Returns the hosts of pictures."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        status = 0
        sent_id = dict(scope["headers"]).get(b"x-request-id", b"")
        is_valid = _REQUEST_ID.fullmatch(sent_id)
        request_id = sent_id.decode() if is_valid else secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = request_id
        policy = POLICY.format(self.hosts())
        headers = [
            *_HEADERS,
            (b"content-security-policy", policy.encode()),
            (b"x-request-id", request_id.encode()),
        ]

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), *headers]
            await send(message)

        try:
            await self.app(scope, receive, send_with_headers)
        except Exception as error:
            # It is not raised again, because uvicorn would log a traceback per request.
            _LOG.error("request %s failed", request_id, exc_info=error)
            if not status:
                answer = refusal(500, "the server could not answer; its log says why")
                await answer(scope, receive, send_with_headers)
        finally:
            # All unknown paths and methods share one label, so there are few labels.
            route = scope.get("route")
            path = route.path if isinstance(route, Route) else "other"
            method = "other" if path == "other" or status == 405 else scope["method"]
            seconds = time.perf_counter() - began
            self.metrics.request(path, method, status or 500, seconds)


@dataclass
class RequestGuard:
    """Refuses requests that may not read, and reads a bounded body in bounded time.

    The budget pays for bodies. Requests of one address begin one after another; requests for the
    health have a queue of their own.
    """

    app: ASGIApp
    limits: ServeLimits
    access: Access
    hosts: Collection[str] | None
    """Names that a Host header may have besides the connection's address; None allows all."""
    budget: Budget
    turns: Turns = field(default_factory=Turns)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        await self.turns.wait(f"{client_of(scope)} {is_health(scope)}")
        headers = dict(scope["headers"])
        refused = self._check_host(scope, headers) or self._check_token(scope, headers)
        try:
            result = refused or await self._read_body(scope, headers, receive)
        except ClientOverloadedError as error:
            result = refusal(429, str(error), {"retry-after": "1"})
        if isinstance(result, JSONResponse):
            await result(scope, receive, send)
        else:
            await self.app(scope, _replayed(result, receive), send)

    def _check_host(
        self,
        scope: Scope,
        headers: dict[bytes, bytes],
    ) -> JSONResponse | None:
        """Return the refusal of a request for another host or for several, or None."""
        count = sum(name == b"host" for name, _ in scope["headers"])
        if count > 1:
            # RFC 9112, 3.2: a proxy before us may have believed the other one.
            return refusal(400, f"the request has {count} Host headers: send one")
        if count == 0 and scope.get("http_version") == "1.1":
            return refusal(400, "the request has no Host header: send one")
        if self.hosts is None:
            return None
        host = _host_name(headers.get(b"host", b"").decode("latin-1"))
        server_address = (scope.get("server") or ("",))[0]
        if host in self.hosts or host == server_address:
            return None
        message = (
            f"this server is not called {host!r}: start it with --allowed-hosts {host}"
        )
        return refusal(400, message)

    def _check_token(
        self,
        scope: Scope,
        headers: dict[bytes, bytes],
    ) -> JSONResponse | None:
        """Return the refusal of a request without a token that it needs, or None."""
        # A load balancer asks for the health of a server, and has no token.
        if is_health(scope) or self.access.may_read(headers.get(b"authorization", b"")):
            return None
        # This makes a browser ask its user for a name and a password.
        challenge = {
            "www-authenticate": 'Bearer, Basic realm="leporid: the token as password"'
        }
        return refusal(401, "the token is missing or wrong", challenge)

    async def _read_body(
        self,
        scope: Scope,
        headers: dict[bytes, bytes],
        receive: Receive,
    ) -> bytes | JSONResponse:
        """Return the whole body, or the refusal of a body that is too long or too slow."""
        limit = self.limits.body_bytes
        too_long = f"the body is larger than {limit} bytes: send fewer at once"
        content_length = headers.get(b"content-length", b"")
        announced = int(content_length[:20]) if content_length.isdigit() else 0
        if announced > limit:
            return refusal(413, too_long)
        client = client_of(scope)
        is_free = is_health(scope)
        if not is_free:
            self.budget.charge(client, 1 + announced // _BODY_BYTES_PER_WORK)
        body = bytearray()
        is_complete = False
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                while not is_complete:
                    message = await receive()
                    if message["type"] != "http.request":
                        break
                    body += message.get("body", b"")
                    if len(body) > limit:
                        return refusal(413, too_long)
                    is_complete = not message.get("more_body", False)
        except TimeoutError:
            return refusal(408, "the body did not come in time: send it at once")
        # A body in chunks was not announced.
        if len(body) > announced and not is_free:
            self.budget.charge(client, len(body) // _BODY_BYTES_PER_WORK)
        return bytes(body)


def is_health(scope: Scope) -> bool:
    """Whether this is GET /health, which no limit stops."""
    return bool(scope["path"].removeprefix(scope.get("root_path", "")) == "/health")


def client_of(scope: Scope) -> str:
    """Return the client's address; behind a proxy on this machine, the one the proxy names."""
    return (scope.get("client") or ("",))[0]


def refusal(
    status: int,
    message: str,
    headers: dict[str, str] | None = None,
) -> JSONResponse:
    """Return an answer that ends the connection, because a body may still be on its way."""
    all_headers = {"connection": "close", **(headers or {})}
    return JSONResponse({"error": message}, status, all_headers)


def _host_name(header: str) -> str:
    """Return the name or address in a Host header, without the port, in lower case."""
    if header.startswith("["):
        name, _, _ = header[1:].partition("]")
    else:
        name, _, _ = header.partition(":")
    return name.lower()


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that delivers the body already read, then what comes after it."""
    message: Message = {"type": "http.request", "body": body, "more_body": False}
    unread = [message]

    async def replay() -> Message:
        return unread.pop() if unread else await receive()

    return replay
