"""The events of a search in its journal, the time that they account for, and a line for each."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from leporid.progress import say
from leporid.runs import Event, Journal
from leporid.selection.budget import Timer, format_duration
from leporid.selection.candidates import Candidate

EVENTS_AFTER_THE_SEARCH = {"decided", "fitted", "final fit", "tested", "chosen"}
_CANDIDATE = {"model": str, "settings": dict}
_TRIAL = {"at": float, "key": str, "candidate": _CANDIDATE}
_FORMS: dict[str, Any] = {
    "evaluated": {**_TRIAL, "value": float, "seconds": float},
    "failed": {**_TRIAL, "why": str},
    "late": {**_TRIAL, "why": str},
    "left out": {"at": float, "model": str, "why": str},
    "inits": {"at": float, "values": dict},
    "plan": {"at": float, "settings": dict, "speeds": dict},
    "round": {"at": float, "candidates": [_CANDIDATE]},
    "decided": {
        "at": float,
        "budget": float,
        "left": float,
        "key": str,
        "interrupted": bool,
    },
    "chosen": {"at": float, "label": str, "budget": float},
}


def open_journal(folder: Path, question: dict[str, Any]) -> Journal:
    """The journal of the search in a folder."""
    return Journal(folder / "journal.jsonl", question, forms=_FORMS)


def seconds_spent(journal: Journal) -> float:
    """Seconds of the search up to its last event of any session."""
    events = [
        event
        for event in journal.events
        if event["event"] not in EVENTS_AFTER_THE_SEARCH
    ]
    return max((float(event.get("at", 0.0)) for event in events), default=0.0)


def last_decision(journal: Journal) -> Event | None:
    """The decision of an earlier session, unless a trial was finished since."""
    last = [*journal.of("decided", "evaluated")][-1:]
    return next(
        (e for e in last if e["event"] == "decided" and not e["interrupted"]), None
    )


def progress_lines(
    progress: bool | None, timer: Timer, metric: str
) -> Callable[[Event], None]:
    """What prints one line per trial and fit on stderr, if `progress` asks for it."""

    def tell(event: Event) -> None:
        label = event.get("label") or event.get("model")
        if "candidate" in event:
            label = Candidate.from_dict(event["candidate"]).label
        if label is None or not progress:
            return
        facts = [] if event["event"] == "evaluated" else [event["event"]]
        facts += [f"{metric} {event['value']:.4f}"] if "value" in event else []
        facts += [f"{event['seconds']:.1f} s"] if "seconds" in event else []
        facts += [event["why"]] if "why" in event else []
        left = format_duration(max(timer.left, 0.0))
        say(f"[{left} left] {label}: {', '.join(facts)}")

    return tell
