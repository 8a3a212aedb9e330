"""Progress of long work, shown only to people.

Library code calls `track(...)`/`Progress` and stays silent unless the caller asked for a bar
(`progress=True`) or gave an object of their own. The command line asks for bars on a terminal.
"""

from __future__ import annotations

from typing import Any, Protocol, Self


class ProgressLike(Protocol):
    """What long work reports to: a named stage with a total, then steps."""

    def start(self, description: str, total: int | None = None) -> None:
        """Begin a stage; the previous one is finished."""

    def advance(self, steps: int = 1, **fields: Any) -> None:
        """`steps` units of the current stage are done; `fields` are shown beside the bar."""

    def close(self) -> None:
        """All work is done."""


class NullProgress:
    """Says nothing."""

    def start(self, description: str, total: int | None = None) -> None:
        """Ignore."""

    def advance(self, steps: int = 1, **fields: Any) -> None:
        """Ignore."""

    def close(self) -> None:
        """Ignore."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RichProgress(NullProgress):
    """A bar per stage on the terminal, with rate, time left and the caller's own fields."""

    def __init__(self, console: Any | None = None) -> None:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
        )
        self._task: Any = None
        self._total: int | None = None

    def start(self, description: str, total: int | None = None) -> None:
        """Open a new bar; the bar before it is filled."""
        self._finish()
        self._progress.start()
        self._total = total
        self._task = self._progress.add_task(description, total=total, note="")

    def advance(self, steps: int = 1, **fields: Any) -> None:
        """Move the current bar and show the fields beside it."""
        if self._task is None:
            return
        note = "  ".join(f"{key} {_short(value)}" for key, value in fields.items())
        self._progress.update(self._task, advance=steps)
        if note:
            self._progress.update(self._task, note=note)

    def close(self) -> None:
        """Fill the last bar and leave the terminal as it was."""
        self._finish()
        self._progress.stop()

    def __exit__(self, *exception: object) -> None:
        if exception[:1] != (None,):
            self._task = None
        self.close()

    def _finish(self) -> None:
        if self._task is not None:
            if self._total is not None:
                self._progress.update(self._task, completed=self._total)
            else:
                self._progress.update(self._task, total=1, completed=1)
        self._task = None


def make_progress(progress: bool | ProgressLike | None) -> ProgressLike:
    """Turn the usual `progress=` argument into something to report to."""
    if progress is None or progress is False:
        return NullProgress()
    if progress is True:
        return RichProgress()
    return progress


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
