"""Which candidate a search ends with: the best value, a cheaper one that is level, or a blend.

The decision is a line of the journal, so that a search that is killed at its end decides the same.
"""

from __future__ import annotations

import contextlib
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from leporid import models
from leporid.errors import LeporidError
from leporid.evaluation import evaluate, parse_metric
from leporid.selection.blending import FINALISTS, BlendChoice, choose_blend
from leporid.selection.budget import Guard, OutOfTimeError
from leporid.selection.candidates import Candidate
from leporid.selection.evaluator import Rehearsal
from leporid.selection.journal import Event
from leporid.selection.runtime_estimates import request_milliseconds
from leporid.selection.search import FULL, Race, Result, by_value

CURVE = (0.25, 0.5)
CHEAPER, CHEAPER_MS = 2.0, 1.0
"""Of two candidates that are level, the one with the lower value is taken only if its quickest
request takes at most 1 / CHEAPER of the other's time and at least CHEAPER_MS less."""
TIMING = 0.02
"""Share of the budget that is kept for timing level candidates again."""
_REQUESTS = 25
"""Requests to each of two level candidates, in turns."""
_BLEND_SEARCH = 0.03
"""Share of the budget that a search for a blend may take of what was kept for the end."""


@dataclass
class Verdict:
    """What the search decided, and why."""

    best: Result | None = None
    """The highest value."""
    winner: Result | None = None
    """The best, or a cheaper one that is level with it; after the fit, the one that was fitted."""
    milliseconds: tuple[float, float] | None = None
    """The quickest request of the best and of the winner, where a cheaper one was taken."""
    runner_up: Result | None = None
    """The best of another model."""
    blend: BlendChoice | None = None
    """The greedy blend, taken or not."""
    takes_blend: bool = False
    curve: list[tuple[float, float]] = field(default_factory=list)
    """Shares of the users and the metric of the winner after learning from them."""
    notes: list[str] = field(default_factory=list)

    def to_event(self) -> dict[str, Any]:
        """The decision as a line of the journal."""
        assert self.winner is not None
        blend = None
        if self.blend is not None:
            members = [member.candidate.key for member in self.blend.members]
            blend = {**asdict(replace(self.blend, members=())), "members": members}
        winner = self.winner.candidate.key
        taken = "+".join(blend["members"]) if blend and self.takes_blend else winner
        about = {"milliseconds": self.milliseconds, "takes_blend": self.takes_blend}
        return {"taken": taken, "winner": winner, "blend": blend, **about}

    def restore(self, event: Event, race: Race) -> bool:
        """Take over the decision of an earlier session; False where the line is damaged."""
        finished = {result.candidate.key: result for result in race.finished}
        try:
            winner, blend = finished[event["winner"]], event["blend"]
            if blend is not None:
                members = tuple(finished[key] for key in blend["members"])
                weights = tuple(int(weight) for weight in blend["weights"])
                blend = BlendChoice(**{**blend, "members": members, "weights": weights})
            takes, timed = bool(event["takes_blend"]), event["milliseconds"]
        except (KeyError, TypeError, ValueError):
            return False
        self.best, self.winner, self.blend, self.takes_blend = race.leader, winner, blend, takes
        self.milliseconds = None if timed is None else (timed[0], timed[1])
        self.runner_up = _runner_up(race, winner)
        return True


def decide(race: Race, judge: Rehearsal, metric: str, verdict: Verdict) -> None:
    """Fill in the verdict: by values, and by requests that are timed now."""
    verdict.best = verdict.winner = best = race.leader
    if best is None:
        return
    prefer_cheaper(race, judge, best, verdict)
    verdict.runner_up = _runner_up(race, verdict.winner or best)
    _blend(race, judge, metric, verdict)


def _runner_up(race: Race, winner: Result) -> Result | None:
    ranked = sorted(race.finished, key=by_value)
    others = [r for r in ranked if r.candidate.model != winner.candidate.model]
    return next(iter(others), None)


