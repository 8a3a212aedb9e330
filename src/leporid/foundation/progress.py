"""Progress of long work on stderr: a bar on a terminal or in a notebook, else plain lines.

`LEPORID_PROGRESS=off` silences every `progress=True`.
"""

import importlib.util
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

from leporid.errors import ConfigError


class ProgressLike:
    """What long work reports to: a named stage with a total, then steps. This one says nothing."""

    def start(self, description: str, total: int | None = None) -> None:
        """Begin a stage; the previous one is finished."""

    def advance(self, steps: int = 1, **fields: float | str) -> None:
        """Report that `steps` units of the stage are done, and show `fields` beside the bar.

        The field `can_end_at` is a number of units after which the stage may be over early.
        """

    def close(self) -> None:
        """Report that all work is done."""


NullProgress = ProgressLike
Progress = bool | ProgressLike | None
"""What `progress=` takes."""


class RichProgress(ProgressLike):
    """A bar per stage on the terminal, with rate, time left and the caller's own fields."""

    def __init__(self, console: "Console | None" = None) -> None:
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
        self._task: TaskID | None = None

    def start(self, description: str, total: int | None = None) -> None:
        self._finish()
        self._progress.start()
        self._task = self._progress.add_task(description, total=total, note="")

    def advance(self, steps: int = 1, **fields: float | str) -> None:
        if self._task is None:
            return
        self._progress.update(self._task, advance=steps)
        if fields:
            self._progress.update(self._task, note=_note(fields, "  "))

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
        self._begin_stage("", None)

    def _begin_stage(self, description: str, total: int | None) -> None:
        self._stage = description
        self._total = total
        self._done = 0
        self._begin = self._last = self._clock()

    def start(self, description: str, total: int | None = None) -> None:
        self._begin_stage(description, total)
        say(description)

    def advance(self, steps: int = 1, **fields: float | str) -> None:
        self._done += steps
        now = self._clock()
        if now - self._last < 10:
            return
        self._last = now
        seconds = now - self._begin
        text = f"{self._stage}: {self._done:,}"
        if self._total:
            can_end_at = int(fields.pop("can_end_at", self._total))
            ends = sorted({can_end_at, self._total})
            each = seconds / max(self._done, 1)
            left = " to ".join(f"{max(end - self._done, 0) * each:.0f}" for end in ends)
            text += f" of {self._total:,}, about {left} s left"
        text += f", {seconds:.0f} s so far"
        if fields:
            text += f", {_note(fields, ', ')}"
        say(text)


def make_progress(progress: Progress) -> ProgressLike:
    """Turn the usual `progress=` argument into something to report to."""
    if progress is not None and not isinstance(progress, bool):
        for name in ("start", "advance", "close"):
            if not callable(getattr(progress, name, None)):
                raise ConfigError(
                    f"progress must be True, False or an object like "
                    f"leporid.foundation.ProgressLike, not {progress!r}"
                )
        return progress
    if not (progress and _is_wanted()):
        return NullProgress()
    from rich.console import Console

    console = Console(stderr=True)
    # Without ipywidgets rich warns once per bar in a notebook.
    is_drawn = console.is_jupyter and importlib.util.find_spec("ipywidgets") is not None
    if sys.stderr.isatty() or is_drawn:
        return RichProgress(console)
    return PlainProgress()


def say(line: str) -> None:
    """Print one line on stderr."""
    if _is_wanted():
        print(line, file=sys.stderr, flush=True)


def _is_wanted() -> bool:
    return os.environ.get("LEPORID_PROGRESS", "").lower() != "off"


def _note(fields: Mapping[str, float | str], between: str) -> str:
    """Return the names and values of fields, as they stand beside a bar."""
    notes = []
    for name, value in fields.items():
        shown = f"{value:.4g}" if isinstance(value, float) else value
        notes.append(f"{name.replace('_', ' ')} {shown}")
    return between.join(notes)
