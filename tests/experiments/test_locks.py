"""Claims: one worker per cell, and the dead do not block the living."""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path

from leporid.runs import try_lock


def test_only_one_holder_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "cell.lock"
    with try_lock(path) as first, try_lock(path) as second:
        assert first
        assert not second
    assert not path.exists()


def test_a_claim_that_nobody_holds_is_free(tmp_path: Path) -> None:
    path = tmp_path / "cell.lock"
    path.write_text("{}")
    with try_lock(path) as mine:
        assert mine
    assert list(tmp_path.iterdir()) == []


def _hold(path: Path, held: object) -> None:
    with try_lock(path):
        held.set()  # type: ignore[attr-defined]
        time.sleep(60)


def test_the_claim_of_a_killed_process_is_free_at_once(tmp_path: Path) -> None:
    path = tmp_path / "cell.lock"
    context = multiprocessing.get_context("spawn")
    held = context.Event()
    worker = context.Process(target=_hold, args=(path, held))
    worker.start()
    assert held.wait(30)
    worker.kill()
    worker.join()
    assert path.exists()
    with try_lock(path) as mine:
        assert mine


def _compete(path: Path, barrier: object, won: object) -> None:
    barrier.wait()  # type: ignore[attr-defined]
    with try_lock(path) as mine:
        if mine:
            won.put(os.getpid())  # type: ignore[attr-defined]
            time.sleep(0.3)


def test_of_several_processes_one_wins(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    barrier, won = context.Barrier(4), context.Queue()
    path = tmp_path / "cell.lock"
    workers = [context.Process(target=_compete, args=(path, barrier, won)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert won.qsize() == 1
