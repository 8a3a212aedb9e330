"""How many users to score at once."""

from __future__ import annotations

import os
from pathlib import Path

from leporid.errors import ConfigError

__all__ = ["chunk_rows", "free_memory"]

_SHARE = 8
_LARGEST = 256 * 2**20
_MOST_USERS = 2048
_CGROUP = Path("/sys/fs/cgroup")


def chunk_rows(n_items: int, batch_size: int | None = None) -> int:
    """Rows of float32 scores to hold at once.

    The scores of a chunk take at most an eighth of the free memory, since a model may need
    several such arrays to compute them, and at most 256 MiB; a chunk has at most 2,048 users,
    since what a neural model keeps for each is not known here, and at least one. A given
    `batch_size` wins.
    """
    if batch_size is not None:
        if batch_size < 1:
            raise ConfigError(f"batch_size must be at least 1, not {batch_size}")
        return batch_size
    rows = min(free_memory() // _SHARE, _LARGEST) // (4 * max(n_items, 1))
    return max(1, min(rows, _MOST_USERS))


def free_memory() -> int:
    """Bytes this process may still take: the machine's, or its control group's if that is less."""
    free = _available()
    try:
        limit = int((_CGROUP / "memory.max").read_text())
        used = int((_CGROUP / "memory.current").read_text())
    except (OSError, ValueError):
        return free
    return max(0, min(free, limit - used))


def _available() -> int:
    meminfo = Path("/proc/meminfo")
    if meminfo.is_file():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    # Elsewhere only the installed memory is known; assume that half of it is free.
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
