"""Progress messages: a live table on a terminal, one line per event in a log."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from leporid.experiments import Event
from leporid.selection.budget import Timer, format_duration
from leporid.selection.candidates import Candidate
from leporid.selection.trial import RUNGS

_ROWS = 12


class LiveTable:
    """The leading candidates after every event."""

    def __init__(self, timer: Timer, metric: str) -> None:
        self._timer, self._metric = timer, metric
        self._best: dict[str, tuple[int, float, str]] = {}
        self._last = "loading"

    def __call__(self, event: Event) -> None:
        """Take in the event."""
        self._last = event_message(event, self._metric) or self._last
        if event["event"] == "evaluated":
            label = Candidate.from_dict(event["candidate"]).label
            self._best[event["key"]] = (event["rung"], event["value"], label)

    def draw(self) -> Any:
        """The table as it is now."""
        from rich.markup import escape
        from rich.table import Table

        left = format_duration(max(self._timer.left, 0.0))
        table = Table(title=f"{left} left", caption=escape(self._last))
        for column in ("candidate", self._metric, "rung"):
            table.add_column(column)
        rows = sorted(self._best.values(), key=lambda row: (-row[0], -row[1]))
        for rung, value, label in rows[:_ROWS]:
            table.add_row(escape(label), f"{value:.4f}", f"{rung + 1} of {len(RUNGS)}")
        return table


@contextmanager
def progress_messages(
    progress: bool | None, timer: Timer, metric: str
) -> Iterator[Callable[[Event], None]]:
    """What shows events, as `progress=` asks for everywhere else."""

    def say(event: Event) -> None:
        if line := event_message(event, metric):
            left = format_duration(max(timer.left, 0.0))
            print(f"[{left} left] {line}", file=sys.stderr, flush=True)

    if not progress or os.environ.get("LEPORID_PROGRESS", "").lower() == "off":
        yield lambda event: None
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    if not (sys.stderr.isatty() or console.is_jupyter):
        yield say
        return
    table = LiveTable(timer, metric)
    with Live(console=console, transient=True, get_renderable=table.draw):
        yield table


def event_message(event: Event, metric: str) -> str:
    """An event in a line; empty for events that are not shown."""
    kind = event["event"]
    label = event.get("label", "")
    if "candidate" in event:
        label = Candidate.from_dict(event["candidate"]).label
    if kind == "evaluated":
        rung = f", rung {event['rung'] + 1}" if event["rung"] < len(RUNGS) - 1 else ""
        return f"{label}: {metric} {event['value']:.4f} in {event['seconds']:.1f} s{rung}"
    if kind == "late":
        return f"{label}: left out, its trial and final fits need {format_duration(event['needs'])}"
    if kind == "failed":
        return f"{label}: {event['why']}"
    if kind == "left out":
        return f"{event['model']}: left out, {event['why']}"
    if kind == "plan":
        steps = ", ".join(f"{name} {own['steps']:,}" for name, own in event["settings"].items())
        return f"networks and their steps: {steps or 'none'}"
    if kind in ("fitted", "final fit"):
        return f"{label}: {kind} in {event['seconds']:.1f} s"
    if kind == "tested":
        return f"{label}: {metric} {event['value']:.4f} on test"
    return ""
