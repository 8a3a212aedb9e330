"""Work that takes its time, importable by other processes."""

from __future__ import annotations

import os
import time
from pathlib import Path

from leporid.errors import DataError


def sleep(pid: str) -> None:
    Path(pid).write_text(str(os.getpid()))
    time.sleep(600)


def write(to: str, text: str) -> None:
    Path(to).write_text(text, encoding="utf-8")


def refuse() -> None:
    raise DataError("there is nothing to do: leave it")


def crash() -> None:
    raise ValueError("what is this")
