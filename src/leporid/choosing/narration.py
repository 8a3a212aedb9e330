"""What a race says while it runs: a live table on a terminal, one line per event in a log."""

from __future__ import annotations

import os
import sys
from typing import Any, Self

from leporid.choosing.budget import Timer, format_duration
from leporid.choosing.candidates import Candidate
from leporid.choosing.journal import Event
from leporid.choosing.race import RUNGS

_ROWS = 12


class Silence:
    """Says nothing."""

    def __call__(self, event: Event) -> None:
        """Ignore."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        """Nothing to put back."""


class Lines(Silence):
    """One line per event on stderr."""

    def __init__(self, timer: Timer, metric: str) -> None:
        self._timer, self._metric = timer, metric

    def __call__(self, event: Event) -> None:
        """Say the event."""
        if line := event_words(event, self._metric):
            left = format_duration(max(self._timer.left, 0.0))
            print(f"[{left} left] {line}", file=sys.stderr, flush=True)


class LiveTable(Silence):
    """The leading candidates, redrawn after every event."""

    def __init__(self, timer: Timer, metric: str, console: Any) -> None:
        from rich.live import Live

        self._timer, self._metric = timer, metric
        self._best: dict[str, tuple[int, float, str]] = {}
        self._last = "starting"
        self._live = Live(console=console, transient=True, get_renderable=self._draw)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._live.stop()

    def __call__(self, event: Event) -> None:
        """Redraw with the event."""
        self._last = event_words(event, self._metric) or self._last
        if event["event"] == "judged":
            label = Candidate.from_dict(event["candidate"]).label
            self._best[event["key"]] = (event["rung"], event["value"], label)

    def _draw(self) -> Any:
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


def narrator(progress: bool | None, timer: Timer, metric: str) -> Silence:
    """Who tells of the race, as `progress=` has it everywhere else."""
    if not progress or os.environ.get("LEPORID_PROGRESS", "").lower() == "off":
        return Silence()
    from rich.console import Console

    console = Console(stderr=True)
    watched = sys.stderr.isatty() or console.is_jupyter
    return LiveTable(timer, metric, console) if watched else Lines(timer, metric)


def event_words(event: Event, metric: str) -> str:
    """An event in a line; empty for those nobody needs to hear of."""
    kind = event["event"]
    label = event.get("label", "")
    if "candidate" in event:
        label = Candidate.from_dict(event["candidate"]).label
    if kind == "judged":
        rung = f", rung {event['rung'] + 1}" if event["rung"] < len(RUNGS) - 1 else ""
        return f"{label}: {metric} {event['value']:.4f} in {event['seconds']:.1f} s{rung}"
    if kind == "late":
        return f"{label}: left out, it needs about {format_duration(event['needs'])} to the end"
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
