"""The events of a search in its journal, read as what they tell; and a line printed for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from leporid.foundation import JsonValue, say
from leporid.runs import Event, Journal, Schema
from leporid.selection.budget import Timer, format_duration
from leporid.selection.candidates import Candidate
from leporid.selection.task import Settings

EVENTS_AFTER_THE_SEARCH = {"decided", "fitted", "final fit", "tested", "chosen"}
_CANDIDATE: dict[str, Schema] = {"model": str, "settings": dict}
_TRIAL: dict[str, Schema] = {"at": float, "key": str, "candidate": _CANDIDATE}
_SCHEMAS: dict[str, Schema] = {
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


@dataclass(frozen=True)
class EarlierDecision:
    """What an earlier session decided to fit, and the time it had then."""

    key: str
    budget: float
    left: float


@dataclass(frozen=True)
class EarlierPlan:
    """The networks that an earlier session planned to train."""

    settings: dict[str, Settings]
    """Settings of each network, by model name."""
    speeds: dict[str, float]
    """Seconds per step of each network that was timed."""


@dataclass(frozen=True)
class LeftOut:
    """A model without a result, and the reason."""

    model: str
    why: str


def open_journal(folder: Path, question: Mapping[str, JsonValue]) -> Journal:
    """Open the journal of the search in a folder."""
    return Journal(folder / "journal.jsonl", question, schemas=_SCHEMAS)


def seconds_spent(journal: Journal) -> float:
    """Return the seconds of the search up to its last event of any session."""
    moments = (
        float(event.get("at", 0.0))
        for event in journal.events
        if event["event"] not in EVENTS_AFTER_THE_SEARCH
    )
    return max(moments, default=0.0)


def last_decision(journal: Journal) -> EarlierDecision | None:
    """Return the decision of an earlier session, unless a trial was finished since."""
    events = journal.of("decided", "evaluated")
    if not events:
        return None
    last = events[-1]
    if last["event"] == "evaluated" or last["interrupted"]:
        return None
    return EarlierDecision(last["key"], last["budget"], last["left"])


def last_plan(journal: Journal) -> EarlierPlan | None:
    """Return the last plan of networks; None if there is none."""
    events = journal.of("plan")
    if not events:
        return None
    return EarlierPlan(dict(events[-1]["settings"]), dict(events[-1]["speeds"]))


def probed_inits(journal: Journal) -> dict[str, float]:
    """Return what the vectors of each initialisation predict, best first; empty if not probed."""
    events = journal.of("inits")
    return dict(events[-1]["values"]) if events else {}


def rounds_of(journal: Journal) -> list[list[Candidate]]:
    """Return the variants of each round."""
    return [
        [Candidate.from_dict(values) for values in event["candidates"]]
        for event in journal.of("round")
    ]


def left_out_models(journal: Journal) -> list[LeftOut]:
    """Return the models that a trial or a plan left out, each with its last reason."""
    reasons: dict[str, str] = {}
    for event in journal.of("late", "failed", "left out"):
        source = event.get("candidate", event)
        reasons[source["model"]] = event["why"]
    return [LeftOut(model, why) for model, why in reasons.items()]


def progress_lines(
    progress: bool | None, timer: Timer, metric: str
) -> Callable[[Event], None]:
    """Return what prints one line per trial and fit on stderr, if `progress` asks for it."""

    def tell(event: Event) -> None:
        label = event.get("label") or event.get("model")
        if "candidate" in event:
            label = Candidate.from_dict(event["candidate"]).label
        if label is None or not progress:
            return
        facts: list[str] = []
        if event["event"] != "evaluated":
            facts.append(event["event"])
        if "value" in event:
            facts.append(f"{metric} {event['value']:.4f}")
        if "seconds" in event:
            facts.append(f"{event['seconds']:.1f} s")
        if "why" in event:
            facts.append(event["why"])
        left = format_duration(max(timer.left, 0.0))
        say(f"[{left} left] {label}: {', '.join(facts)}")

    return tell
