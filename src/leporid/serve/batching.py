"""Work of many clients in one thread: `Batcher`, `Turns`, and a rate limit: `Budget`."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from leporid.errors import LeporidError
from leporid.machine import work_alone

Job = TypeVar("Job")
Answer = TypeVar("Answer")

_Request = deque[tuple[Job, "asyncio.Future[Answer]"]]
"""What is not begun of a request."""
_BATCH_COST = 1000
"""Work in one batch, in the units of `cost`: the next request waits for no more than that."""
_CLIENTS = 10_000
"""Clients remembered; the bucket of one forgotten is full again."""


class OverloadedError(LeporidError):
    """More work waits than the server holds, or than it holds for one client (429)."""

    status = 503


class ClientOverloadedError(OverloadedError):
    """More work of one client waits than the server holds for one."""

    status = 429


class HungUpError(LeporidError):
    """The client has disconnected."""


class Batcher(Generic[Job, Answer]):
    """One thread that answers jobs in batches; submitted from one event loop.

    Jobs that arrive during a batch make up the next one. Clients share the thread by fair
    queueing: the client that had the least work done is next, and of its requests one job each
    in turn. Models keep caches and were not written for several threads.
    """

    def __init__(
        self,
        handle: Callable[[list[Job]], Sequence[Answer | LeporidError]],
        *,
        cost: Callable[[Job], int],
        batch: int,
        waiting: int,
        per_client: int,
        name: str,
    ) -> None:
        self._handle, self._cost, self._batch = handle, cost, batch
        self._limit, self._client_limit = waiting, per_client
        self._requests: dict[str, deque[_Request[Job, Answer]]] = {}  # by client
        self._costs: Counter[str] = Counter()  # what waits, by client
        self._done: dict[str, int] = {}  # work done for each client that waits
        self._least = 0  # of those; who comes anew begins there
        self._worker: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(
            1, thread_name_prefix=name, initializer=work_alone
        )

    @property
    def waiting(self) -> int:
        """Jobs not yet begun."""
        return sum(
            len(jobs) for requests in self._requests.values() for jobs in requests
        )

    async def submit(
        self,
        jobs: Sequence[Job],
        client: str = "",
        gone: asyncio.Future[None] | None = None,
    ) -> list[Answer]:
        """The answers of `jobs`; the first error is raised, and the rest of them dropped.

        As soon as `gone` is done, what is not begun of them is dropped.
        """
        cost = sum(map(self._cost, jobs))
        # Twice the cost: the larger a request, the earlier it is turned away.
        if self._costs.total() + 2 * cost > self._limit:
            raise OverloadedError(
                "too many requests are waiting: try again in a moment"
            )
        if self._costs[client] + 2 * cost > self._client_limit:
            raise ClientOverloadedError(
                "too much is waiting for this client already: try again in a moment"
            )
        loop = asyncio.get_running_loop()
        answers: list[asyncio.Future[Answer]] = [loop.create_future() for _ in jobs]
        waiting: _Request[Job, Answer] = deque(zip(jobs, answers, strict=True))
        self._costs[client] += cost
        self._done.setdefault(client, self._least)
        self._requests.setdefault(client, deque()).append(waiting)

        def drop(_: Any = None) -> None:
            while waiting:
                self._release(client, waiting.popleft()[0])
            for answer in answers:
                if not answer.done():
                    answer.set_exception(HungUpError("the client hung up"))

        if gone is not None:
            gone.add_done_callback(drop)
        if self._worker is None or self._worker.done():
            self._worker = loop.create_task(self._work())
        try:
            return await asyncio.gather(*answers)
        finally:
            drop()

    def _release(self, client: str, job: Job) -> int:
        """A job waits no longer; its cost."""
        cost = self._cost(job)
        self._costs[client] -= cost
        if self._costs[client] == 0:
            del self._costs[client]
        return cost

    def _take(self) -> _Request[Job, Answer]:
        """The next batch: each job is of the client that had the least work done."""
        taken: _Request[Job, Answer] = deque()
        cost = 0
        while self._requests and len(taken) < self._batch:
            client = min(self._requests, key=self._done.__getitem__)
            requests = self._requests[client]
            request = requests[0]
            # A large job is a batch of its own: no small one waits for it.
            if request and taken and cost + self._cost(request[0][0]) > _BATCH_COST:
                break
            requests.popleft()
            self._least = self._done[client]
            if request:
                taken.append(request.popleft())
                spent = self._release(client, taken[-1][0])
                cost += spent
                self._done[client] += spent
            if request:
                requests.append(request)
            if not requests:
                del self._requests[client], self._done[client]
        return taken

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while taken := self._take():
            jobs = [job for job, _ in taken]
            found = await loop.run_in_executor(self._thread, self._answers, jobs)
            for (_, answer), value in zip(taken, found, strict=True):
                if answer.done():  # dropped meanwhile
                    continue
                if isinstance(value, BaseException):
                    answer.set_exception(value)
                else:
                    answer.set_result(value)

    def _answers(self, jobs: list[Job]) -> Sequence[Answer | BaseException]:
        """What `handle` says; where it fails, each job alone: one never fails another's."""
        try:
            return self._handle(jobs)
        except (
            LeporidError
        ) as error:  # the store does not answer: not the fault of one job
            return [error] * len(jobs)
        except Exception as error:
            return (
                [error]
                if len(jobs) == 1
                else [a for job in jobs for a in self._answers([job])]
            )

    def close(self) -> None:
        """Finish what is being worked on."""
        self._thread.shutdown(wait=True)


class Turns:
    """Who begins next: in each round of the event loop, one request of each client.

    What a request does in the event loop holds up all others. However many connections a client
    has, the others wait for one of its requests at a time.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By client, of those that have begun a request in this round."""

    async def wait(self, client: str) -> None:
        """Return when a request of this client may begin."""
        loop = asyncio.get_running_loop()
        if client in self._waiting:
            turn: asyncio.Future[None] = loop.create_future()
            self._waiting[client].append(turn)
            await turn
            return
        if not self._waiting:
            loop.call_soon(self._next_round)
        self._waiting[client] = deque()

    def _next_round(self) -> None:
        for client, turns in list(self._waiting.items()):
            while turns and turns[0].done():  # cancelled
                turns.popleft()
            if turns:
                turns.popleft().set_result(None)
            else:
                del self._waiting[client]
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._next_round)


class Budget:
    """Each client may spend `burst` at once, and `rate` per second in the long run."""

    def __init__(
        self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._spent: dict[
            str, tuple[float, float]
        ] = {}  # what is not earned back, and when

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
