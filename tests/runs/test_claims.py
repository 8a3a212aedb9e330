"""Claims: one worker a cell, and the dead do not block the living."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from pathlib import Path

import pytest

from leporid.runs.claims import STALE_SECONDS, claim, claimed_by_other


def test_only_one_holder_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "cell.claim"
    with claim(path) as first, claim(path) as second:
        assert first
        assert not second
        assert claimed_by_other(path)
    assert not path.exists()


def test_a_stale_claim_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "cell.claim"
    path.write_text("{}")
    long_ago = time.time() - STALE_SECONDS - 1
    os.utime(path, (long_ago, long_ago))
    assert not claimed_by_other(path)
    with claim(path) as mine:
        assert mine
        assert claimed_by_other(path)
    assert list(tmp_path.iterdir()) == []


def _hold(path: Path) -> None:
    with claim(path):
        time.sleep(60)


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc whether a process lives")
def test_the_claim_of_a_killed_process_is_free_at_once(tmp_path: Path) -> None:
    path = tmp_path / "cell.claim"
    worker = multiprocessing.get_context("spawn").Process(target=_hold, args=(path,))
    worker.start()
    while not (path.exists() and path.read_bytes()):
        time.sleep(0.01)
    assert claimed_by_other(path)
    worker.kill()
    worker.join()
    assert path.exists()
    with claim(path) as mine:
        assert mine


def _race(path: Path, barrier: object, won: object) -> None:
    barrier.wait()  # type: ignore[attr-defined]
    with claim(path) as mine:
        if mine:
            won.put(os.getpid())  # type: ignore[attr-defined]
            time.sleep(0.3)


def test_of_several_processes_one_wins(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    barrier, won = context.Barrier(4), context.Queue()
    path = tmp_path / "cell.claim"
    workers = [context.Process(target=_race, args=(path, barrier, won)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert won.qsize() == 1
