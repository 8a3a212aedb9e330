"""`Budget`: a token bucket per client address, in the units of `Person.cost`."""

from __future__ import annotations

import time
from collections.abc import Callable

from leporid.serve.batching import ClientOverloadedError

_CLIENTS = 10_000
"""Clients remembered; the bucket of one forgotten is full again."""


class Budget:
    """Each client may spend `burst` at once, and `rate` per second in the long run."""

    def __init__(
        self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._spent: dict[str, tuple[float, float]] = {}  # what is not earned back, and when

    def charge(self, client: str, cost: float) -> None:
        """Spend, or raise where too little is left; what costs more than all takes all."""
        now, cost = self._clock(), min(cost, self._burst)
        spent, then = self._spent.pop(client, (0.0, now))
        spent = max(spent - (now - then) * self._rate, 0.0)
        if self._burst - spent >= cost:
            self._spent[client] = spent + cost, now
        else:
            self._spent[client] = spent, now
            raise ClientOverloadedError(
                "this address has asked for too much work: try again in a moment"
            )
        if len(self._spent) > _CLIENTS:
            del self._spent[next(iter(self._spent))]  # the one that asked longest ago
