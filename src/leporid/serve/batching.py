"""How clients share a server: `Batcher` and `Turns` order their work, `Budget` limits it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from leporid.errors import LeporidError
from leporid.foundation import work_alone

Job = TypeVar("Job")
Answer = TypeVar("Answer")

_Request = deque[tuple[Job, "asyncio.Future[Answer]"]]
"""The jobs of a request that have not begun, each with its future answer."""
_BATCH_COST = 1000
"""Most work in one batch, in the units of `cost`: the next request waits no longer than that."""
MAX_CLIENTS = 10_000
"""Number of clients that a `Budget` remembers; a client that is forgotten starts afresh."""


class OverloadedError(LeporidError):
    """More work is waiting than the server allows."""

    status = 503


class ClientOverloadedError(OverloadedError):
    """More work of one client is waiting than the server allows for a client."""

    status = 429


class HungUpError(LeporidError):
    """The client has disconnected."""


class Batcher(Generic[Job, Answer]):
    """A thread that answers jobs in batches, submitted from one event loop.

    Jobs that arrive during a batch make up the next one. Clients share the thread by fair
    queueing: the client that had the least work done is next, and its requests take turns by one
    job each. There is only one thread because models keep caches that are not thread-safe.
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
        self._handle = handle
        self._cost = cost
        self._max_jobs = batch
        self._max_waiting = waiting
        self._max_waiting_per_client = per_client
        self._requests: dict[str, deque[_Request[Job, Answer]]] = {}
        """Requests that wait, by client."""
        self._costs: Counter[str] = Counter()
        """Work that waits, by client."""
        self._done: dict[str, int] = {}
        """Work done for each client that waits."""
        self._least_done = 0
        """Least work done for any client that waits; a new client starts with it."""
        self._worker: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(
            1, thread_name_prefix=name, initializer=work_alone
        )

    @property
    def waiting(self) -> int:
        """Number of jobs that have not begun."""
        return sum(
            len(jobs) for requests in self._requests.values() for jobs in requests
        )

    async def submit(
        self,
        jobs: Sequence[Job],
        client: str = "",
        gone: asyncio.Future[object] | None = None,
    ) -> list[Answer]:
        """Answer `jobs`; the first error is raised, and the other jobs are dropped.

        As soon as `gone` is done, the jobs that have not begun are dropped.
        """
        cost = sum(map(self._cost, jobs))
        # The cost counts twice, so that a large request is refused earlier than a small one.
        if self._costs.total() + 2 * cost > self._max_waiting:
            raise OverloadedError(
                "too many requests are waiting: try again in a moment"
            )
        if self._costs[client] + 2 * cost > self._max_waiting_per_client:
            raise ClientOverloadedError(
                "too much is waiting for this client already: try again in a moment"
            )
        loop = asyncio.get_running_loop()
        answers: list[asyncio.Future[Answer]] = [loop.create_future() for _ in jobs]
        waiting: _Request[Job, Answer] = deque(zip(jobs, answers, strict=True))
        self._costs[client] += cost
        self._done.setdefault(client, self._least_done)
        self._requests.setdefault(client, deque()).append(waiting)

        def drop(_: object = None) -> None:
            while waiting:
                job, _answer = waiting.popleft()
                self._release(client, job)
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
        """Take a job off what waits for a client, and return its cost."""
        cost = self._cost(job)
        self._costs[client] -= cost
        if self._costs[client] == 0:
            del self._costs[client]
        return cost

    def _take(self) -> _Request[Job, Answer]:
        """Take the next batch: each job is from the client that had the least work done."""
        batch: _Request[Job, Answer] = deque()
        cost = 0
        while self._requests and len(batch) < self._max_jobs:
            client = min(self._requests, key=self._done.__getitem__)
            requests = self._requests[client]
            request = requests[0]
            # A large job is a batch of its own, so that no small one waits for it.
            if request and batch and cost + self._cost(request[0][0]) > _BATCH_COST:
                break
            requests.popleft()
            self._least_done = self._done[client]
            if request:
                job, answer = request.popleft()
                batch.append((job, answer))
                spent = self._release(client, job)
                cost += spent
                self._done[client] += spent
            if request:
                requests.append(request)
            if not requests:
                del self._requests[client]
                del self._done[client]
        return batch

    async def _work(self) -> None:
        """Answer batches until nothing is waiting."""
        loop = asyncio.get_running_loop()
        while batch := self._take():
            jobs = [job for job, _ in batch]
            results = await loop.run_in_executor(self._thread, self._answers, jobs)
            for (_, answer), result in zip(batch, results, strict=True):
                was_dropped = answer.done()
                if was_dropped:
                    continue
                if isinstance(result, BaseException):
                    answer.set_exception(result)
                else:
                    answer.set_result(result)

    def _answers(self, jobs: list[Job]) -> Sequence[Answer | BaseException]:
        """Answer a batch; if it fails, answer each job alone, so that none fails another."""
        try:
            return self._handle(jobs)
        except LeporidError as error:
            # The store does not answer, for example: that is not the fault of one job.
            return [error] * len(jobs)
        except Exception as error:
            if len(jobs) == 1:
                return [error]
            return [answer for job in jobs for answer in self._answers([job])]

    def close(self) -> None:
        """Finish the batch that has begun, and end the thread."""
        self._thread.shutdown(wait=True)


class Turns:
    """Lets one request of each client begin in each round of the event loop.

    What a request does in the event loop delays all others. However many connections a client
    has, the others wait for only one of its requests at a time.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """Requests that wait, by client, for each client that began a request in this round."""

    async def wait(self, client: str) -> None:
        """Wait until a request of this client may begin."""
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
        """Let the next request of each client begin."""
        for client, turns in list(self._waiting.items()):
            while turns and turns[0].cancelled():
                turns.popleft()
            if turns:
                turns.popleft().set_result(None)
            else:
                del self._waiting[client]
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._next_round)


class Budget:
    """A rate limit: each client may spend `burst` at once, and `rate` per second after that."""

    def __init__(
        self,
        rate: float,
        burst: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._spent: dict[str, tuple[float, float]] = {}
        """What each client had spent and not earned back, and when that was."""

    def charge(self, client: str, cost: float) -> None:
        """Spend `cost` (at most the whole budget), or raise an error if too little remains."""
        now = self._clock()
        cost = min(cost, self._burst)
        spent, then = self._spent.pop(client, (0.0, now))
        spent = max(spent - (now - then) * self._rate, 0.0)
        if self._burst - spent >= cost:
            self._spent[client] = spent + cost, now
        else:
            self._spent[client] = spent, now
            raise ClientOverloadedError(
                "this address has asked for too much work: try again in a moment"
            )
        if len(self._spent) > MAX_CLIENTS:
            asked_longest_ago = next(iter(self._spent))
            del self._spent[asked_longest_ago]
