"""The journal of a race: one JSON line per event, on disk before the race goes on.

A killed race reads it and goes on with what is left of its time; several processes may append.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from pathlib import Path
from typing import Any

from leporid.errors import ConfigError, DataError, LeporidWarning

Event = dict[str, Any]

_ENDING = {"decided", "fitted", "final fit", "tested", "chosen"}
"""Events of the end, which has time of its own: they do not count as time spent on the search."""
_CANDIDATE = {"key": str, "rung": int, "candidate": dict}
_NEEDED: dict[str, dict[str, type]] = {
    "judged": {**_CANDIDATE, "value": float, "seconds": float},
    "failed": {**_CANDIDATE, "why": str},
    "late": {**_CANDIDATE, "needs": float},
    "left out": {"model": str, "why": str},
    "plan": {"settings": dict, "speeds": dict, "starts": list},
    "round": {"phase": str, "candidates": list},
    "decided": dict.fromkeys(("taken", "winner"), str)
    | dict.fromkeys(("takes_blend", "interrupted"), bool)
    | dict.fromkeys(("budget", "left"), float),
    "chosen": {"label": str, "budget": float},
}
"""What is read of each kind of event; `float` takes any finite number."""


class Journal:
    """Events of one race; `question` says which race that is."""

    def __init__(self, path: Path, question: dict[str, Any]) -> None:
        self.path, self.events = path, list[Event]()
        self._skipped: set[int] = set()
        self.reload()
        self.is_resumed = bool(self.events)
        """Whether an earlier session has written into it."""
        if self.events and not self.of("question"):
            raise DataError(
                f"{path} does not say which race it is of: its line 'question' is lost; remove "
                f"{path.parent}, or choose another output folder"
            )
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
        """Take in what other processes have appended; a damaged line is named once and skipped."""
        self.events = []
        if not self.path.is_file():
            return
        text = self.path.read_text(encoding="utf-8", errors="replace")
        for number, line in enumerate(text.split("\n"), 1):
            try:
                event = json.loads(line)
            except (json.JSONDecodeError, RecursionError):
                continue  # cut short by a kill: what it told is done again
            if not (fault := _fault(event)):
                self.events.append(event)
            elif number not in self._skipped:
                self._skipped.add(number)
                warnings.warn(
                    f"{self.path}, line {number} is damaged ({fault}): it is skipped, and what it "
                    f"told is done again",
                    LeporidWarning,
                    stacklevel=3,
                )

    @property
    def spent(self) -> float:
        """Seconds of the search up to its last event of any session."""
        search = [float(event["at"]) for event in self.events if event["event"] not in _ENDING]
        return max(search, default=0.0)

    def of(self, *kinds: str) -> list[Event]:
        """The events of these kinds, in order."""
        return [event for event in self.events if event["event"] in kinds]


def _fault(event: Any) -> str:
    """What an event lacks; empty where it is whole."""
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        return "it is no event"
    needed = {"at": float, **_NEEDED.get(event["event"], {})}
    for name, kind in needed.items():
        if name not in event:
            return f"it has no {name!r}"
        if not _is(event[name], kind):
            return f"its {name!r} is {event[name]!r}"
    for about in [event["candidate"]] if "candidate" in event else event.get("candidates", ()):
        if not (isinstance(about, dict) and {"model", "settings"} <= about.keys()):
            return "a candidate has no 'model' or no 'settings'"
    return ""


def _is(value: Any, kind: type) -> bool:
    if kind is float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and math.isfinite(value)
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


def _ends_whole(path: Path) -> bool:
    with open(path, "rb") as file:
        file.seek(max(file.seek(0, os.SEEK_END) - 1, 0))
        return file.read() in (b"", b"\n")
