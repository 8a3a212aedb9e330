"""What a process runs on: versions of packages, memory and its limits, threads.

A memory limit covers anonymous pages, not those of mapped files, which the system drops when it
must. Numba's and BLAS's pools fight for the cores (up to three times slower than either alone), so
code that runs our kernels wraps them in `one_thread_pool`.
"""

import contextlib
import ctypes
import functools
import importlib.metadata
import os
import platform
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from leporid._version import __version__
from leporid.errors import ConfigError, closest, import_extra

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

_PACKAGES = ("numpy", "scipy", "numba", "pyarrow", "torch", "optuna")
_UNITS = {
    "": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "ki": 2**10,
    "mi": 2**20,
    "gi": 2**30,
    "ti": 2**40,
}
"""Bytes in each unit of memory, in lower case and without the final b."""
_CGROUP = Path("/sys/fs/cgroup")
LIBRARIES = 120_000_000
"""What the libraries and kernels that are not loaded yet will take."""
_MIN_SPEEDUP = 1.3
"""All cores must be this much faster than one: waiting threads spin on cores requests need."""
_REPEATS = 5
_TURN = threading.RLock()
_TIMING_SECONDS = 1.0
"""Seconds after which no further repeat begins."""


class _ThreadState(threading.local):
    """What each thread knows of itself."""

    works_alone = False
    """Whether kernels that the thread runs use no other thread."""


_THREAD = _ThreadState()


def versions() -> dict[str, str]:
    """Return versions of Python, the platform and the packages that can change a number."""
    installed = {
        "python": platform.python_version(),
        "platform": f"{platform.system()}-{platform.machine()}",
        "leporid": __version__,
    }
    for package in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            installed[package] = importlib.metadata.version(package)
    return installed


def check_device(device: object) -> None:
    """Refuse a device that does not exist or is not there, before any work is done.

    Devices are `auto`, `cpu`, `cuda`, `cuda:1` and, on a Mac, `mps`; a `torch.device` is one too.
    Only a GPU makes this load torch.
    """
    name = str(device)
    kind, colon, number = name.partition(":")
    if name in ("auto", "cpu"):
        return
    if kind not in ("cuda", "mps") or (colon and not number.isdecimal()):
        guess = closest(kind, ("auto", "cpu", "cuda"))
        hint = "choose auto, cpu, cuda or cuda:1"
        if guess:
            hint = f"did you mean {guess!r}?"
        raise ConfigError(f"there is no device {device!r}: {hint}")
    torch = import_extra("torch", f"the device {name!r}", "torch")
    if kind == "mps":
        count = int(torch.backends.mps.is_available())
    else:
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count == 0:
        raise ConfigError(
            f"the device {name!r} is not there: torch finds no GPU that it can use on this "
            f"machine, use 'cpu', or 'auto' for a GPU where there is one"
        )
    if int(number or 0) >= count:
        raise ConfigError(
            f"the device {name!r} is not there: torch finds {count} GPUs and numbers them from "
            f"{kind}:0 to {kind}:{count - 1}"
        )


def parse_memory(text: str | int) -> int:
    """Return bytes: 2GB is 2 * 10^9, 2GiB is 2 * 2^30, a plain number is bytes."""
    if isinstance(text, int) and not isinstance(text, bool):
        amount = float(text)
    else:
        match = re.fullmatch(
            r"\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[kmgt]i?|)b?\s*",
            str(text).lower(),
        )
        if not match:
            raise ConfigError(
                f"memory must be an amount such as 2GB or 512MB, not {text!r}"
            )
        amount = float(match["number"]) * _UNITS[match["unit"]]
    if amount < 1:
        raise ConfigError(f"memory must be positive, not {text!r}")
    return int(amount)


def format_bytes(count: float) -> str:
    """Return an amount of memory in words: 1.2 GB, 340 MB."""
    for size, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} bytes"


def memory_left(limit: int) -> int:
    """Return the bytes of `limit` that the process has not taken yet, or refuse the limit."""
    with contextlib.suppress(AttributeError, OSError, TypeError):
        # glibc keeps up to 32 MB of every array that is freed
        ctypes.CDLL(None).malloc_trim(0)
    usage = psutil.Process().memory_info()._asdict()
    taken = int(usage["rss"] - usage.get("shared", 0))
    left = limit - taken - LIBRARIES
    if left <= 0:
        raise ConfigError(
            f"a memory limit of {format_bytes(limit)} is below what Python and its libraries "
            f"take: give at least {format_bytes(1.5 * (taken + LIBRARIES))}"
        )
    return left


