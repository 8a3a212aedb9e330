"""Counters and histograms in the text format Prometheus reads."""

from __future__ import annotations

import bisect
import resource
import sys
from collections import defaultdict
from pathlib import Path

__all__ = ["Metrics"]

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_Labels = tuple[tuple[str, str], ...]


class Metrics:
    """What the server counts; written from the event loop only."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[_Labels, float]] = defaultdict(lambda: defaultdict(float))
        self._buckets: dict[str, list[int]] = {}
        self._sums: dict[str, float] = defaultdict(float)

    def count(self, name: str, value: float = 1, **labels: str) -> None:
        """Add to a counter."""
        self._counts[name][tuple(sorted(labels.items()))] += value

    def request(self, path: str, method: str, status: int, seconds: float) -> None:
        """One answered request; `path` is the route's pattern, so there are few of them."""
        self.count("leporid_requests_total", path=path, method=method, status=str(status))
        buckets = self._buckets.setdefault(path, [0] * (len(_SECONDS) + 1))
        buckets[bisect.bisect_left(_SECONDS, seconds)] += 1
        self._sums[path] += seconds

    def text(self, gauges: dict[str, float]) -> str:
        """Everything, with the gauges of this moment."""
        lines = []
        for name, series in sorted(self._counts.items()):
            lines.append(f"# TYPE {name} counter")
            lines += [f"{name}{_labels(labels)} {value:g}" for labels, value in series.items()]
        name = "leporid_request_seconds"
        if self._buckets:
            lines.append(f"# TYPE {name} histogram")
        for path, buckets in self._buckets.items():
            total = 0
            for bound, number in zip((*_SECONDS, "+Inf"), buckets, strict=True):
                total += number
                at = _labels((("le", str(bound)), ("path", path)))
                lines.append(f"{name}_bucket{at} {total}")
            at = _labels((("path", path),))
            lines += [f"{name}_sum{at} {self._sums[path]:.6f}", f"{name}_count{at} {total}"]
        for name, value in {**gauges, "process_resident_memory_bytes": _resident()}.items():
            lines += [f"# TYPE {name} gauge", f"{name} {value:.15g}"]
        return "\n".join(lines) + "\n"


def _labels(labels: _Labels) -> str:
    if not labels:
        return ""
    escaped = (
        (key, value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n"))
        for key, value in labels
    )
    return "{" + ",".join(f'{key}="{value}"' for key, value in escaped) + "}"


def _resident() -> float:
    statm = Path("/proc/self/statm")
    if statm.is_file():
        return float(statm.read_text().split()[1]) * resource.getpagesize()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak if sys.platform == "darwin" else peak * 1024)
