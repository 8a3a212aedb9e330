"""What makes answers quick: no waiting for acknowledgements, threads that pay, no collections."""

from __future__ import annotations

import asyncio
import gc
import socket
from pathlib import Path
from types import SimpleNamespace

import numba
import pytest

from leporid.foundation import choose_torch_threads, machine, one_thread_pool, torch_threads
from leporid.serve.batching import Batcher
from leporid.serve.server import _listen, freeze_loaded_objects
from leporid.serve.service import Service


def test_an_answer_in_two_parts_does_not_wait_for_an_acknowledgement() -> None:
    async def accepted() -> int:
        found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            link = writer.get_extra_info("socket")
            found.set_result(link.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        with _listen("127.0.0.1", 0) as listening:
            listening.listen()
            server = await asyncio.start_server(connected, sock=listening)
            _, writer = await asyncio.open_connection(*listening.getsockname())
            value = await found
            writer.close()
            server.close()
        return value

    assert asyncio.run(accepted())


@pytest.mark.parametrize(("all_cores", "expected"), [(0.004, "all"), (0.02, "one"), (0.03, "one")])
def test_more_threads_are_used_where_they_pay(
    all_cores: float, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    before, now = torch.get_num_threads(), 0.0

    def score() -> None:
        nonlocal now
        now += 0.02 if torch.get_num_threads() == 1 else all_cores

    monkeypatch.setattr(machine, "time", SimpleNamespace(perf_counter=lambda: now))
    torch.set_num_threads(3)
    try:
        chosen = choose_torch_threads(score)
        assert chosen == {"all": 3, "one": 1}[expected]
        assert torch.get_num_threads() == 3
        with torch_threads(chosen):
            assert torch.get_num_threads() == chosen
            with torch_threads(None):
                assert torch.get_num_threads() == chosen
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_what_is_loaded_leaves_garbage_collection_at_the_start_and_after_a_reload(
    run_dir: Path,
) -> None:
    service = Service(run_dir)
    called = []
    service.after_load = lambda: called.append(service.runs["main"])
    old = service.runs["main"]
    asyncio.run(service.reload())
    assert called == [service.runs["main"]]
    assert called[0] is not old
    service.close()
    try:
        freeze_loaded_objects()
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


def test_a_thread_that_answers_requests_runs_kernels_alone() -> None:
    used: list[int] = []

    def answer(jobs: list[int]) -> list[int]:
        with one_thread_pool(3) as number:
            used.append(number)
        # Not the number of cores, which may be one: the pool was not asked.
        used.append(numba.get_num_threads())
        return jobs if machine._THREAD.works_alone else []

    limits = {"batch": 1, "waiting": 9, "per_client": 9}
    batcher: Batcher[int, int] = Batcher(answer, cost=lambda _: 1, name="test", **limits)
    assert asyncio.run(batcher.submit([5])) == [5]
    batcher.close()
    assert used == [1, 1]
    assert not machine._THREAD.works_alone, "only that thread"
