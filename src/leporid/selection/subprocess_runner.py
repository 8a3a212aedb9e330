"""Run a task in a subprocess that is killed at its deadline.

A closed form (EASE inverts a matrix) cannot be stopped inside its process. Results come back in
files that the job names.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import import_module

from leporid.errors import DataError, LeporidError
from leporid.foundation import JsonValue
from leporid.selection.budget import OutOfTimeError

_POLL_SECONDS = 0.05


def run_in_subprocess(
    task: Callable[..., object],
    seconds: float,
    modules: Iterable[str] = (),
    clock: Callable[[], float] = time.monotonic,
    /,
    **job: JsonValue,
) -> None:
    """Call `task(**job)` in a new process; `OutOfTimeError` if it is not done after `seconds`.

    `task` is a function of a module and `job` has plain values. `modules` are imported first: they
    register models that are not in the catalogue.
    """
    order = {
        "modules": [task.__module__, *modules],
        "task": task.__qualname__,
        "job": job,
    }
    begun = clock()
    with tempfile.TemporaryFile("w+", encoding="utf-8") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            env={**os.environ, "PYTHONPATH": _python_path()},
        )
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(order).encode() + b"\n")
            process.stdin.flush()  # left open: the process ends with this one
            while process.poll() is None:
                if clock() - begun >= seconds:
                    raise OutOfTimeError("stopped at its deadline")
                with suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=_POLL_SECONDS)
        finally:
            process.kill()
            process.stdin.close()
            process.wait()
        if process.returncode:
            stderr.seek(0)
            lines = stderr.read().strip().splitlines()
            reason = f"its process ended with {process.returncode}"
            raise DataError(lines[-1] if lines else reason)


def _python_path() -> str:
    """Return where this process finds its modules, for another one."""
    return os.pathsep.join(path or os.getcwd() for path in sys.path)


def _work() -> None:
    """Read the order from stdin and carry it out; end when the parent process ends."""
    order = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    module, *_ = [import_module(name) for name in order["modules"]]
    task = vars(module)[order["task"]]
    try:
        task(**order["job"])
    except LeporidError as error:
        sys.exit(str(error))


def _end_with_parent() -> None:
    """Wait until the parent process closes the pipe, and end this process at once."""
    if not os.read(0, 1):
        os._exit(1)


if __name__ == "__main__":
    _work()
