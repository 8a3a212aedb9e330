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
from typing import TYPE_CHECKING, Any

import psutil

from leporid._version import __version__
from leporid.errors import ConfigError, closest, import_extra

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

_PACKAGES = ("numpy", "scipy", "numba", "pyarrow", "torch", "optuna")
_UNITS = {"": 1, "b": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_UNITS |= {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_CGROUP = Path("/sys/fs/cgroup")
LIBRARIES = 120_000_000
"""What the libraries and kernels that are not loaded yet will take."""
_MIN_SPEEDUP = 1.3
"""All cores must be this much faster than one: waiting threads spin on cores requests need."""
_REPEATS = 5
_LOCAL = threading.local()
_TURN = threading.RLock()
_TIMING_SECONDS = 1.0
"""Seconds after which no further repeat begins."""


def versions() -> dict[str, str]:
    """Versions of Python, the platform and the packages that can change a number."""
    machine = f"{platform.system()}-{platform.machine()}"
    installed = {
        "python": platform.python_version(),
        "platform": machine,
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
        hint = (
            f"did you mean {guess!r}?" if guess else "choose auto, cpu, cuda or cuda:1"
        )
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
    """Bytes: 2GB is 2 * 10^9, 2GiB is 2 * 2^30, a plain number is bytes."""
    if isinstance(text, int) and not isinstance(text, bool):
        amount = float(text)
    else:
        found = re.fullmatch(
            r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?|)b?\s*", str(text).lower()
        )
        if not found:
            raise ConfigError(
                f"memory must be an amount such as 2GB or 512MB, not {text!r}"
            )
        amount = float(found[1]) * _UNITS[found[2]]
    if amount < 1:
        raise ConfigError(f"memory must be positive, not {text!r}")
    return int(amount)


def format_bytes(count: float) -> str:
    """1.2 GB, 340 MB."""
    for size, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} bytes"


def memory_left(limit: int) -> int:
    """Bytes of `limit` that the process has not taken yet; an error where there are none."""
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(
            0
        )  # glibc keeps up to 32 MB of every array that is freed
    usage = psutil.Process().memory_info()
    taken = int(usage.rss - getattr(usage, "shared", 0))
    left = limit - taken - LIBRARIES
    if left <= 0:
        raise ConfigError(
            f"a memory limit of {format_bytes(limit)} is below what Python and its libraries "
            f"take: give at least {format_bytes(1.5 * (taken + LIBRARIES))}"
        )
    return left


def free_memory() -> int:
    """Bytes this process may still take: the machine's, or its control group's if that is less."""
    free = int(psutil.virtual_memory().available)
    try:
        limit = int((_CGROUP / "memory.max").read_text())
        used = int((_CGROUP / "memory.current").read_text())
    except (OSError, ValueError):
        return free
    return max(0, min(free, limit - used))


def resolve_threads(threads: int | None) -> int:
    """Kernel threads of a `threads=` argument, None for all cores; at most `NUMBA_NUM_THREADS`."""
    import numba

    if threads is not None and threads < 1:
        raise ConfigError(
            f"threads must be at least 1, not {threads}; None means all cores"
        )
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


@contextlib.contextmanager
def one_thread_pool(threads: int | None = None) -> Iterator[int]:
    """Run numba kernels on `threads` threads with BLAS held to one; yields the number used.

    Threads take turns: BLAS's limit belongs to the process, and two threads that set and restore it
    at once could leave it at one for good. Sums over another number of threads round differently.
    """
    import numba

    if hasattr(_LOCAL, "alone"):
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
    """The BLAS libraries this process has loaded; looked for again once it has other `modules`.

    To look takes a millisecond, more than many kernels: small logs would spend their time on it.
    A library comes with the module that needs it.
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def on_each_thread(work: Callable[[int], Any], threads: int) -> None:
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
    """Threads that wait for work: to start some for each product costs a third of a solution.

    They do not live on in a forked process, which gets others.
    """
    return ThreadPoolExecutor(os.cpu_count(), "kernels")


def on_each_share(
    work: Callable[[int, int, int], Any], first: int, stop: int, threads: int
) -> None:
    """`work(thread, begin, end)` on each thread, with its share of the rows [first, stop)."""
    bounds = [
        first + (stop - first) * thread // threads for thread in range(threads + 1)
    ]
    on_each_thread(
        lambda thread: work(thread, bounds[thread], bounds[thread + 1]), threads
    )


@contextlib.contextmanager
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


@contextlib.contextmanager
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
