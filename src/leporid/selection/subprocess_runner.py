"""Work in a process of its own, which is killed where it outlasts its time.

A closed form (EASE inverts a matrix) does not look up while it computes, and nothing inside a
process can end it, on any system. Results come back in files that the job names.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

from leporid.errors import DataError, LeporidError
from leporid.selection.budget import OutOfTimeError

_LOOK_EVERY = 0.05
"""Seconds between two looks at the clock."""


def run_apart(
    task: Callable[..., object],
    seconds: float,
    modules: Iterable[str] = (),
    clock: Callable[[], float] = time.monotonic,
    /,
    **job: Any,
) -> None:
    """`task(**job)` in a new process; `OutOfTimeError` if it is not done after `seconds`.

    `task` is a function of a module and `job` has plain values. `modules` are imported first: those
    of models that are not in the catalogue.
    """
    order = {"modules": [task.__module__, *modules], "task": task.__qualname__, "job": job}
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    begun = clock()
    with tempfile.TemporaryFile("w+", encoding="utf-8") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=said,
            env={**os.environ, "PYTHONPATH": paths},
        )
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(order).encode() + b"\n")
            process.stdin.flush()  # left open: the process ends with this one
            while _runs(process):
                if clock() - begun >= seconds:
                    raise OutOfTimeError("stopped: its time was over")
        finally:
            process.kill()
            process.stdin.close()
            process.wait()
        if process.returncode:
            said.seek(0)
            lines = said.read().strip().splitlines()
            raise DataError(lines[-1] if lines else f"its process ended with {process.returncode}")


def _runs(process: subprocess.Popen[bytes]) -> bool:
    """Whether it still runs after a moment."""
    try:
        process.wait(timeout=_LOOK_EVERY)
    except subprocess.TimeoutExpired:
        return True
    return False


def _work() -> None:
    """What the new process does: read the order, carry it out, end when the other one ends."""
    order = json.loads(sys.stdin.readline())
    threading.Thread(target=lambda: os.read(0, 1) or os._exit(1), daemon=True).start()
    task, *_ = [import_module(name) for name in order["modules"]]
    try:
        getattr(task, order["task"])(**order["job"])
    except LeporidError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    _work()
