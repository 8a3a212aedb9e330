"""Several processes, one directory, no cell run twice.

A worker claims a cell by creating a file exclusively, and touches it while it works. A claim that
has not been touched for a while belongs to a process that died, and may be taken over; one of this
machine whose process is gone at once, so that a killed run goes on where it was.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["STALE_SECONDS", "claim", "claimed_by_other"]

STALE_SECONDS = 60.0
_HEARTBEAT_SECONDS = 5.0


def claimed_by_other(path: Path) -> bool:
    """Whether a living worker holds the claim `path`."""
    try:
        fresh = time.time() - path.stat().st_mtime < STALE_SECONDS
        return fresh and not _is_of_the_dead(path.read_bytes())
    except FileNotFoundError:
        return False


def _is_of_the_dead(owner: bytes) -> bool:
    """Whether a claim names a process of this machine that no longer runs."""
    here = _machine()
    try:
        said = json.loads(owner)
    except json.JSONDecodeError:
        # Made a moment ago, not yet written.
        return False
    return bool(here) and said.get("machine") == here and not Path(f"/proc/{said['pid']}").exists()


def _machine() -> str:
    """This boot and process namespace (Linux), where a process number means one thing; else ''."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


@contextmanager
def claim(path: Path) -> Iterator[bool]:
    """Try to claim; yields True to exactly one worker, which holds it until the block ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not _take(path):
        yield False
        return
    stop = threading.Event()
    beat = threading.Thread(target=_heartbeat, args=(path, stop), daemon=True)
    beat.start()
    try:
        yield True
    finally:
        stop.set()
        beat.join()
        path.unlink(missing_ok=True)


def _take(path: Path) -> bool:
    name = {"host": socket.gethostname(), "machine": _machine(), "pid": os.getpid()}
    owner = json.dumps(name).encode()
    if path.exists() and not claimed_by_other(path):
        # Rename before removing: of several workers that see a dead claim, one wins the rename.
        grave = path.with_name(f"{path.name}.{socket.gethostname()}.{os.getpid()}.dead")
        try:
            path.rename(grave)
        except FileNotFoundError:
            return False
        if claimed_by_other(grave):
            # Between our look and our rename somebody else took it over: give it back.
            os.link(grave, path)
            grave.unlink()
            return False
        grave.unlink()
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    except FileExistsError:
        return False
    with os.fdopen(handle, "wb") as file:
        file.write(owner)
    return True


def _heartbeat(path: Path, stop: threading.Event) -> None:
    while not stop.wait(_HEARTBEAT_SECONDS):
        try:
            os.utime(path)
        except FileNotFoundError:
            return
