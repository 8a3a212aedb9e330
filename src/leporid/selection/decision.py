"""What a search ends with: the best candidate, or a blend above it that fits into the time."""

from dataclasses import dataclass
from typing import Any, Self

from leporid.evaluation import Comparison
from leporid.models import pick_blend
from leporid.selection.budget import Guard, OutOfTimeError
from leporid.selection.candidates import Candidate, Result
from leporid.selection.search import Search

MAX_BLEND_MEMBERS = 6
BLEND_CHOICE_SHARE = 0.03


@dataclass(frozen=True)
class Decision:
    """What is fitted: one candidate, or several with their weights."""

    members: tuple[Candidate, ...]
    weights: tuple[int, ...]
    value: float | None
    """The metric, of a blend on users it was not picked on; None: it was not evaluated."""
    gain: Comparison | None = None
    """A blend compared with its best member."""

    @classmethod
    def of(cls, result: Result) -> Self:
        """A candidate as it was evaluated."""
        return cls((result.candidate,), (1,), result.value)

    @property
    def key(self) -> str:
        """Equal decisions have equal keys."""
        return "+".join(member.key for member in self.members)

    @property
    def label(self) -> str:
        names = ", ".join(member.label for member in self.members)
        return f"blend of {names}" if len(self.members) > 1 else names

    @property
    def entries(self) -> list[dict[str, Any]]:
        """The members as the model `blend` takes them."""
        return [
            {"model": member.model, "settings": member.settings, "weight": float(weight)}
            | ({"init": member.init} if member.init else {})
            for member, weight in zip(self.members, self.weights, strict=True)
        ]


def decide(search: Search) -> Decision | None:
    """The best candidate, or a blend that is above it and can be fitted in the time left."""
    best, problem, timer = search.leader, search.problem, search.timer
    if best is None:
        return None
    single = Decision.of(best)
    finalists, left = [best], timer.left - search.end_seconds(best.candidate)
    for result in list(search.best_of_each().values())[1:]:
        # All of them must fit beside the best, so that whatever is picked can be fitted.
        needed = search.estimates.finish(result.candidate)
        if needed <= left:
            finalists.append(result)
            left -= needed
    finalists = finalists[:MAX_BLEND_MEMBERS]
    if len(finalists) < 2:
        return single
    lists = [search.evaluator.lists(result.candidate) for result in finalists]
    until = max(timer.budget - search.reserve(), timer.elapsed + BLEND_CHOICE_SHARE * timer.budget)
    try:
        picked = pick_blend(lists, problem.inner, problem.metric, Guard(timer, until))
    except OutOfTimeError:
        return single
    if picked is None or picked[1].outcome != "above":
        return single
    weights, gain = picked
    members = tuple(finalists[place].candidate for place in weights)
    return Decision(members, tuple(weights.values()), best.value + gain.difference, gain)
