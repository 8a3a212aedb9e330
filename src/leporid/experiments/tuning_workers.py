"""Who works on a study: how a process that died is told from one that is busy.

Host names repeat in containers and process ids everywhere, so each worker has a random token.
Where the study is a file, the worker locks a file of that name beside it, and the operating system
releases the lock when the worker dies. Where it is a database server, the worker writes a count
into the study every few seconds, and one whose count stands still is dead.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

_BEAT_SECONDS = 10.0
_LEASE_SECONDS = 60.0
"""A worker whose count stands still for that long is dead."""


class Workers:
    """The workers of one study; of one in memory, the only worker."""

    def __init__(self) -> None:
        self.token = secrets.token_hex(8)
        """This worker's."""

    def turn(self) -> AbstractContextManager[Any]:
        """Held while a trial is begun: one worker at a time, as far as the storage allows."""
        return contextlib.nullcontext()

    def is_alive(self, token: str) -> bool | None:
        """None: not known yet."""
        return token == self.token

    def close(self) -> None:
        """Work on it no longer."""


class LockedWorkers(Workers):
    """Workers that share a folder, on any file system that has locks (NFS has them)."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._own = FileLock(self._path(self.token))
        self._own.acquire()

    def turn(self) -> AbstractContextManager[Any]:
        """Nobody else is between asking for a trial and putting a name to it."""
        return FileLock(self._folder / "turn.lock")

    def is_alive(self, token: str) -> bool | None:
        """Whether the worker's file is locked."""
        path = self._path(token)
        if token == self.token or not path.exists():
            return token == self.token
        lock = FileLock(path)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return True
        _remove(lock, path)
        return False

    def close(self) -> None:
        """Work on it no longer, and remove what the dead have left."""
        _remove(self._own, self._path(self.token))
        for path in self._folder.glob("worker-*.lock"):
            self.is_alive(path.stem.removeprefix("worker-"))

    def _path(self, token: str) -> Path:
        return self._folder / f"worker-{token}.lock"


class BeatingWorkers(Workers):
    """Workers that share nothing but the study.

    A database server has no lock for `turn`: the budget is checked after the fact.
    """

    def __init__(self, study: Any, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._study, self._clock = study, clock
        self._seen: dict[str, tuple[Any, float, bool | None]] = {}
        self._end = threading.Event()
        self._beat(0)
        self._thread = threading.Thread(target=self._beats, daemon=True)
        self._thread.start()

    def _beats(self) -> None:
        count = 0
        while not self._end.wait(_BEAT_SECONDS):
            count += 1
            with contextlib.suppress(Exception):  # the next beat may get through
                self._beat(count)

    def _beat(self, count: int) -> None:
        self._study.set_user_attr(f"worker-{self.token}", count)

    def is_alive(self, token: str) -> bool | None:
        """By this process's clock alone: those of two hosts may differ."""
        if token == self.token:
            return True
        now, count = self._clock(), self._study.user_attrs.get(f"worker-{token}")
        before, since, alive = self._seen.get(token, (count, now, None))
        if count != before:
            since, alive = now, True
        elif now - since >= _LEASE_SECONDS:
            alive = False
        self._seen[token] = count, since, alive
        return alive

    def close(self) -> None:
        """Work on it no longer."""
        self._end.set()
        self._thread.join()


def _remove(lock: FileLock, path: Path) -> None:
    """Remove a file while it is locked (Windows: after), then let go."""
    with contextlib.suppress(OSError):
        path.unlink()
    lock.release()
    with contextlib.suppress(OSError):
        path.unlink()
