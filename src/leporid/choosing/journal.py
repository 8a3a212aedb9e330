"""The journal of a race: one JSON line per event, on disk before the race goes on.

A killed race reads it and goes on with what is left of its time; several processes may append.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leporid.errors import ConfigError, DataError

Event = dict[str, Any]


class Journal:
    """Events of one race; `question` says which race that is."""

    def __init__(self, path: Path, question: dict[str, Any]) -> None:
        self.path, self.events = path, list(_read(path))
        asked, *_ = self.of("question") or [self.append("question", at=0.0, **question)]
        for key, value in question.items():
            if asked.get(key) != value:
                raise ConfigError(
                    f"{path.parent} holds a race with another {key} ({asked.get(key)!r} instead "
                    f"of {value!r}): choose another output folder"
                )

    def append(self, event: str, *, at: float, **fields: Any) -> Event:
        """Write an event; it is on the disk when this returns. `at` is the time spent so far."""
        row = {"event": event, "at": round(at, 3), **fields}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # A line that a kill cut short must not swallow this one.
            torn = self.path.is_file() and not _ends_whole(self.path)
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(("\n" if torn else "") + json.dumps(row, ensure_ascii=False) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise DataError(f"could not write {self.path}: {error.strerror or error}") from error
        self.events.append(row)
        return row

    def reload(self) -> None:
        """Take in what other processes have appended."""
        self.events = list(_read(self.path))

    @property
    def spent(self) -> float:
        """Seconds up to the last event of any sitting."""
        return max((float(event["at"]) for event in self.events), default=0.0)

    def of(self, *kinds: str) -> list[Event]:
        """The events of these kinds, in order."""
        return [event for event in self.events if event["event"] in kinds]


def _read(path: Path) -> Iterator[Event]:
    if not path.is_file():
        return
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            event = json.loads(line)
        except json.JSONDecodeError:
            continue  # cut short by a kill: what it told is done again
        if isinstance(event, dict) and {"event", "at"} <= event.keys():
            yield event


def _ends_whole(path: Path) -> bool:
    with open(path, "rb") as file:
        file.seek(max(file.seek(0, os.SEEK_END) - 1, 0))
        return file.read() in (b"", b"\n")
