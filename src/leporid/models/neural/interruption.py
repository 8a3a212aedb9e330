"""Ctrl-C during a training: the loop stops between two steps, so that it can be resumed."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def interruptible() -> Iterator[threading.Event]:
    """Turn the first Ctrl-C in the main thread into an event; the second one interrupts."""
    interruption = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        if interruption.is_set():
            signal.default_int_handler(number, frame)
        interruption.set()

    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    handler_before = signal.signal(signal.SIGINT, note)
    try:
        yield interruption
    finally:
        signal.signal(signal.SIGINT, handler_before)
