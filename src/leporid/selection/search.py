"""`Search`: runs trials, one after the other, and keeps the time for the end; `decide` ends it.

Every decision follows from the trials in the journal and a fixed order, so a killed search goes on
as if it had not been. The clock only decides whether there is time for the next trial.
"""

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from leporid.errors import DataError, LeporidError, TrainingInterruptedError
from leporid.evaluation import Comparison
from leporid.models import pick_blend
from leporid.runs import Event, Journal
from leporid.selection.budget import Guard, OutOfTimeError, Timer, format_duration
from leporid.selection.candidates import Candidate, Result, by_value
from leporid.selection.evaluator import TrialEvaluator
from leporid.selection.runtime_estimates import MAX_TRIAL_SHARE

MAX_BLEND_PARTNER_SHARE, MAX_BLEND_MEMBERS = 0.1, 6
BLEND_CHOICE_SHARE = 0.03


class Search:
    """Trials until only the time that the end needs is left."""

    def __init__(
        self,
        evaluator: TrialEvaluator,
        journal: Journal,
        timer: Timer,
        *,
        reserve: float = 0.0,
        tell: Callable[[Event], None] = lambda event: None,
    ) -> None:
        self.evaluator, self.journal, self.timer = evaluator, journal, timer
        self.problem, self.estimates = evaluator.problem, evaluator.estimates
        self._reserve, self._tell = reserve, tell
        self.results: dict[str, Result] = {}
        """By the key of the candidate, in the order they came."""
        for event in journal.of("evaluated"):  # by earlier sessions
            candidate = Candidate.from_dict(event["candidate"])
            with suppress(
                DataError
            ):  # its file is gone or damaged: it is evaluated again
                self.results[event["key"]] = evaluator.recall(candidate, event["at"])

    @property
    def leader(self) -> Result | None:
        return min(self.results.values(), key=by_value, default=None)

    def best_of_each(self) -> dict[str, Result]:
        """The best result of each model, the best model first."""
        best: dict[str, Result] = {}
        for result in sorted(self.results.values(), key=by_value):
            best.setdefault(result.candidate.model, result)
        return best

    def round(self, candidates: Iterable[Candidate]) -> None:
        """Evaluate candidates that have not been, as far as there is time."""
        for candidate in candidates:
            if not self.is_settled(candidate):
                self._try(candidate)

    def end_seconds(self, *winners: Candidate) -> float:
        """Seconds of the end if the slowest of these wins, with the tests of the baselines."""
        best, finish = self.best_of_each(), self.estimates.finish
        tested = (
            best[name].candidate for name in self.problem.baselines if name in best
        )
        return (
            self._reserve
            + sum(map(finish, tested)) / 2
            + max(map(finish, winners), default=0.0)
        )

    def reserve(self, new: Candidate | None = None) -> float:
        """Seconds to keep for the end and a second member of a blend, also if `new` should win."""
        best = [result.candidate for result in self.best_of_each().values()]
        limit = MAX_BLEND_PARTNER_SHARE * self.timer.budget
        second = map(self.estimates.finish, best[1:4])
        partner = next((seconds for seconds in second if seconds <= limit), 0.0)
        return self.end_seconds(*best[:1], *([new] if new else [])) + partner

    @property
    def has_time(self) -> bool:
        """Whether there is any time left for trials."""
        return self.timer.left > self.reserve()

    def obstacle(self, candidate: Candidate) -> str:
        """Why there is no time for a trial; empty where there is. It must be able to win."""
        left, longest = self.timer.left, self._longest(candidate)
        if not self.has_time:
            return "its turn came when the time was over"
        cost, after = self.estimates.cost(candidate), self.reserve(candidate)
        takes = f"its fit takes about {format_duration(cost)}"
        if cost > longest and not candidate.is_network:
            return f"{takes}, more than one trial may ({format_duration(longest)})"
        if cost + after > left:
            end = f"the end after it {format_duration(after)}"
            return f"{takes}, {end}; {format_duration(left)} were left"
        return ""

    def _longest(self, candidate: Candidate) -> float:
        """Seconds that a classical trial may take; the first one of a model twice as many."""
        first = candidate.model not in self.best_of_each()
        return (2 if first else 1) * MAX_TRIAL_SHARE * self.timer.budget

    def _try(self, candidate: Candidate) -> None:
        """Evaluate a candidate, and write the result into the journal, or why there is none."""
        about = {"key": candidate.key, "candidate": candidate.to_dict()}
        begun, until = (
            self.timer.elapsed,
            math.inf,
        )  # the first answer is given whatever it takes
        if self.leader is not None:
            if why := self.obstacle(candidate):
                self.note("late", **about, why=why)
                return
            until = self.timer.budget - self.reserve(candidate)
            if not candidate.is_network:
                until = min(until, begun + self._longest(candidate))
        try:
            result = self.evaluator.evaluate(candidate, until)
        except OutOfTimeError as error:
            seconds = format_duration(self.timer.elapsed - begun)
            after = "" if seconds == "0s" else f", {seconds} after it began"
            self.note("late", **about, why=f"{error}{after}")
        except TrainingInterruptedError:
            raise
        except Exception as error:  # one candidate must not end the search
            name = "" if isinstance(error, LeporidError) else f"{type(error).__name__} "
            self.note("failed", **about, why=f"{name}{error}".strip())
        else:
            self.results[candidate.key] = result
            found = {"value": result.value, "seconds": result.seconds, **result.facts}
            self.note("evaluated", **about, **found)

    def is_settled(self, candidate: Candidate) -> bool:
        """Whether that trial is over, also where it failed."""
        failed = (event["key"] for event in self.journal.of("failed"))
        return candidate.key in self.results or candidate.key in failed

    def note(self, kind: str, **fields: Any) -> None:
        """Write an event into the journal and tell it."""
        self._tell(self.journal.append(kind, at=round(self.timer.elapsed, 3), **fields))


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
            {
                "model": member.model,
                "settings": member.settings,
                "weight": float(weight),
            }
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
    until = max(
        timer.budget - search.reserve(),
        timer.elapsed + BLEND_CHOICE_SHARE * timer.budget,
    )
    try:
        picked = pick_blend(lists, problem.inner, problem.metric, Guard(timer, until))
    except OutOfTimeError:
        return single
    if picked is None or picked[1].outcome != "above":
        return single
    weights, gain = picked
    members = tuple(finalists[place].candidate for place in weights)
    return Decision(
        members, tuple(weights.values()), best.value + gain.difference, gain
    )
