"""Several processes, one directory, no cell run twice.

A worker claims a cell by locking a file. The operating system releases the lock of a process that
dies, so a killed run goes on where it was. Hosts can share a directory on any file system that has
locks (NFS has them).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

_PATIENCE_SECONDS = 0.1
"""`is_claimed` holds the lock for a moment: a worker that meets it there tries again."""


@contextmanager
def claim(path: Path, patience: float = _PATIENCE_SECONDS) -> Iterator[bool]:
    """Try to claim; yields True to exactly one worker, which holds it until the block ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(timeout=patience, poll_interval=0.01)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        # Removed while it is locked: whoever creates it anew finds the record of the cell.
        # (Windows refuses to remove an open file; there, releasing the lock removes it.)
        with suppress(OSError):
            path.unlink()
        lock.release()


def is_claimed(path: Path) -> bool:
    """Whether a living worker holds the claim `path`."""
    if not path.exists():
        return False
    with claim(path, patience=0) as free:
        return not free
