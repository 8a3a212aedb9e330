"""Ctrl-C and SIGTERM: the first lets long work end in order, the second stops it at once."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NoReturn

from leporid.errors import TrainingInterruptedError


class Terminated(KeyboardInterrupt):
    """SIGTERM, raised where Ctrl-C raises `KeyboardInterrupt`."""


class Interruption:
    """The first signal that arrived."""

    by: signal.Signals | None = None
    """None while nobody has interrupted."""


@contextlib.contextmanager
def interruptible() -> Iterator[Interruption]:
    """Note the first Ctrl-C or SIGTERM in the main thread; the second one raises.

    A handler of SIGTERM that somebody else installed keeps it.
    """
    interruption = Interruption()

    def note(number: int, frame: FrameType | None) -> None:
        if interruption.by is not None:
            interrupt(number, frame)
        interruption.by = signal.Signals(number)

    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    ours = (signal.SIG_DFL, interrupt)
    caught = [signal.SIGINT]
    if signal.getsignal(signal.SIGTERM) in ours:
        caught.append(signal.SIGTERM)
    with _handled(caught, note):
        yield interruption


@contextlib.contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Raise `Terminated` in the main thread when SIGTERM arrives, as Ctrl-C interrupts."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with _handled([signal.SIGTERM], interrupt):
        yield


def interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """Interrupt whatever runs, as the handler of a signal."""
    raise Terminated if number == signal.SIGTERM else KeyboardInterrupt


def signal_of(error: BaseException) -> signal.Signals:
    """Return the signal that an interruption came from."""
    if isinstance(error, TrainingInterruptedError):
        return error.by
    return signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT


@contextlib.contextmanager
def _handled(
    numbers: list[signal.Signals], handler: Callable[[int, FrameType | None], None]
) -> Iterator[None]:
    """Give these signals a handler in the block."""
    before = [signal.signal(number, handler) for number in numbers]
    try:
        yield
    finally:
        for number, earlier in zip(numbers, before, strict=True):
            signal.signal(number, earlier)
