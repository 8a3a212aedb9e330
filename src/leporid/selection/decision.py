"""`decide`: what is fitted at the end of a search, a candidate or a blend of several."""

from __future__ import annotations

from dataclasses import dataclass

from leporid.evaluation import Comparison
from leporid.models import BlendMember, pick_blend
from leporid.selection.budget import Deadline, OutOfTimeError
from leporid.selection.candidates import Candidate
from leporid.selection.search import Search
from leporid.selection.trials import TrialResult

MAX_BLEND_MEMBERS = 6
BLEND_CHOICE_SHARE = 0.03


@dataclass(frozen=True)
class Decision:
    """What is fitted: one candidate, or several with their weights."""

    members: tuple[Candidate, ...]
    weights: tuple[int, ...]
    value: float | None
    """The metric; that of a blend on users it was not picked on; None if it was not evaluated."""
    gain: Comparison | None = None
    """A blend compared with its best member."""

    @classmethod
    def of(cls, result: TrialResult) -> Decision:
        """Return the decision for a candidate as it was evaluated."""
        return cls((result.candidate,), (1,), result.value)

    @property
    def key(self) -> str:
        """The keys of the members: equal decisions have equal keys."""
        return "+".join(member.key for member in self.members)

    @property
    def label(self) -> str:
        """What it is called in output: 'ease l2=300', 'blend of ease, itemknn'."""
        names = ", ".join(member.label for member in self.members)
        return f"blend of {names}" if self.is_blend else names

    @property
    def headline(self) -> str:
        """The models and how they start, without settings: 'blend of ease, itemknn'."""
        names = ", ".join(member.headline for member in self.members)
        return f"blend of {names}" if self.is_blend else names

    @property
    def is_blend(self) -> bool:
        """Whether several candidates are fitted."""
        return len(self.members) > 1

    @property
    def blend_members(self) -> tuple[BlendMember, ...]:
        """The members as the model `blend` takes them."""
        pairs = zip(self.members, self.weights, strict=True)
        return tuple(
            BlendMember(
                model=member.model,
                settings=member.settings,
                init=member.init,
                weight=float(weight),
            )
            for member, weight in pairs
        )


def decide(search: Search) -> Decision | None:
    """Return the best candidate, or a blend that beats it and can be fitted in the time left."""
    best = search.leader
    if best is None:
        return None
    single = Decision.of(best)
    finalists = affordable_finalists(search, best)
    if len(finalists) < 2:
        return single
    timer = search.timer
    lists = [search.evaluator.lists(result.candidate) for result in finalists]
    until = max(
        timer.budget - search.reserve(),
        timer.elapsed + BLEND_CHOICE_SHARE * timer.budget,
    )
    task = search.task
    try:
        blend = pick_blend(lists, task.inner, task.metric, Deadline(timer, until))
    except OutOfTimeError:
        return single
    if blend is None:
        return single
    weights, gain = blend
    if gain.outcome != "better":
        return single
    members = tuple(finalists[place].candidate for place in weights)
    value = best.value + gain.difference
    return Decision(members, tuple(weights.values()), value, gain)


def affordable_finalists(search: Search, best: TrialResult) -> list[TrialResult]:
    """Return the best result, and those of other models that can be fitted beside it.

    All of them must fit into the time together, so that whatever is picked can be fitted.
    """
    finalists = [best]
    left = search.timer.left - search.end_seconds(best.candidate)
    for result in list(search.best_of_each().values())[1:]:
        needed = search.estimates.finish(result.candidate)
        if needed <= left:
            finalists.append(result)
            left -= needed
    return finalists[:MAX_BLEND_MEMBERS]
