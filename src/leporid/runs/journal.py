"""One journal of finished work, and locks that give one piece of work to one process.

A killed search or study reads its journal and goes on. The operating system releases the lock of
a process that dies. Hosts can share a folder on any file system that has locks (NFS has them).
"""

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, TypeAlias

from filelock import FileLock, Timeout

from leporid.errors import ConfigError, DataError, warn
from leporid.foundation import JsonValue

Event: TypeAlias = dict[str, Any]
"""A line of a journal. What it must hold is checked when it is read."""
Schema: TypeAlias = type | Sequence["Schema"] | Mapping[str, "Schema"]
"""What an event must hold: a type (float: any finite number), `[schema]`, or `{name: schema}`."""


@contextmanager
def try_lock(path: Path) -> Iterator[bool]:
    """Try to lock; yields True to exactly one worker, which holds the lock until the block ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        # Removed while it is locked: whoever creates it anew finds the finished work.
        # (Windows refuses to remove an open file; there, releasing the lock removes it.)
        with suppress(OSError):
            path.unlink()
        lock.release()


class Journal:
    """JSON lines of one search or study, each on disk before the work goes on.

    `question` says what was asked: a journal that was asked something else is refused. Several
    studies may share a file. Without a path the journal is in memory.
    """

    def __init__(
        self,
        path: Path | None,
        question: Mapping[str, JsonValue],
        *,
        study: str = "",
        schemas: Mapping[str, Schema] | None = None,
    ) -> None:
        self.path = path
        self._study = study
        self._schemas = schemas or {}
        self._locks = Path(f"{path}.locks")
        self.events: list[Event] = []
        self._skipped: set[int] = set()
        self.reload()
        self.is_resumed = bool(self.events)
        """Whether an earlier session has written into it."""
        if self.events and not self.of("question"):
            raise DataError(
                f"the line 'question' of {path} is lost, so what was asked is not known: remove "
                f"the file, or choose another"
            )
        questions = self.of("question") or [self.append("question", **question)]
        for key, value in question.items():
            answered = questions[0].get(key)
            if answered != value:
                raise ConfigError(
                    f"{path} was made for {key} {answered!r}, not {value!r}: choose another "
                    f"output folder, storage file or study name"
                )

    def try_lock(self, name: str) -> AbstractContextManager[bool]:
        """Try to lock a piece of work that this journal tells of."""
        return nullcontext(True) if self.path is None else try_lock(self._locks / name)

    def append(self, event: str, **fields: object) -> Event:
        """Write an event, whose fields JSON can hold; it is on disk when this returns."""
        row: Event = {"event": event}
        if self._study:
            row["study"] = self._study
        row |= fields
        if self.path is not None:
            try:
                self._write(self.path, json.dumps(row, ensure_ascii=False))
            except OSError as error:
                raise DataError(
                    f"could not write {self.path}: {error.strerror or error}; what is finished is "
                    f"kept, and the same command goes on once there is room"
                ) from error
        self.events.append(row)
        return row

    def _write(self, path: Path, line: str) -> None:
        self._locks.mkdir(parents=True, exist_ok=True)
        with FileLock(self._locks / "append"), open(path, "ab+") as file:
            # A line that a kill cut short must not swallow this one.
            file.seek(max(file.seek(0, os.SEEK_END) - 1, 0))
            is_torn = file.read() not in (b"", b"\n")
            file.write((b"\n" if is_torn else b"") + line.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def reload(self) -> None:
        """Take in what other processes have appended; a damaged line is named once and skipped."""
        if self.path is None:
            return
        self.events = []
        text = ""
        if self.path.is_file():
            text = self.path.read_text(encoding="utf-8", errors="replace")
        for number, line in enumerate(text.split("\n"), 1):
            try:
                event = json.loads(line)
            except (json.JSONDecodeError, RecursionError):
                continue  # cut short by a kill: what it told is done again
            fault = fault_of(event, {"event": str})
            fault = fault or fault_of(event, self._schemas.get(event["event"], {}))
            if fault and number not in self._skipped:
                self._skipped.add(number)
                warn(
                    f"{self.path}, line {number} is damaged ({fault}): it is skipped, and what "
                    f"it told is done again",
                    3,
                )
            elif not fault and event.get("study", "") == self._study:
                self.events.append(event)

    def of(self, *kinds: str) -> list[Event]:
        """Return the events of some kinds, in their order."""
        return [event for event in self.events if event["event"] in kinds]


def fault_of(value: object, schema: Schema, name: str = "it") -> str:
    """Say what is wrong with a value; empty if it has the schema."""
    if isinstance(schema, Mapping):
        if not isinstance(value, dict):
            return f"{name} is {value!r}"
        for key, part in schema.items():
            if key not in value:
                return f"{name} has no {key!r}"
            fault = fault_of(value[key], part, f"its {key!r}")
            if fault:
                return fault
        return ""
    if isinstance(schema, Sequence):
        if not isinstance(value, list):
            return f"{name} is {value!r}"
        faults = (fault_of(entry, schema[0], "an entry") for entry in value)
        return next(filter(None, faults), "")
    return "" if is_of_type(value, schema) else f"{name} is {value!r}"


def is_of_type(value: object, kind: type) -> bool:
    """Tell whether a value has a type; a float is any finite number, and no number is a bool."""
    if isinstance(value, bool):
        return kind is bool
    if kind is float:
        return isinstance(value, int | float) and math.isfinite(value)
    return isinstance(value, kind)
