"""`Meter`: wall-clock time and peak memory of a block of code."""

import contextlib
import re
import time
from pathlib import Path
from typing import Self

import psutil


class Meter:
    """`with Meter() as meter: ...` measures wall-clock seconds and peak resident memory."""

    seconds: float = 0.0
    peak_memory_mb: float = 0.0

    def __enter__(self) -> Self:
        # Linux lets a process reset its high-water mark; elsewhere it covers the whole process.
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        self._start = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._start
        self.peak_memory_mb = peak_memory_mb()


def peak_memory_mb() -> float:
    """Return the highest resident memory of this process in MiB, since a `Meter` began or ever.

    Linux and Windows keep that mark. Where there is none, it is what is resident now.
    """
    with contextlib.suppress(OSError):
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        mark = re.search(r"^VmHWM:\s+(\d+) kB", status, flags=re.MULTILINE)
        if mark:
            return int(mark[1]) / 1024
    memory = psutil.Process().memory_info()._asdict()
    return float(memory.get("peak_wset", memory["rss"]) / 2**20)
