"""Which candidate a search ends with: the best value, a cheaper one that is level, or a blend.

The decision is a line of the journal, so that a search that is killed at its end decides the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from leporid.errors import DataError, LeporidError
from leporid.experiments import Event
from leporid.selection.blending import MAX_MEMBERS, BlendChoice, choose_blend
from leporid.selection.budget import Guard, OutOfTimeError
from leporid.selection.candidates import FULL, Result, by_value
from leporid.selection.runtime_estimates import request_milliseconds
from leporid.selection.search import Search

_MIN_SPEEDUP, _MIN_MS_SAVED = 2.0, 1.0
"""A level candidate with a lower value is taken only if its requests are this much faster."""
TIMING_SHARE = 0.02
"""Share of the budget that is kept for timing requests of level candidates."""
_REQUESTS = 25
"""Requests to each of two level candidates, in turns."""
_BLEND_SHARE = 0.03
"""Share of the budget that the choice of a blend may take."""


@dataclass
class Decision:
    """What the search decided, and why."""

    best: Result | None = None
    """The highest value."""
    winner: Result | None = None
    """The best, or a faster one level with it; after the fit, the one that was fitted."""
    milliseconds: tuple[float, float] | None = None
    """The quickest request of the best and of the winner, where a faster one was taken."""
    blend: BlendChoice | None = None
    """The greedy blend, taken or not."""
    takes_blend: bool = False
    notes: list[str] = field(default_factory=list)

    def to_event(self) -> dict[str, Any]:
        """The decision as a line of the journal."""
        assert self.winner is not None
        taken = winner = self.winner.candidate.key
        blend = None if self.blend is None else self.blend.to_dict()
        if blend is not None and self.takes_blend:
            taken = "+".join(blend["members"])
        about = {"milliseconds": self.milliseconds, "takes_blend": self.takes_blend}
        return {"taken": taken, "winner": winner, "blend": blend, **about}

    def restore(self, event: Event, search: Search) -> bool:
        """Take over the decision of an earlier session; False where it is damaged or of 0.7."""
        finished = {result.candidate.key: result for result in search.finished}
        try:
            winner, blend = finished[event["winner"]], event["blend"]
            if blend is not None:
                blend = BlendChoice.from_dict(blend, finished)
            takes, timed = bool(event["takes_blend"]), event["milliseconds"]
        except (DataError, KeyError, TypeError, ValueError):
            return False
        self.best, self.winner, self.blend, self.takes_blend = search.leader, winner, blend, takes
        self.milliseconds = None if timed is None else (timed[0], timed[1])
        return True


def decide(search: Search, decision: Decision) -> None:
    """Fill in the decision: by values, and by requests that are timed now."""
    decision.best = decision.winner = best = search.leader
    if best is None:
        return
    prefer_faster(search, best, decision)
    _blend(search, decision)


def prefer_faster(search: Search, best: Result, decision: Decision) -> None:
    """Take the first model, by value, that is level with the best and clearly faster.

    Both are timed here, in turns: milliseconds of different moments do not compare. Without time
    for that the best stays.
    """
    timer, evaluator = search.timer, search.evaluator
    contenders: dict[str, Result] = {}
    for result in sorted(search.level_with(best), key=by_value):
        contenders.setdefault(result.candidate.model, result)
    contenders.pop(best.candidate.model)
    until = max(timer.budget - search.reserve(), timer.elapsed + TIMING_SHARE * timer.budget)
    until = min(until, timer.budget)
    guard, own = Guard(timer, until), None
    for result in contenders.values():
        needed = [best.candidate] if own is None else []
        needed.append(result.candidate)
        if sum(evaluator.refit_seconds(c) for c in needed) > until - timer.elapsed:
            continue
        try:
            own = own or evaluator.refitted(best.candidate, guard)
            other = evaluator.refitted(result.candidate, guard)
        except (LeporidError, MemoryError):
            continue
        slow, quick = request_milliseconds([own, other], timer.clock, _REQUESTS)
        if slow - quick >= _MIN_MS_SAVED and _MIN_SPEEDUP * quick <= slow:
            decision.winner, decision.milliseconds = result, (slow, quick)
            return


def _blend(search: Search, decision: Decision) -> None:
    """Blend the finalists: the best of each model, as far as all can be fitted in time."""
    timer, evaluator, left = search.timer, search.evaluator, search.timer.left
    finalists: list[Result] = []
    for result in sorted(search.finished, key=by_value):
        needed = evaluator.finish(result.candidate)
        new = all(result.candidate.model != f.candidate.model for f in finalists)
        if new and needed < 0.8 * left and len(finalists) < MAX_MEMBERS:
            finalists.append(result)
            left -= needed if len(finalists) <= 3 else 0
    if len(finalists) < 2 or finalists[0] is not decision.best:
        return
    lists = [evaluator.lists(result.candidate) for result in finalists]
    until = max(timer.budget - search.reserve(), timer.elapsed + _BLEND_SHARE * timer.budget)
    try:
        blend = choose_blend(
            finalists, lists, evaluator.part(FULL), evaluator.metric, Guard(timer, until)
        )
    except OutOfTimeError:
        decision.notes.append("no time was left to choose a blend")
        return
    decision.blend = blend
    if blend is not None and blend.comparison.outcome == "above":
        needed = sum(evaluator.finish(member.candidate) for member in blend.members)
        decision.takes_blend = needed < 0.9 * timer.left
