"""Memory limits: how they are written, and how much of one is left.

A limit covers anonymous pages, not those of mapped files, which the system drops when it must.
"""

import contextlib
import ctypes
import re
from pathlib import Path

import psutil

from leporid.errors import ConfigError

_UNITS = {"": 1, "b": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_UNITS |= {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_CGROUP = Path("/sys/fs/cgroup")
LIBRARIES = 120_000_000
"""What the libraries and kernels that are not loaded yet will take."""


def parse_memory(text: str | int) -> int:
    """Bytes: 2GB is 2 * 10^9, 2GiB is 2 * 2^30, a plain number is bytes."""
    if isinstance(text, int) and not isinstance(text, bool):
        amount = float(text)
    else:
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?|)b?\s*", str(text).lower())
        if not found:
            raise ConfigError(f"memory must be an amount such as 2GB or 512MB, not {text!r}")
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
        ctypes.CDLL(None).malloc_trim(0)  # glibc keeps up to 32 MB of every array that is freed
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
