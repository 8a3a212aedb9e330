"""What is monitored: metrics for Prometheus, ids of requests, rate-limited error logs."""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Callable
from traceback import extract_tb

import psutil
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_SECONDS = 60.0
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """The counters of one application, in a registry of its own."""

    def __init__(self, **gauges: Callable[[], float]) -> None:
        """`gauges` are asked for their value whenever the metrics are read."""
        self._registry = own = CollectorRegistry()
        labels = ("path", "method", "status")
        self._requests = Counter("leporid_requests", "Answered requests.", labels, registry=own)
        self._seconds = Histogram(
            "leporid_request_seconds", "Time to answer.", ["path"], buckets=_BUCKETS, registry=own
        )
        self.events = Counter("leporid_events", "Events kept.", registry=own)
        self.reloads = Counter("leporid_reloads", "Runs loaded again.", registry=own)
        self.connections = Gauge("leporid_connections", "Open connections.", registry=own)
        self.refused = Counter(
            "leporid_refused_connections", "Closed because there were too many.", registry=own
        )
        resident = Gauge("process_resident_memory_bytes", "Resident memory.", registry=own)
        resident.set_function(lambda: psutil.Process().memory_info().rss)
        for name, value in gauges.items():
            about = name.replace("_", " ").capitalize()
            Gauge(f"leporid_{name}", f"{about}.", registry=own).set_function(value)

    def request(self, path: str, method: str, status: int, seconds: float) -> None:
        """Count one answered request; `path` is the route's pattern, so there are few of them."""
        self._requests.labels(path, method, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def text(self) -> bytes:
        """Everything, in the text format that Prometheus reads."""
        return generate_latest(self._registry)


def request_id(sent: bytes | None) -> str:
    """The client's own id where it is one, else a new one."""
    if sent is not None and _REQUEST_ID.fullmatch(sent):
        return sent.decode()
    return secrets.token_hex(8)


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
            record.msg = f"{record.msg} ({suppressed} more like this since it was last written)"
        return True
