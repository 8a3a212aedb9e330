"""Jobs in batches, on one thread: order, errors, the limit, and whoever hangs up."""

from __future__ import annotations

import asyncio
import threading

import pytest

from leporid.errors import DataError, LeporidError
from leporid.serve.batching import Batcher, OverloadedError


class Worker:
    """Doubles numbers; the first batch waits until it is let go."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.go = threading.Event()

    def __call__(self, jobs: list[int]) -> list[int | LeporidError]:
        self.batches.append(jobs)
        self.go.wait(10)
        return [DataError(f"{job} is odd") if job % 2 else 2 * job for job in jobs]


def test_what_arrives_meanwhile_is_one_batch_and_errors_reach_their_own_caller() -> None:
    async def main() -> None:
        worker = Worker()
        batcher: Batcher[int, int] = Batcher(worker, batch=3, waiting=5, name="test")
        first = asyncio.create_task(batcher.submit([0]))
        while not worker.batches:
            await asyncio.sleep(0.001)
        rest = [asyncio.create_task(batcher.submit(jobs)) for jobs in ([2, 4], [5], [6])]
        await asyncio.sleep(0)
        assert batcher.waiting == 4
        with pytest.raises(OverloadedError, match="too many"):
            await batcher.submit([8, 8])
        worker.go.set()
        assert await first == [0]
        assert await rest[0] == [4, 8]
        with pytest.raises(DataError, match="5 is odd"):
            await rest[1]
        assert await rest[2] == [12]
        assert worker.batches == [[0], [2, 4, 5], [6]]
        batcher.close()

    asyncio.run(main())


def test_who_hangs_up_is_not_worked_for() -> None:
    async def main() -> None:
        worker = Worker()
        batcher: Batcher[int, int] = Batcher(worker, batch=3, waiting=5, name="test")
        first = asyncio.create_task(batcher.submit([0]))
        while not worker.batches:
            await asyncio.sleep(0.001)
        gone, stays = (asyncio.create_task(batcher.submit([job])) for job in (2, 4))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        worker.go.set()
        assert await first == [0]
        assert await stays == [8]
        assert worker.batches == [[0], [4]]
        batcher.close()

    asyncio.run(main())
