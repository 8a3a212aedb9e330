"""Kills a save at every step it takes on the disk, and looks at what is left.

A save is forked; an audit hook counts the calls that change the disk and sends SIGKILL at the
n-th. Then the artifact must be the old one or the new one, and whole. Two steps cannot be seen by
the hook: the exchange of two folders, which is one system call, and the writing inside safetensors,
which goes to a file that has no name of ours yet.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

CHANGES = {"os.rename", "os.link", "os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree"}


def killed_at_every_step(write: Callable[[], Any], look: Callable[[], Any]) -> int:
    """Run `write` until it survives, killed one step later each time; `look` after each death."""
    for step in range(1, 400):
        child = os.fork()
        if child == 0:
            try:
                _die_at(step)
                write()
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        look()
        if not os.WIFSIGNALED(status):
            return step - 1
    raise AssertionError("the save never came to an end")


def _die_at(step: int) -> None:
    left = [step]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_CREAT
        # ctypes.call_function has no event by default; the library look-up before it has.
        if event in CHANGES or writes or event == "ctypes.dlsym":
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def leftovers(folder: Path) -> list[str]:
    """Hidden names beside the artifacts."""
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))
