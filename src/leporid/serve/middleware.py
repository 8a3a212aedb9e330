"""The outer layers: what is counted of every request, and which are let in."""

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
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leporid.serve.access import Access
from leporid.serve.batching import Budget, ClientOverloadedError, Turns
from leporid.serve.schemas import ServeLimits

POLICY = (
    "default-src 'self'; img-src 'self' data: {}; base-uri 'none'; form-action 'none'"
)
"""What our pages may load; pictures from the hosts that the table of items names, too."""
_BYTES = 10
"""Of a body, per unit of work: parsing 1 MiB holds up everybody for 25 ms."""
_METRICS_BYTES = 100
"""Of the text for Prometheus, per unit of work: 12,700 of them take 1.3 ms."""
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
]
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_SECONDS = 60.0
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class LogRateLimit(logging.Filter):
    """Passes a message once a minute, with the number of those suppressed before it."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[object, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind, _, trace = record.exc_info or (None, None, None)
        key = record.msg, kind, str(extract_tb(trace, -1))  # the line that raised it
        last, suppressed = self._last.get(key, (-_SECONDS, 0))
        now = time.monotonic()
        if now - last < _SECONDS:
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
        """`gauges` are asked for their value whenever the metrics are read."""
        self._registry = own = CollectorRegistry()
        self._length = 10_000
        labels = ("path", "method", "status")
        self._requests = Counter(
            "leporid_requests", "Answered requests.", labels, registry=own
        )
        self._seconds = Histogram(
            "leporid_request_seconds",
            "Time to answer.",
            ["path"],
            buckets=_BUCKETS,
            registry=own,
        )
        self.events = Counter("leporid_events", "Events kept.", registry=own)
        self.impressions = Counter(
            "leporid_impressions", "Impressions kept.", registry=own
        )
        self.lost_impressions = Counter(
            "leporid_lost_impressions",
            "Impressions that the store refused.",
            registry=own,
        )
        self.reloads = Counter("leporid_reloads", "Runs loaded again.", registry=own)
        self.connections = Gauge(
            "leporid_connections", "Open connections.", registry=own
        )
        self.refused = Counter(
            "leporid_refused_connections",
            "Closed because there were too many.",
            registry=own,
        )
        resident = Gauge(
            "process_resident_memory_bytes", "Resident memory.", registry=own
        )
        resident.set_function(lambda: psutil.Process().memory_info().rss)
        for name, value in gauges.items():
            about = name.replace("_", " ").capitalize()
            Gauge(f"leporid_{name}", f"{about}.", registry=own).set_function(value)

    def request(self, path: str, method: str, status: int, seconds: float) -> None:
        """Count one answered request; `path` is the route's pattern, so there are few of them."""
        self._requests.labels(path, method, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    @property
    def cost(self) -> int:
        """Work of `text`, by the length that it had last."""
        return self._length // _METRICS_BYTES

    def text(self) -> bytes:
        """Everything, in the text format that Prometheus reads."""
        text = generate_latest(self._registry)
        self._length = len(text)
        return text


@dataclass
class RequestLog:
    """Names, counts and times every request, and puts safe headers on its answer."""

    app: ASGIApp
    metrics: Metrics
    hosts: Callable[[], str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        status = 0
        sent = dict(scope["headers"]).get(b"x-request-id", b"")
        identity = (
            sent.decode() if _REQUEST_ID.fullmatch(sent) else secrets.token_hex(8)
        )
        scope.setdefault("state", {})["request_id"] = identity
        policy = (b"content-security-policy", POLICY.format(self.hosts()).encode())
        headers = [*_HEADERS, policy, (b"x-request-id", identity.encode())]

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), *headers]
            await send(message)

        try:
            await self.app(scope, receive, counted)
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
            self.metrics.request(
                path, method, status or 500, time.perf_counter() - began
            )


@dataclass
class Guard:
    """Lets in who may read, and reads a bounded body in bounded time, which the budget pays for.

    The requests of an address begin one after another, those for the health in a row of their own.
    `hosts` are the names under which the server may be asked, besides the address that the
    connection came to; None lets every name pass.
    """

    app: ASGIApp
    limits: ServeLimits
    access: Access
    hosts: Collection[str] | None
    budget: Budget
    turns: Turns = field(default_factory=Turns)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        await self.turns.wait(f"{client_of(scope)} {is_health(scope)}")
        headers = dict(scope["headers"])
        try:
            body = self._refused(scope, headers) or await self._body(
                scope, headers, receive
            )
        except ClientOverloadedError as error:
            body = refusal(429, str(error), {"retry-after": "1"})
        if isinstance(body, JSONResponse):
            await body(scope, receive, send)
        else:
            await self.app(scope, _replayed(body, receive), send)

    def _refused(
        self, scope: Scope, headers: dict[bytes, bytes]
    ) -> JSONResponse | None:
        """The answer to a request without a token, or for another host, or for several."""
        named = sum(name == b"host" for name, _ in scope["headers"])
        if (
            named > 1
        ):  # RFC 9112, 3.2: a proxy before us may have believed the other one
            return refusal(400, f"the request has {named} Host headers: send one")
        if named == 0 and scope.get("http_version") == "1.1":
            return refusal(400, "the request has no Host header: send one")
        if self.hosts is not None:
            host = _host(headers.get(b"host", b"").decode("latin-1"))
            if host not in self.hosts and host != (scope.get("server") or ("",))[0]:
                text = f"this server is not called {host!r}: start it with --allowed-hosts {host}"
                return refusal(400, text)
        # A balancer asks for the health of a server, and has no token.
        if is_health(scope) or self.access.may_read(headers.get(b"authorization", b"")):
            return None
        # A browser asks its user for a name and a password then.
        challenge = {
            "www-authenticate": 'Bearer, Basic realm="leporid: the token as password"'
        }
        return refusal(401, "the token is missing or wrong", challenge)

    async def _body(
        self, scope: Scope, headers: dict[bytes, bytes], receive: Receive
    ) -> bytes | JSONResponse:
        """The whole body, or what is answered where there is something wrong with it."""
        most, client = self.limits.body_bytes, client_of(scope)
        too_long = 413, f"the body is larger than {most} bytes: send fewer at once"
        length = headers.get(b"content-length", b"")
        announced = int(length[:20]) if length.isdigit() else 0
        if announced > most:
            return refusal(*too_long)
        free = is_health(scope)
        if not free:
            self.budget.charge(client, 1 + announced // _BYTES)
        parts, size, more = [], 0, True
        try:
            async with asyncio.timeout(self.limits.body_seconds):
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
            self.budget.charge(client, size // _BYTES)
        return b"".join(parts)


def is_health(scope: Scope) -> bool:
    """Whether this is the request that no limit stops."""
    return bool(scope["path"].removeprefix(scope.get("root_path", "")) == "/health")


def client_of(scope: Scope) -> str:
    """The address that asks; behind a proxy on this machine, the one the proxy names."""
    return (scope.get("client") or ("",))[0]


def refusal(
    status: int, text: str, headers: dict[str, str] | None = None
) -> JSONResponse:
    """One sentence, and the end of the connection: a body may still be on its way."""
    return JSONResponse(
        {"error": text}, status, {"connection": "close", **(headers or {})}
    )


def _host(header: str) -> str:
    """The name or address in a Host header, without the port, in lower case."""
    name = (
        header[1:].partition("]")[0]
        if header.startswith("[")
        else header.partition(":")[0]
    )
    return name.lower()


def _replayed(body: bytes, receive: Receive) -> Receive:
    """`receive` for the application: the body that was read already, then what comes after."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return first.pop() if first else await receive()

    return replay
