"""Memory limits: how they are written, and how much of one is left.

A limit covers the memory of the process itself (anonymous pages: arrays, tables, compiled code).
Pages of files that are mapped into it are the operating system's, which drops them when memory is
short, and are not counted.
"""

from __future__ import annotations

import re
from pathlib import Path

from leporid.errors import ConfigError

__all__ = ["format_bytes", "memory_left", "parse_memory"]

_UNITS = {"": 1, "b": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
AT_START = 300_000_000
"""What Python and the libraries take, where the system does not say."""
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
        amount = float(found[1]) * {**_UNITS, **_BINARY}[found[2]]
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
    taken = AT_START
    status = Path("/proc/self/status")
    if status.is_file():
        for line in status.read_text().splitlines():
            if line.startswith("RssAnon:"):
                taken = int(line.split()[1]) * 1024
    left = limit - taken - LIBRARIES
    if left <= 0:
        raise ConfigError(
            f"a memory limit of {format_bytes(limit)} is below what Python and its libraries "
            f"take: give at least {format_bytes(1.5 * (taken + LIBRARIES))}"
        )
    return left
