"""`Search`: runs trials, one after the other, and keeps the time for the end.

Every decision follows from the trials in the journal and a fixed order, so a killed search goes on
as if it had not been. The clock only decides whether there is time for the next trial.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import suppress

from leporid.errors import (
    ConfigError,
    DataError,
    GraphError,
    LeporidError,
    TrainingInterruptedError,
)
from leporid.runs import Event, Journal
from leporid.selection.budget import OutOfTimeError, Timer, format_duration
from leporid.selection.candidates import Candidate
from leporid.selection.evaluator import TrialEvaluator
from leporid.selection.runtime_estimates import MAX_TRIAL_SHARE
from leporid.selection.trials import TrialResult, by_value

REASONS_TO_LEAVE_OUT = (DataError, ConfigError, GraphError, OutOfTimeError)
"""Errors that leave out a network or an initialisation, without an end to the search."""
MAX_BLEND_PARTNER_SHARE = 0.1


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
        self.evaluator = evaluator
        self.journal = journal
        self.timer = timer
        self.task = evaluator.task
        self.estimates = evaluator.estimates
        self._reserve = reserve
        self._tell = tell
        self.results: dict[str, TrialResult] = {}
        """Results by the key of the candidate, in the order they came."""
        for event in journal.of("evaluated"):  # by earlier sessions
            candidate = Candidate.from_dict(event["candidate"])
            # A trial whose file is gone or damaged is done again.
            with suppress(DataError):
                self.results[event["key"]] = evaluator.recall(candidate, event["at"])

    @property
    def ranked(self) -> list[TrialResult]:
        """All results, the best first."""
        return sorted(self.results.values(), key=by_value)

    @property
    def leader(self) -> TrialResult | None:
        """The best result so far."""
        return min(self.results.values(), key=by_value, default=None)

    def best_of_each(self) -> dict[str, TrialResult]:
        """Return the best result of each model, the best model first."""
        best: dict[str, TrialResult] = {}
        for result in self.ranked:
            best.setdefault(result.candidate.model, result)
        return best

    def round(self, candidates: Iterable[Candidate]) -> None:
        """Evaluate candidates that have not been, as far as there is time."""
        for candidate in candidates:
            if not self.is_settled(candidate):
                self._try(candidate)

    def end_seconds(self, *winners: Candidate) -> float:
        """Return the seconds of the end if the slowest of these wins.

        The tests of the baselines belong to it.
        """
        best = self.best_of_each()
        finish = self.estimates.finish
        baselines = [name for name in self.task.baselines if name in best]
        tests = sum(finish(best[name].candidate) for name in baselines) / 2
        return self._reserve + tests + max(map(finish, winners), default=0.0)

    def reserve(self, new: Candidate | None = None) -> float:
        """Return the seconds to keep for the end, also if `new` should win.

        They include the fit of a second member of a blend.
        """
        best = [result.candidate for result in self.best_of_each().values()]
        limit = MAX_BLEND_PARTNER_SHARE * self.timer.budget
        partner = 0.0
        for candidate in best[1:4]:
            seconds = self.estimates.finish(candidate)
            if seconds <= limit:
                partner = seconds
                break
        winners = best[:1] if new is None else [*best[:1], new]
        return self.end_seconds(*winners) + partner

    @property
    def has_time(self) -> bool:
        """Whether there is any time left for trials."""
        return self.timer.left > self.reserve()

    def obstacle(self, candidate: Candidate) -> str:
        """Say why there is no time for a trial; empty if there is. It must be able to win."""
        left = self.timer.left
        longest = self._longest(candidate)
        if not self.has_time:
            return "its turn came when the time was over"
        cost = self.estimates.cost(candidate)
        end = self.reserve(candidate)
        takes = f"its fit takes about {format_duration(cost)}"
        if cost > longest and not candidate.is_network:
            return f"{takes}, more than one trial may ({format_duration(longest)})"
        if cost + end > left:
            return (
                f"{takes}, the end after it {format_duration(end)}; "
                f"{format_duration(left)} were left"
            )
        return ""

    def _longest(self, candidate: Candidate) -> float:
        """Return the seconds that a classical trial may take: the first of a model takes twice."""
        is_first = candidate.model not in self.best_of_each()
        return (2 if is_first else 1) * MAX_TRIAL_SHARE * self.timer.budget

    def _try(self, candidate: Candidate) -> None:
        """Evaluate a candidate, and write the result into the journal, or why there is none."""
        begun = self.timer.elapsed
        until = math.inf  # the first answer is given whatever it takes
        if self.leader is not None:
            why = self.obstacle(candidate)
            if why:
                self._note_failure("late", candidate, why)
                return
            until = self.timer.budget - self.reserve(candidate)
            if not candidate.is_network:
                until = min(until, begun + self._longest(candidate))
        try:
            result = self.evaluator.evaluate(candidate, until)
        except OutOfTimeError as error:
            seconds = format_duration(self.timer.elapsed - begun)
            after = "" if seconds == "0s" else f", {seconds} after it began"
            self._note_failure("late", candidate, f"{error}{after}")
        except TrainingInterruptedError:
            raise
        except Exception as error:  # one candidate must not end the search
            name = "" if isinstance(error, LeporidError) else f"{type(error).__name__} "
            self._note_failure("failed", candidate, f"{name}{error}".strip())
        else:
            self.results[candidate.key] = result
            self.note(
                "evaluated",
                key=candidate.key,
                candidate=candidate.to_dict(),
                value=result.value,
                seconds=result.seconds,
                **result.cost.to_dict(),
            )

    def is_settled(self, candidate: Candidate) -> bool:
        """Tell whether that trial is over, also if it failed."""
        failed = (event["key"] for event in self.journal.of("failed"))
        return candidate.key in self.results or candidate.key in failed

    def _note_failure(self, kind: str, candidate: Candidate, why: str) -> None:
        self.note(kind, key=candidate.key, candidate=candidate.to_dict(), why=why)

    def leave_out(self, model: str, why: str) -> None:
        """Write down that a model takes no part, and why."""
        self.note("left out", model=model, why=why)

    def note(self, kind: str, **fields: object) -> None:
        """Write an event into the journal and tell it."""
        self._tell(self.journal.append(kind, at=round(self.timer.elapsed, 3), **fields))
