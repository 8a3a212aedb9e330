"""Ctrl-C asks the loop to stop between two steps, so that a checkpoint is whole."""

from __future__ import annotations

import signal
import threading
from typing import Any, Self

__all__ = ["Interrupt"]


class Interrupt:
    """`with Interrupt() as interrupt:` turns the first Ctrl-C into `interrupt.asked`.

    The second one interrupts at once, as usual. Outside the main thread signals belong to the
    caller, and nothing is changed.
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: Any = None
        self._active = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> Self:
        if self._active:
            self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        if self._active:
            signal.signal(signal.SIGINT, self._before)

    def _ask(self, number: int, frame: Any) -> None:
        if self.asked:
            signal.default_int_handler(number, frame)
        self.asked = True
