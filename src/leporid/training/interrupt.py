"""Ctrl-C asks the loop to stop between two steps, so that a checkpoint is whole."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

__all__ = ["interruptible"]


@contextlib.contextmanager
def interruptible() -> Iterator[threading.Event]:
    """`with interruptible() as asked:` turns the first Ctrl-C into `asked.is_set()`.

    The second one interrupts at once, as usual. Outside the main thread signals belong to the
    caller, and nothing is changed.
    """
    asked = threading.Event()

    def ask(number: int, frame: Any) -> None:
        if asked.is_set():
            signal.default_int_handler(number, frame)
        asked.set()

    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = signal.signal(signal.SIGINT, ask)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)
