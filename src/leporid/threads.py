"""How many threads the kernels and torch use.

Numba's and BLAS's pools fight for the cores (up to three times slower than either alone), so code
that runs our kernels wraps them in `one_thread_pool`.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from leporid.errors import ConfigError

_MIN_SPEEDUP = 1.3
"""All cores must be this much faster than one: waiting threads spin on cores requests need."""
_REPEATS = 5
_LOCAL = threading.local()
_TURN = threading.RLock()
_TIMING_SECONDS = 1.0
"""Seconds after which no further repeat begins."""


def resolve_threads(threads: int | None) -> int:
    """Kernel threads of a `threads=` argument, None for all cores; at most `NUMBA_NUM_THREADS`."""
    import numba

    if threads is not None and threads < 1:
        raise ConfigError(f"threads must be at least 1, not {threads}; None means all cores")
    settings: Any = numba.config
    if threads is None:
        affinity = getattr(os, "sched_getaffinity", None)
        threads = len(affinity(0)) if affinity else os.cpu_count() or 1
    return min(int(settings.NUMBA_NUM_THREADS), threads)


def work_alone() -> None:
    """From now on, kernels that this thread runs use no other thread: it answers requests."""
    import numba

    numba.set_num_threads(1)
    _LOCAL.alone = True


@contextmanager
def one_thread_pool(threads: int | None = None) -> Iterator[int]:
    """Run numba kernels on `threads` threads with BLAS held to one; yields the number used.

    Threads take turns: BLAS's limit belongs to the process, and two threads that set and restore it
    at once could leave it at one for good. Sums over another number of threads round differently.
    """
    import numba
    from threadpoolctl import threadpool_limits

    if hasattr(_LOCAL, "alone"):
        yield 1
        return
    count = resolve_threads(threads)
    before = numba.get_num_threads()
    with _TURN, threadpool_limits(limits=1, user_api="blas"):
        numba.set_num_threads(count)
        try:
            yield count
        finally:
            numba.set_num_threads(before)


def on_each_thread(work: Callable[[int], Any], threads: int) -> None:
    """Call `work(0)`, ..., `work(threads - 1)` at once, for kernels that release the GIL.

    Kernels compile in half the time without numba's parallel mode.
    """
    if threads == 1:
        work(0)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))  # raises what any of them raised


def on_each_share(
    work: Callable[[int, int, int], Any], first: int, stop: int, threads: int
) -> None:
    """`work(thread, begin, end)` on each thread, with its share of the rows [first, stop)."""
    bounds = [first + (stop - first) * thread // threads for thread in range(threads + 1)]
    on_each_thread(lambda thread: work(thread, bounds[thread], bounds[thread + 1]), threads)


@contextmanager
def kept_torch_threads() -> Iterator[None]:
    """Torch, where it is installed, has as many threads after the block as before it.

    A numba kernel can change the number of OpenMP threads of the whole process, torch's too, and
    sums over another number of threads round differently.
    """
    try:
        import torch
    except ModuleNotFoundError:
        yield
        return
    # Until the count has been set once, MKL also takes fewer threads where it likes.
    with torch_threads(torch.get_num_threads()):
        yield


def choose_torch_threads(score: Callable[[], Any]) -> int | None:
    """Torch's threads for a model, by timing `score` on one and on all; None without torch."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    most: int = torch.get_num_threads()
    if most < 2:
        return most
    score()  # the first call compiles and fills caches
    spent = {1: float("inf"), most: float("inf")}
    end = time.perf_counter() + _TIMING_SECONDS
    with kept_torch_threads():
        for _ in range(_REPEATS):
            for threads in spent:
                torch.set_num_threads(threads)
                began = time.perf_counter()
                score()
                spent[threads] = min(spent[threads], time.perf_counter() - began)
            if time.perf_counter() > end:
                break
    return most if spent[1] > _MIN_SPEEDUP * spent[most] else 1


@contextmanager
def torch_threads(threads: int | None) -> Iterator[None]:
    """Torch uses this many threads within the block; None leaves it alone."""
    if threads is None:
        yield
        return
    torch = sys.modules["torch"]
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
