"""What the server counts, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable

import psutil
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """The counters of one application, in a registry of its own."""

    def __init__(self, **gauges: Callable[[], float]) -> None:
        """`gauges` are asked for their value whenever the metrics are read."""
        self._registry = own = CollectorRegistry()
        labels = ("path", "method", "status")
        self._requests = Counter("leporid_requests", "Answered requests.", labels, registry=own)
        self._seconds = Histogram(
            "leporid_request_seconds", "Time to answer.", ["path"], buckets=_SECONDS, registry=own
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
