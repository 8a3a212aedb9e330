"""Work of many clients in one thread: `Batcher`, and `Budget`, a rate limit per address."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar, cast

from leporid.errors import LeporidError
from leporid.threads import work_alone

Job = TypeVar("Job")
Answer = TypeVar("Answer")

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


class _Request(Generic[Job, Answer]):
    """The jobs of one request."""

    def __init__(self, jobs: Sequence[Job], client: str) -> None:
        self.client, self.left = client, len(jobs)
        self.waiting = deque(enumerate(jobs))
        self.answers: list[Answer | BaseException | None] = [None] * len(jobs)
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def answer(self, position: int, answer: Answer | BaseException) -> None:
        self.answers[position] = answer
        self.left -= 1
        if self.left == 0 and not self.done.done():
            self.done.set_result(None)


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
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name, initializer=work_alone)

    @property
    def waiting(self) -> int:
        """Jobs not yet begun."""
        return sum(len(r.waiting) for requests in self._requests.values() for r in requests)

    async def submit(
        self, jobs: Sequence[Job], client: str = "", gone: asyncio.Future[None] | None = None
    ) -> list[Answer]:
        """The answers of `jobs`; the first error among them is raised.

        As soon as `gone` is done, what is not begun of them is dropped.
        """
        cost = sum(map(self._cost, jobs))
        # Twice the cost: the larger a request, the earlier it is turned away.
        if self._costs.total() + 2 * cost > self._limit:
            raise OverloadedError("too many requests are waiting: try again in a moment")
        if self._costs[client] + 2 * cost > self._client_limit:
            raise ClientOverloadedError(
                "too much is waiting for this client already: try again in a moment"
            )
        request: _Request[Job, Answer] = _Request(jobs, client)
        self._costs[client] += cost
        self._done.setdefault(client, self._least)
        self._requests.setdefault(client, deque()).append(request)
        if gone is not None:
            gone.add_done_callback(lambda _: self._drop(request))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.get_running_loop().create_task(self._work())
        try:
            await request.done
        finally:
            self._drop(request)
        for answer in request.answers:
            if isinstance(answer, BaseException):
                raise answer
        return cast("list[Answer]", request.answers)

    def _drop(self, request: _Request[Job, Answer]) -> None:
        """Forget what is not begun of a request."""
        while request.waiting:
            self._release(request, request.waiting.popleft()[1])
        if not request.done.done():
            request.done.set_exception(HungUpError("the client hung up"))

    def _release(self, request: _Request[Job, Answer], job: Job) -> int:
        """A job waits no longer; its cost."""
        cost = self._cost(job)
        self._costs[request.client] -= cost
        if self._costs[request.client] == 0:
            del self._costs[request.client]
        return cost

    def _take(self) -> list[tuple[_Request[Job, Answer], int, Job]]:
        """The next batch: each job is of the client that had the least work done."""
        taken: list[tuple[_Request[Job, Answer], int, Job]] = []
        cost = 0
        while self._requests and len(taken) < self._batch:
            client = min(self._requests, key=self._done.__getitem__)
            requests = self._requests[client]
            request = requests[0]
            # A large job is a batch of its own: no small one waits for it.
            if request.waiting and taken and cost + self._cost(request.waiting[0][1]) > _BATCH_COST:
                break
            requests.popleft()
            self._least = self._done[client]
            if request.waiting:
                position, job = request.waiting.popleft()
                spent = self._release(request, job)
                cost += spent
                self._done[client] += spent
                taken.append((request, position, job))
            if request.waiting:
                requests.append(request)
            if not requests:
                del self._requests[client], self._done[client]
        return taken

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while taken := self._take():
            jobs = [job for _, _, job in taken]
            answers = await loop.run_in_executor(self._thread, self._answers, jobs)
            for (request, position, _), answer in zip(taken, answers, strict=True):
                request.answer(position, answer)

    def _answers(self, jobs: list[Job]) -> Sequence[Answer | BaseException]:
        """What `handle` says; where it fails, each job alone: one never fails another's."""
        try:
            return self._handle(jobs)
        except LeporidError as error:  # the store does not answer: not the fault of one job
            return [error] * len(jobs)
        except Exception as error:
            return [error] if len(jobs) == 1 else [a for job in jobs for a in self._answers([job])]

    def close(self) -> None:
        """Finish what is being worked on."""
        self._thread.shutdown(wait=True)


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