def free_memory() -> int:
    """Return the bytes this process may still take, of the machine or of its control group."""
    free = int(psutil.virtual_memory().available)
    try:
        limit = int((_CGROUP / "memory.max").read_text())
        used = int((_CGROUP / "memory.current").read_text())
    except (OSError, ValueError):
        return free
    return max(0, min(free, limit - used))


def resolve_threads(threads: int | None) -> int:
    """Return the kernel threads of a `threads=` argument: all cores for None.

    `NUMBA_NUM_THREADS` is the most.
    """
    import numba

    if threads is not None and threads < 1:
        raise ConfigError(
            f"threads must be at least 1, not {threads}; None means all cores"
        )
    if threads is None:
        threads = _cores()
    return min(int(vars(numba.config)["NUMBA_NUM_THREADS"]), threads)


def _cores() -> int:
    """Return the cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS and Windows
        return os.cpu_count() or 1


def work_alone() -> None:
    """Make kernels that this thread runs use no other thread, because it answers requests."""
    import numba

    numba.set_num_threads(1)
    _THREAD.works_alone = True


@contextlib.contextmanager
def one_thread_pool(threads: int | None = None) -> Iterator[int]:
    """Run numba kernels on `threads` threads with BLAS held to one; yield the number used.

    Threads take turns: BLAS's limit belongs to the process, and two threads that set and restore it
    at once could leave it at one for good. Sums over another number of threads round differently.
    """
    import numba

    if _THREAD.works_alone:
        yield 1
        return
    count = resolve_threads(threads)
    before = numba.get_num_threads()
    with _TURN, _blas_pools(len(sys.modules)).limit(limits=1):
        numba.set_num_threads(count)
        try:
            yield count
        finally:
            numba.set_num_threads(before)


@functools.lru_cache(maxsize=1)
def _blas_pools(modules: int) -> "ThreadpoolController":
    """Return the BLAS libraries this process has loaded; look again once it has other `modules`.

    To look takes a millisecond, more than many kernels: small logs would spend their time on it.
    A library comes with the module that needs it.
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def on_each_thread(work: Callable[[int], object], threads: int) -> None:
    """Call `work(0)`, ..., `work(threads - 1)` at once, for kernels that release the GIL.

    Kernels compile in half the time without numba's parallel mode. `work` must not call this again.
    """
    others = [_pool(os.getpid()).submit(work, thread) for thread in range(1, threads)]
    try:
        work(0)
    finally:
        wait(others)
    for other in others:
        other.result()  # raises what it raised


@functools.lru_cache(maxsize=1)
def _pool(process: int) -> ThreadPoolExecutor:
    """Return threads that wait for work; new ones for each product cost a third of a solution.

    Threads do not live on in a forked process, which gets others.
    """
    return ThreadPoolExecutor(os.cpu_count(), "kernels")


def on_each_share(
    work: Callable[[int, int, int], object],
    first: int,
    stop: int,
    threads: int,
) -> None:
    """Call `work(thread, begin, end)` on each thread, with a share of the rows [first, stop)."""
    rows = stop - first
    bounds = [first + rows * thread // threads for thread in range(threads + 1)]

    def work_on_share(thread: int) -> None:
        work(thread, bounds[thread], bounds[thread + 1])

    on_each_thread(work_on_share, threads)


def chunk_rows(n_items: int, batch_size: int | None = None) -> int:
    """Return how many users evaluation and recommending score at once; `batch_size` overrides it.

    Their scores take at most an eighth of the free memory, since a model may need several such
    arrays to compute them, and at most 256 MiB. What a neural model keeps per user is not known
    here: at most 2,048 users.
    """
    if batch_size is not None:
        if batch_size < 1:
            raise ConfigError(f"batch_size must be at least 1, not {batch_size}")
        return batch_size
    memory = min(free_memory() // 8, 256 * 2**20)
    bytes_per_user = 4 * max(n_items, 1)
    rows = memory // bytes_per_user
    return max(1, min(rows, 2048))


@contextlib.contextmanager
def kept_torch_threads() -> Iterator[None]:
    """Give torch, where it is installed, as many threads after the block as before it.

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


def choose_torch_threads(score: Callable[[], object]) -> int | None:
    """Choose torch's threads by timing `score` on one and on all; None without torch."""
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


@contextlib.contextmanager
def torch_threads(threads: int | None) -> Iterator[None]:
    """Let torch use this many threads within the block; None leaves it alone."""
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