def prefer_cheaper(race: Race, judge: Rehearsal, best: Result, verdict: Verdict) -> None:
    """Take the first model, by value, that is level with the best and clearly cheaper.

    Both are timed here, in turns: milliseconds of different moments do not compare. Two models are
    in memory at a time. Without time for that the best stays.
    """
    timer, contenders = race.timer, dict[str, Result]()
    for result in sorted(race.level_with(best), key=by_value):
        contenders.setdefault(result.candidate.model, result)
    contenders.pop(best.candidate.model)
    until = max(timer.budget - race.reserve(), timer.elapsed + TIMING * timer.budget)
    until = min(until, timer.budget)
    guard, own = Guard(timer, until), None
    for result in contenders.values():
        needed = [best.candidate] if own is None else []
        needed.append(result.candidate)
        if sum(judge.refit_seconds(c) for c in needed) > until - timer.elapsed:
            continue
        try:
            own = own or judge.refitted(best.candidate, guard)
            other = judge.refitted(result.candidate, guard)
        except (LeporidError, MemoryError):
            continue
        slow, quick = request_milliseconds([own, other], timer.clock, _REQUESTS)
        if slow - quick >= CHEAPER_MS and CHEAPER * quick <= slow:
            verdict.winner, verdict.milliseconds = result, (slow, quick)
            return


def _blend(race: Race, judge: Rehearsal, metric: str, verdict: Verdict) -> None:
    """Blend the finalists: the best of each model, as far as all can be fitted in time."""
    timer, left = race.timer, race.timer.left
    finalists: list[Result] = []
    for result in sorted(race.finished, key=by_value):
        needed = judge.finish(result.candidate)
        new = all(result.candidate.model != f.candidate.model for f in finalists)
        if new and needed < 0.8 * left and len(finalists) < FINALISTS:
            finalists.append(result)
            left -= needed if len(finalists) <= 3 else 0
    if len(finalists) < 2 or finalists[0] is not verdict.best:
        return
    lists = [judge.lists(result.candidate) for result in finalists]
    until = max(timer.budget - race.reserve(), timer.elapsed + _BLEND_SEARCH * timer.budget)
    try:
        blend = choose_blend(finalists, lists, judge.part(FULL), metric, Guard(timer, until))
    except OutOfTimeError:
        verdict.notes.append("no time was left to look for a blend")
        return
    verdict.blend = blend
    if blend is not None and blend.low > 0:
        needed = sum(judge.finish(member.candidate) for member in blend.members)
        verdict.takes_blend = needed < 0.9 * timer.left


def learning_curve(race: Race, judge: Rehearsal, verdict: Verdict) -> None:
    """The winner with fewer users, where that takes next to no time."""
    winner, timer = verdict.winner, race.timer
    if winner is None or winner.candidate.kind == "neural" or judge.stage.n_users < 40:
        return
    curve: list[tuple[float, float]] = []
    for share in CURVE:
        cost = winner.outcome.seconds
        if timer.left - 2 * race.reserve() < 2 * cost + 0.02 * timer.budget:
            return
        guard = Guard(timer, timer.budget - race.reserve())
        with contextlib.suppress(LeporidError):
            curve.append((share, _with_share(judge, winner.candidate, share, guard)))
    if len(curve) == len(CURVE):
        verdict.curve = [*curve, (1.0, winner.value)]


def _with_share(judge: Rehearsal, candidate: Candidate, share: float, guard: Guard) -> float:
    """The metric after learning from a share of the users, those who are judged among them."""
    stage = judge.stage
    everyone = np.random.default_rng(judge.seed + 1).permutation(stage.n_users)
    kept = np.zeros(stage.n_users, np.bool_)
    kept[everyone[: round(share * len(everyone))]] = True
    judged = judge.users[kept[judge.users]]
    part = replace(
        stage,
        train=stage.train.select(kept[stage.train.user]),
        valid=stage.valid.select(kept[stage.valid.user]),
        test=stage.test.select(np.isin(stage.test.user, judged)),
    )
    model = models.get(candidate.model)(**candidate.settings)
    model.fit(part, seed=judge.seed, progress=guard)
    family = parse_metric(judge.metric)[0]
    table = evaluate(model, part, at=(judge.cut,), progress=guard, metrics=[family])
    return table.mean()[judge.metric]
