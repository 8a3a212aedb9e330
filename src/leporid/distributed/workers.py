"""Any function on any worker of a cluster: `leporid choose --scheduler` sends candidates there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from leporid.data import Split
from leporid.distributed.blocks import one_at_a_time
from leporid.distributed.cluster import Cluster


class Workers:
    """`submit` as pools have it; a split among the arguments is sent to the cluster once."""

    def __init__(self, client: Any) -> None:
        self._cluster = Cluster(client)
        self._sent: dict[str, Any] = {}
        self._count = 0

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """A future of `function(*arguments)`; Dask runs it again where its worker is lost."""
        there = [[self._there(a) if isinstance(a, Split) else a] for a in arguments]
        self._count += 1
        key = (function.__name__, self._count)
        (future,) = self._cluster.submit([key], _alone, [function], *there)
        return future

    def _there(self, split: Split) -> Any:
        if split.digest not in self._sent:
            self._sent[split.digest] = self._cluster.keep(("log", len(self._sent)), split)
        return self._sent[split.digest]


def _alone(function: Callable[..., Any], *arguments: Any) -> Any:
    """Fits use all threads of a worker, so one runs at a time."""
    with one_at_a_time:
        return function(*arguments)
