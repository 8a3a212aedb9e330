"""Progress of long work on stderr: a bar on a terminal or in a notebook, else plain lines.

`LEPORID_PROGRESS=off` silences every `progress=True`.
"""

import contextlib
import importlib.util
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

from leporid.errors import ConfigError


class ProgressLike:
    """What long work reports to: a named stage with a total, then steps. This one says nothing."""

    def start(self, description: str, total: int | None = None) -> None:
        """Begin a stage; the previous one is finished."""

    def advance(self, steps: int = 1, **fields: float | str) -> None:
        """Report that `steps` units of the stage are done, and show `fields` beside the bar.

        The field `note` is a sentence that says how the stage goes and when it ends.
        """

    def say(self, line: str) -> None:
        """Report a result that stays visible, such as the value of a baseline."""

    def close(self) -> None:
        """Report that all work is done."""


NullProgress = ProgressLike
Progress = bool | ProgressLike | None
"""What `progress=` takes."""


class RichProgress(ProgressLike):
    """A bar per stage on the terminal, with time left and the caller's own fields.

    A note stands below the bar.
    """

    def __init__(self, console: "Console | None" = None) -> None:
        self._progress = _bars_with_notes(console)
        self._task: TaskID | None = None

    def start(self, description: str, total: int | None = None) -> None:
        self._finish()
        self._progress.start()
        self._task = self._progress.add_task(
            description, total=total, facts="", note=""
        )

    def advance(self, steps: int = 1, **fields: float | str) -> None:
        if self._task is None:
            return
        self._progress.update(self._task, advance=steps)
        note = fields.pop("note", "")
        if note or fields:
            facts = _note(fields, "  ")
            self._progress.update(self._task, facts=facts, note=note)

    def say(self, line: str) -> None:
        self._progress.console.print(
            line, markup=False, highlight=False, soft_wrap=True
        )

    def close(self) -> None:
        self._finish()
        self._progress.stop()

    def _finish(self) -> None:
        if self._task is not None:
            total = self._progress.tasks[self._task].total or 1
            self._progress.update(self._task, total=total, completed=total)
        self._task = None


def _bars_with_notes(console: "Console | None") -> "Bars":
    """Return bars with the note of the latest stage in a line of its own."""
    from rich import progress as bars
    from rich.text import Text

    class TimeLeft(bars.TimeRemainingColumn):
        """Nothing where a note has a better estimate."""

        def render(self, task: bars.Task) -> Text:
            return Text() if task.fields["note"] else super().render(task)

    class BarsWithNotes(bars.Progress):
        def get_renderables(self) -> "Iterator[RenderableType]":
            yield self.make_tasks_table(self.tasks)
            if self.tasks and self.tasks[-1].fields["note"]:
                yield Text(self.tasks[-1].fields["note"])

    return BarsWithNotes(
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TimeElapsedColumn(),
        TimeLeft(),
        bars.TextColumn("{task.fields[facts]}"),
        console=console,
    )


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
        if "note" in fields:
            say(f"{self._stage}: {fields['note']}")
            return
        text = f"{self._stage}: {self._done:,}"
        if self._total:
            left = max(self._total - self._done, 0) * seconds / max(self._done, 1)
            text += f" of {self._total:,}, about {duration(left)} left"
        text += f", {seconds:.0f} s so far"
        if fields:
            text += f", {_note(fields, ', ')}"
        say(text)

    def say(self, line: str) -> None:
        say(line)


def make_progress(progress: Progress) -> ProgressLike:
    """Turn the usual `progress=` argument into something to report to."""
    if progress is not None and not isinstance(progress, bool):
        for name in ("start", "advance", "say", "close"):
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


@contextlib.contextmanager
def reporting(progress: Progress) -> Iterator[ProgressLike]:
    """Yield what `make_progress` gives, and close it after the block unless it is the caller's."""
    reporter = make_progress(progress)
    try:
        yield reporter
    finally:
        if reporter is not progress:
            reporter.close()


def duration(seconds: float) -> str:
    """Return an estimated time as people say it: 20 s, 11 min, 1.5 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 100 else f"{minutes / 60:.1f} h"


def is_silent(progress: ProgressLike) -> bool:
    """Tell whether nobody reads what is reported."""
    return type(progress) is ProgressLike


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
