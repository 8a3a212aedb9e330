"""Jobs in batches, on one thread: order, errors, the limit, and whoever hangs up."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from leporid.errors import DataError, LeporidError
from leporid.serve.batching import Batcher, ClientOverloadedError, HungUpError, OverloadedError


class Worker:
    """Doubles numbers; the first batch waits until it is let go."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.go = threading.Event()

    def __call__(self, jobs: list[int]) -> list[int | LeporidError]:
        self.batches.append(jobs)
        self.go.wait(60)
        return [DataError(f"{job} is odd") if job % 2 else 2 * job for job in jobs]


def _batcher(worker: Any, **limits: int) -> Batcher[int, int]:
    limits = {"batch": 3, "waiting": 12, "per_client": 12, **limits}
    return Batcher(worker, cost=lambda _: 1, name="test", **limits)


def test_what_arrives_meanwhile_is_one_batch_and_errors_reach_their_own_caller() -> None:
    async def main() -> None:
        worker = Worker()
        batcher: Batcher[int, int] = _batcher(worker)
        first = asyncio.create_task(batcher.submit([0]))
        while not worker.batches:
            await asyncio.sleep(0.001)
        rest = [asyncio.create_task(batcher.submit(jobs)) for jobs in ([2, 4], [5], [6])]
        await asyncio.sleep(0)
        assert batcher.waiting == 4
        with pytest.raises(OverloadedError, match="too many"):
            await batcher.submit([8] * 5)
        worker.go.set()
        assert await first == [0]
        assert await rest[0] == [4, 8]
        with pytest.raises(DataError, match="5 is odd"):
            await rest[1]
        assert await rest[2] == [12]
        assert worker.batches == [[0], [2, 5, 6], [4]]  # a job of each request in turn
        batcher.close()

    asyncio.run(main())


def test_who_hangs_up_is_not_worked_for() -> None:
    async def main() -> None:
        worker = Worker()
        batcher: Batcher[int, int] = _batcher(worker)
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


def test_a_client_that_is_gone_or_has_much_waiting_takes_no_room_from_others() -> None:
    async def main() -> None:
        worker = Worker()
        batcher = _batcher(worker, waiting=100, per_client=12)
        first = asyncio.create_task(batcher.submit([0], "a"))
        while not worker.batches:
            await asyncio.sleep(0.001)
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        large = asyncio.create_task(batcher.submit([2] * 6, "a", gone))
        await asyncio.sleep(0)
        with pytest.raises(ClientOverloadedError, match="this client"):
            await batcher.submit([2] * 4, "a")
        other = asyncio.create_task(batcher.submit([4], "b"))
        small = asyncio.create_task(batcher.submit([6], "a"))
        await asyncio.sleep(0)
        gone.set_result(None)
        with pytest.raises(HungUpError):
            await large
        assert batcher.waiting == 2
        again = asyncio.create_task(batcher.submit([8] * 4, "a"))
        worker.go.set()
        assert [await first, await other, await small] == [[0], [8], [12]]
        assert await again == [16] * 4
        assert 2 not in [job for jobs in worker.batches for job in jobs]
        batcher.close()

    asyncio.run(main())


def test_a_job_that_breaks_the_batch_fails_alone() -> None:
    def handle(jobs: list[int]) -> list[int]:
        if 13 in jobs:
            raise ZeroDivisionError
        return jobs

    async def main() -> None:
        batcher = _batcher(handle, batch=8, waiting=100, per_client=100)
        asked = (batcher.submit([job]) for job in (1, 13, 2))
        one, broken, two = await asyncio.gather(*asked, return_exceptions=True)
        assert (one, two) == ([1], [2])
        assert isinstance(broken, ZeroDivisionError)
        batcher.close()

    asyncio.run(main())


def test_the_client_that_had_least_is_next_and_a_large_job_is_a_batch_of_its_own() -> None:
    async def main() -> None:
        worker = Worker()
        batcher: Batcher[int, int] = Batcher(
            worker, cost=lambda job: job, batch=64, waiting=10**9, per_client=10**9, name="test"
        )
        first = asyncio.create_task(batcher.submit([2], "greedy"))
        while not worker.batches:
            await asyncio.sleep(0.001)
        many = [asyncio.create_task(batcher.submit([2000, 2002], "greedy")) for _ in range(3)]
        await asyncio.sleep(0)
        small = [asyncio.create_task(batcher.submit([4], "b")) for _ in range(2)]
        await asyncio.sleep(0)
        worker.go.set()
        await asyncio.gather(first, *many, *small)
        assert worker.batches == [[2], [2000], [4, 4], [2000], [2000], *[[2002]] * 3]
        assert not batcher._requests
        assert not batcher._done
        batcher.close()

    asyncio.run(main())
