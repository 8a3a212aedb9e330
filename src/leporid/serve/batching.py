"""`Batcher`: requests that arrive while a batch is worked on make up the next one."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from leporid.errors import LeporidError

Job = TypeVar("Job")
Answer = TypeVar("Answer")


class OverloadedError(LeporidError):
    """More requests wait than the server holds."""


class Batcher(Generic[Job, Answer]):
    """One thread that answers jobs in batches; submitted from one event loop.

    Nobody waits for a batch to fill: a job that comes alone is worked on at once. The single
    thread is also what makes models safe to use here, which keep caches and were not written
    for several threads.
    """

    def __init__(
        self,
        handle: Callable[[list[Job]], Sequence[Answer | LeporidError]],
        *,
        batch: int,
        waiting: int,
        name: str,
    ) -> None:
        self._handle, self._batch, self._limit = handle, batch, waiting
        self._waiting: deque[tuple[Job, asyncio.Future[Answer]]] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)

    @property
    def waiting(self) -> int:
        """Jobs not yet begun."""
        return len(self._waiting)

    async def submit(self, jobs: Sequence[Job]) -> list[Answer]:
        """The answers of `jobs`; the first error among them is raised."""
        if len(self._waiting) + len(jobs) > self._limit:
            raise OverloadedError("too many requests are waiting: try again in a moment")
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[Answer]] = [loop.create_future() for _ in jobs]
        self._waiting.extend(zip(jobs, futures, strict=True))
        if self._worker is None or self._worker.done():
            self._worker = loop.create_task(self._work())
        # Whoever hangs up cancels what they wait for.
        answers = await asyncio.gather(*futures, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return [future.result() for future in futures]

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            taken = [self._waiting.popleft() for _ in range(min(self._batch, len(self._waiting)))]
            taken = [(job, future) for job, future in taken if not future.cancelled()]
            running = loop.run_in_executor(self._thread, self._handle, [job for job, _ in taken])
            await asyncio.wait([running])
            failure = running.exception()
            answers = [failure] * len(taken) if failure is not None else running.result()
            for (_, future), answer in zip(taken, answers, strict=True):
                if future.done():
                    continue
                if isinstance(answer, BaseException):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)

    def close(self) -> None:
        """Finish what is being worked on."""
        self._thread.shutdown(wait=True)
