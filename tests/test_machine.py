"""How many threads there are, and what runs on them."""

from __future__ import annotations

import os
import subprocess
import sys

import numba
import pytest

from leporid.errors import ConfigError
from leporid.foundation import on_each_share, on_each_thread, one_thread_pool, resolve_threads


def test_threads_are_resolved_and_restored() -> None:
    before = numba.get_num_threads()
    assert 1 <= resolve_threads(None) <= numba.config.NUMBA_NUM_THREADS
    assert resolve_threads(10_000) == numba.config.NUMBA_NUM_THREADS

    def fail() -> None:
        with one_thread_pool(1) as used:
            assert used == numba.get_num_threads() == 1
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        fail()
    assert numba.get_num_threads() == before
    with pytest.raises(ConfigError, match="at least 1"):
        resolve_threads(0)


@pytest.mark.parametrize(
    ("first", "stop", "threads"), [(0, 10, 1), (3, 20, 4), (5, 7, 3), (2, 2, 2)]
)
def test_shares_are_all_rows_once(first: int, stop: int, threads: int) -> None:
    shares: list[range] = [range(0)] * threads

    def work(thread: int, begin: int, end: int) -> None:
        shares[thread] = range(begin, end)

    on_each_share(work, first, stop, threads)
    assert [row for share in shares for row in share] == list(range(first, stop))


def test_errors_of_threads_are_raised() -> None:
    def work(thread: int) -> None:
        if thread == 1:
            raise ValueError("from thread 1")

    with pytest.raises(ValueError, match="from thread 1"):
        on_each_thread(work, 2)


FORKED = """
import os, time
from leporid.foundation import on_each_thread

found, count = [], os.cpu_count() + 1

def work(thread):
    time.sleep(0.05)  # so that each has a thread of its own, which waits when the process forks
    found.append(thread)

on_each_thread(work, count)
time.sleep(0.05)
child = os.fork()
on_each_thread(work, count)
assert sorted(found) == sorted([*range(count)] * 2)
if child:
    assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_has_threads_of_its_own() -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORKED], check=True, timeout=30)


OVERLAP = """
import threading
import numpy
from threadpoolctl import threadpool_info
from leporid.foundation import one_thread_pool

inside, joined, left = threading.Event(), threading.Event(), threading.Event()

def first():
    with one_thread_pool(1):
        inside.set()
        joined.wait(0.5)  # until the other is in the block too, if it is let in
    left.set()

def second():
    inside.wait()
    with one_thread_pool(1):
        joined.set()
        left.wait()

threads = [threading.Thread(target=job) for job in (first, second)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print({pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"})
"""


def test_two_threads_at_once_leave_the_threads_of_blas_as_they_were() -> None:
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    run = subprocess.run(
        [sys.executable, "-c", OVERLAP], env=environment, capture_output=True, text=True
    )
    assert run.stdout == "{2}\n", run.stderr


LATER = """
import numpy
from threadpoolctl import threadpool_info
from leporid.foundation import one_thread_pool

def blas():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

with one_thread_pool(1):
    pass
import scipy.linalg  # its wheels bring a BLAS of their own
with one_thread_pool(1):
    held = blas()
print(held, blas())
"""


def test_a_blas_that_is_loaded_later_is_held_to_one_thread_too() -> None:
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    run = subprocess.run(
        [sys.executable, "-c", LATER], env=environment, capture_output=True, text=True
    )
    assert run.stdout == "{1} {2}\n", run.stderr
