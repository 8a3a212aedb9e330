"""`Search`: runs trials, one after the other, and keeps the time for the end.

Every decision follows from the trials in the journal and a fixed order, so a killed search goes on
as if it had not been. The clock only decides whether there is time for the next trial.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from leporid.errors import DataError, LeporidError, TrainingInterruptedError
from leporid.evaluation import Comparison, compare
from leporid.experiments import Event, Journal
from leporid.selection.budget import OutOfTimeError, Timer, format_duration
from leporid.selection.candidates import FULL, Candidate, Result, by_value
from leporid.selection.evaluator import TrialEvaluator
from leporid.selection.runtime_estimates import FIRST_SHARE

TESTED = ("toppop", "itemknn")
"""Baselines that are always tested, so the time for them is kept."""
_VARIANT_SHARE = 0.08
"""Share of the budget that a later trial of a classical model may take."""
_PARTNER_SHARE = 0.1
"""Share of the budget that is kept at most for a second member of a blend."""


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
        self._reserve, self._tell = reserve, tell
        self.results: dict[tuple[str, int], Result] = {}
        self._failed = {(event["key"], event["rung"]) for event in journal.of("failed")}
        for event in journal.of("evaluated"):  # by earlier sessions
            candidate, rung = Candidate.from_dict(event["candidate"]), event["rung"]
            with suppress(DataError):  # its file is gone or damaged: it is evaluated again
                self.results[event["key"], rung] = evaluator.recall(candidate, rung, event["at"])

    @property
    def finished(self) -> list[Result]:
        """Results of the last rung, in the order they came."""
        return [result for result in self.results.values() if result.rung == FULL]

    @property
    def leader(self) -> Result | None:
        """The best finished result."""
        return min(self.finished, key=by_value, default=None)

    def best_of_each(self) -> dict[str, Result]:
        """The best finished result of each model, the best model first."""
        best: dict[str, Result] = {}
        for result in sorted(self.finished, key=by_value):
            best.setdefault(result.candidate.model, result)
        return best

    def round(self, candidates: Iterable[Candidate], rung: int = FULL) -> list[Result]:
        """Evaluate candidates at one rung, as far as there is time; the results in their order."""
        entrants = list(candidates)
        for candidate in entrants:
            if not self.is_settled(candidate, rung):
                self._try(candidate, rung)
        return [self.results[c.key, rung] for c in entrants if (c.key, rung) in self.results]

    def compare(self, a: Result, b: Result) -> Comparison:
        """Two results of one rung, on the same users."""
        names = {"name_a": a.candidate.label, "name_b": b.candidate.label}
        return compare(a.columns, b.columns, self.evaluator.metric, **names)

    def end_seconds(self, *winners: Candidate) -> float:
        """Seconds of the end if the slowest of these wins, with the tests of the baselines."""
        best, finish = self.best_of_each(), self.evaluator.estimates.finish
        tested = [finish(best[name].candidate) / 2 for name in TESTED if name in best]
        return self._reserve + sum(tested) + max(map(finish, winners), default=0.0)

    def reserve(self, new: Candidate | None = None) -> float:
        """Seconds to keep for the end and a second member of a blend, also if `new` should win."""
        best = [result.candidate for result in self.best_of_each().values()]
        limit = _PARTNER_SHARE * self.timer.budget
        second = map(self.evaluator.estimates.finish, best[1:4])
        partner = next((seconds for seconds in second if seconds <= limit), 0.0)
        return self.end_seconds(*best[:1], *([new] if new else [])) + partner

    @property
    def has_time(self) -> bool:
        """Whether there is any time left for trials."""
        return self.timer.left > self.reserve()

    def fits(self, candidate: Candidate) -> bool:
        """Whether there is time for a trial."""
        return not self._obstacle(candidate, FULL)

    def _longest(self, candidate: Candidate) -> float:
        """Seconds that a trial may take."""
        if candidate.kind == "neural":
            return math.inf
        best = list(self.best_of_each())
        is_lavish = candidate.model in best[:1] or candidate.model not in best
        return (FIRST_SHARE if is_lavish else _VARIANT_SHARE) * self.timer.budget

    def _obstacle(self, candidate: Candidate, rung: int) -> str:
        """Why there is no time for a trial; empty where there is. It must be able to win."""
        left, longest = self.timer.left, self._longest(candidate)
        if not self.has_time:
            return "its turn came when the time was over"
        cost, after = self.evaluator.estimates.cost(candidate, rung), self.reserve(candidate)
        takes = f"its fit takes about {format_duration(cost)}"
        if cost > longest:
            return f"{takes}, more than one trial may ({format_duration(longest)})"
        if cost + after > left:
            end = f"the end after it {format_duration(after)}"
            return f"{takes}, {end}; {format_duration(left)} were left"
        return ""

    def _try(self, candidate: Candidate, rung: int) -> None:
        """Evaluate a candidate, and write the result into the journal, or why there is none."""
        about = {"key": candidate.key, "rung": rung, "candidate": candidate.to_dict()}
        begun, until = self.timer.elapsed, math.inf  # the first answer is given whatever it takes
        if self.leader is not None:
            if why := self._obstacle(candidate, rung):
                self.note("late", **about, why=why)
                return
            latest = self.timer.budget - self.reserve(candidate)
            until = min(latest, begun + self._longest(candidate))
        try:
            result = self.evaluator.evaluate(candidate, rung, until)
        except OutOfTimeError as error:
            seconds = format_duration(self.timer.elapsed - begun)
            self.note("late", **about, why=f"{error}, {seconds} after it began")
        except TrainingInterruptedError:
            raise
        except Exception as error:  # one candidate must not end the search
            self._failed.add((candidate.key, rung))
            name = "" if isinstance(error, LeporidError) else f"{type(error).__name__} "
            self.note("failed", **about, why=f"{name}{error}".strip())
        else:
            self.results[candidate.key, rung] = result
            found = {"value": result.value, "seconds": result.seconds, **result.facts}
            self.note("evaluated", **about, **found)

    def is_settled(self, candidate: Candidate, rung: int) -> bool:
        """Whether that trial is over, also where it failed."""
        place = (candidate.key, rung)
        return place in self.results or place in self._failed

    def note(self, kind: str, **fields: Any) -> None:
        """Write an event into the journal and tell it."""
        self._tell(self.journal.append(kind, at=round(self.timer.elapsed, 3), **fields))
