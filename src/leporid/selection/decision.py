"""Which candidate a search ends with: the best value, a cheaper one that is level, or a blend.

The decision is a line of the journal, so that a search that is killed at its end decides the same.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from leporid import models
from leporid.errors import DataError, LeporidError
from leporid.evaluation import Comparison, evaluate, parse_metric
from leporid.experiments import Event
from leporid.selection.blending import MAX_MEMBERS, BlendChoice, choose_blend
from leporid.selection.budget import Guard, OutOfTimeError
from leporid.selection.candidates import Candidate
from leporid.selection.evaluator import TrialEvaluator
from leporid.selection.runtime_estimates import request_milliseconds
from leporid.selection.search import Search
from leporid.selection.trial import FULL, Result, by_value

_CURVE_SHARES = (0.25, 0.5)
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
    runner_up: Result | None = None
    """The best of another model."""
    blend: BlendChoice | None = None
    """The greedy blend, taken or not."""
    takes_blend: bool = False
    curve: list[tuple[float, float]] = field(default_factory=list)
    """Shares of the users and the metric of the winner fitted on them."""
    notes: list[str] = field(default_factory=list)

    def to_event(self) -> dict[str, Any]:
        """The decision as a line of the journal."""
        assert self.winner is not None
        blend: dict[str, Any] | None = None
        if self.blend is not None:
            own = self.blend
            blend = {
                "members": [member.candidate.key for member in own.members],
                "weights": own.weights,
                "value": own.value,
                "comparison": own.comparison.to_dict(),
            }
        winner = self.winner.candidate.key
        taken = "+".join(blend["members"]) if blend and self.takes_blend else winner
        about = {"milliseconds": self.milliseconds, "takes_blend": self.takes_blend}
        return {"taken": taken, "winner": winner, "blend": blend, **about}

    def restore(self, event: Event, search: Search) -> bool:
        """Take over the decision of an earlier session; False where it is damaged or of 0.7."""
        finished = {result.candidate.key: result for result in search.finished}
        try:
            winner, blend = finished[event["winner"]], event["blend"]
            if blend is not None:
                members = tuple(finished[key] for key in blend["members"])
                weights = tuple(int(weight) for weight in blend["weights"])
                found = Comparison.from_dict(blend["comparison"])
                blend = BlendChoice(members, weights, float(blend["value"]), found)
            takes, timed = bool(event["takes_blend"]), event["milliseconds"]
        except (DataError, KeyError, TypeError, ValueError):
            return False
        self.best, self.winner, self.blend, self.takes_blend = search.leader, winner, blend, takes
        self.milliseconds = None if timed is None else (timed[0], timed[1])
        self.runner_up = _runner_up(search, winner)
        return True


def decide(search: Search, decision: Decision) -> None:
    """Fill in the decision: by values, and by requests that are timed now."""
    decision.best = decision.winner = best = search.leader
    if best is None:
        return
    prefer_faster(search, best, decision)
    decision.runner_up = _runner_up(search, decision.winner or best)
    _blend(search, decision)


def _runner_up(search: Search, winner: Result) -> Result | None:
    ranked = sorted(search.finished, key=by_value)
    others = [r for r in ranked if r.candidate.model != winner.candidate.model]
    return next(iter(others), None)


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


def learning_curve(search: Search, decision: Decision) -> None:
    """The metric of a classical winner that is fitted on fewer users, if there is time."""
    winner, timer, evaluator = decision.winner, search.timer, search.evaluator
    if winner is None or winner.candidate.kind == "neural" or evaluator.problem.inner.n_users < 40:
        return
    curve: list[tuple[float, float]] = []
    for share in _CURVE_SHARES:
        cost = winner.outcome.seconds
        if timer.left - 2 * search.reserve() < 2 * cost + 0.02 * timer.budget:
            return
        guard = Guard(timer, timer.budget - search.reserve())
        with contextlib.suppress(LeporidError):
            curve.append((share, _with_share(evaluator, winner.candidate, share, guard)))
    if len(curve) == len(_CURVE_SHARES):
        decision.curve = [*curve, (1.0, winner.value)]


def _with_share(
    evaluator: TrialEvaluator, candidate: Candidate, share: float, guard: Guard
) -> float:
    """The metric on evaluated users of a share, fitted on that share."""
    problem, inner = evaluator.problem, evaluator.problem.inner
    everyone = np.random.default_rng(problem.seed + 1).permutation(inner.n_users)
    kept = np.zeros(inner.n_users, np.bool_)
    kept[everyone[: round(share * len(everyone))]] = True
    evaluated = problem.users[kept[problem.users]]
    part = replace(
        inner,
        train=inner.train.select(kept[inner.train.user]),
        valid=inner.valid.select(kept[inner.valid.user]),
        test=inner.test.select(np.isin(inner.test.user, evaluated)),
    )
    model = models.get(candidate.model)(**candidate.settings)
    model.fit(part, seed=problem.seed, progress=guard)
    family = parse_metric(problem.metric)[0]
    table = evaluate(model, part, at=(problem.cutoff,), progress=guard, metrics=[family])
    return table.mean()[problem.metric]
