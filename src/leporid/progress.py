"""Progress of long work on stderr: a bar on a terminal or in a notebook, else plain lines.

`LEPORID_PROGRESS=off` silences every `progress=True`.
"""

import importlib.util
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from leporid.errors import ConfigError


class ProgressLike:
    """What long work reports to: a named stage with a total, then steps. This one says nothing."""

    def start(self, description: str, total: int | None = None) -> None:
        """Begin a stage; the previous one is finished."""

    def advance(self, steps: int = 1, **fields: Any) -> None:
        """`steps` units of the stage are done; `fields` are shown beside the bar, and one of them,
        `can_end_at`, is a number of units after which the stage may be over early."""

    def close(self) -> None:
        """All work is done."""


NullProgress = ProgressLike
Progress = bool | ProgressLike | None
"""What `progress=` takes."""


class RichProgress(ProgressLike):
    """A bar per stage on the terminal, with rate, time left and the caller's own fields."""

    def __init__(self, console: Any | None = None) -> None:
        from rich import progress as bars

        self._progress = bars.Progress(
            bars.TextColumn("{task.description}"),
            bars.BarColumn(),
            bars.MofNCompleteColumn(),
            bars.TimeElapsedColumn(),
            bars.TimeRemainingColumn(),
            bars.TextColumn("{task.fields[note]}"),
            console=console,
        )
        self._task: Any = None

    def start(self, description: str, total: int | None = None) -> None:
        self._finish()
        self._progress.start()
        self._task = self._progress.add_task(description, total=total, note="")

    def advance(self, steps: int = 1, **fields: Any) -> None:
        if self._task is not None:
            shown: Any = {"note": _note(fields, "  ")} if fields else {}
            self._progress.update(self._task, advance=steps, **shown)

    def close(self) -> None:
        self._finish()
        self._progress.stop()

    def _finish(self) -> None:
        if self._task is not None:
            total = self._progress.tasks[self._task].total or 1
            self._progress.update(self._task, total=total, completed=total)
        self._task = None


class PlainProgress(ProgressLike):
    """For logs: one line when a stage begins, then at most one every ten seconds, on stderr."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._stage, self._done = "", 0
        self._total: int | None = None
        self._begin = self._last = clock()

    def start(self, description: str, total: int | None = None) -> None:
        self._stage, self._done, self._total = description, 0, total
        self._begin = self._last = self._clock()
        say(description)

    def advance(self, steps: int = 1, **fields: Any) -> None:
        self._done += steps
        now = self._clock()
        if now - self._last < 10:
            return
        self._last, seconds = now, now - self._begin
        text = f"{self._stage}: {self._done:,}"
        if self._total:
            ends = sorted({fields.pop("can_end_at", self._total), self._total})
            each = seconds / max(self._done, 1)
            left = " to ".join(f"{max(end - self._done, 0) * each:.0f}" for end in ends)
            text += f" of {self._total:,}, about {left} s left"
        text += f", {seconds:.0f} s so far"
        say(f"{text}, {_note(fields, ', ')}" if fields else text)


def make_progress(progress: Progress) -> ProgressLike:
    """Turn the usual `progress=` argument into something to report to."""
    if progress is None or isinstance(progress, bool):
        if not (progress and _is_wanted()):
            return NullProgress()
        from rich.console import Console

        console = Console(stderr=True)
        # Without ipywidgets rich warns once per bar in a notebook.
        drawn = (
            console.is_jupyter and importlib.util.find_spec("ipywidgets") is not None
        )
        watched = sys.stderr.isatty() or drawn
        return RichProgress(console) if watched else PlainProgress()
    if not all(
        callable(getattr(progress, name, None))
        for name in ("start", "advance", "close")
    ):
        raise ConfigError(
            f"progress must be True, False or an object like leporid.progress.ProgressLike, "
            f"not {progress!r}"
        )
    return progress


def say(line: str) -> None:
    """One line on stderr."""
    if _is_wanted():
        print(line, file=sys.stderr, flush=True)


def _is_wanted() -> bool:
    return os.environ.get("LEPORID_PROGRESS", "").lower() != "off"


def _note(fields: dict[str, Any], between: str) -> str:
    short = (
        (key, f"{v:.4g}" if isinstance(v, float) else v) for key, v in fields.items()
    )
    return between.join(f"{key.replace('_', ' ')} {value}" for key, value in short)
