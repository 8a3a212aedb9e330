"""`Search`: runs trials, one after the other or by workers, and keeps the time for the end.

Every decision follows from the trials in the journal and a fixed order, so a killed search goes on
as if it had not been. The clock only decides whether there is time for the next trial.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

from leporid.errors import DataError, LeporidError, TrainingInterruptedError
from leporid.evaluation import Comparison, compare
from leporid.experiments import Event, Journal
from leporid.selection.budget import OutOfTimeError, Timer, format_duration
from leporid.selection.candidates import FULL, Candidate, Outcome, Result, by_value
from leporid.selection.evaluator import TrialEvaluator
from leporid.selection.runtime_estimates import FIRST_SHARE

TESTED = ("toppop", "itemknn")
"""Baselines that are always tested, so the time for them is kept."""
_VARIANT_SHARE = 0.08
"""Share of the budget that a later trial of a classical model may take."""
_PARTNER_SHARE = 0.1
"""Share of the budget that is kept at most for a second member of a blend."""
_POLL_WORKERS, _POLL_PROCESSES = 0.05, 0.2
"""Seconds between two looks at what workers, or other processes, have done."""


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
        self._failed: set[tuple[str, int]] = set()
        self.late: dict[str, Candidate] = {}
        """Candidates left out because there was no time for them."""
        self._absorb()

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
        entrants = list({c.key: c for c in candidates}.values())
        if self.evaluator.workers is not None:
            self._send([c for c in entrants if c.kind == "classical"], rung)
        waiting = entrants
        while waiting:
            busy = [c for c in waiting if not self.is_settled(c, rung) and not self._try(c, rung)]
            if not busy or self.timer.left <= self.reserve():
                break
            time.sleep(_POLL_PROCESSES)  # another process has them
            self._absorb()
            waiting = busy
        return [self.results[c.key, rung] for c in entrants if (c.key, rung) in self.results]

    def compare(self, a: Result, b: Result) -> Comparison:
        """Two results of one rung, on the same users."""
        names = {"name_a": a.candidate.label, "name_b": b.candidate.label}
        return compare(a.outcome.columns, b.outcome.columns, self.evaluator.metric, **names)

    def end_seconds(self, *winners: Candidate) -> float:
        """Seconds of the end if the slowest of these wins, with the tests of the baselines."""
        best, finish = self.best_of_each(), self.evaluator.finish
        tested = [finish(best[name].candidate) / 2 for name in TESTED if name in best]
        return self._reserve + sum(tested) + max(map(finish, winners), default=0.0)

    def reserve(self, new: Candidate | None = None) -> float:
        """Seconds to keep for the end and a second member of a blend, also if `new` should win."""
        best = [result.candidate for result in self.best_of_each().values()]
        limit = _PARTNER_SHARE * self.timer.budget
        second = map(self.evaluator.finish, best[1:4])
        partner = next((seconds for seconds in second if seconds <= limit), 0.0)
        return self.end_seconds(*best[:1], *([new] if new else [])) + partner

    def _try(self, candidate: Candidate, rung: int) -> bool:
        """Evaluate the candidate unless another process does; whether the trial is settled."""
        with self.journal.claim(f"{candidate.key}-{rung}") as mine:
            if not mine:
                return False
            self._absorb()
            if not self.is_settled(candidate, rung):
                until = self._admit(candidate, rung)
                if until is not None:
                    self._settle(candidate, rung, partial(self.evaluator.evaluate, until=until))
        return True

    def _send(self, candidates: Sequence[Candidate], rung: int) -> None:
        """Let workers evaluate all at once; those without an answer at the deadline are late."""
        with ExitStack() as claims:
            sent: dict[Any, Candidate] = {}
            for candidate in candidates:
                own = self.journal.claim(f"{candidate.key}-{rung}")
                if self.is_settled(candidate, rung) or not claims.enter_context(own):
                    continue
                self._absorb()
                if self.is_settled(candidate, rung) or self._admit(candidate, rung) is None:
                    continue
                order = self.evaluator.order(candidate, rung)
                sent[self.evaluator.workers.submit(*order)] = candidate
            while sent:
                over = self.leader is not None and self.timer.left <= self.reserve()
                for task in [task for task in sent if over or task.done()]:
                    answer = partial(self.evaluator.receive, task=None if over else task)
                    if over:
                        task.cancel()
                    self._settle(sent.pop(task), rung, answer)
                time.sleep(_POLL_WORKERS)

    @property
    def has_time(self) -> bool:
        """Whether there is any time left for trials."""
        return self.timer.left > self.reserve()

    def fits(self, candidate: Candidate, rung: int = FULL) -> bool:
        """Whether there is time for a trial."""
        return not self._obstacle(candidate, rung)

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
        cost, after = self.evaluator.cost(candidate, rung), self.reserve(candidate)
        takes = f"its fit takes about {format_duration(cost)}"
        if cost > longest:
            return f"{takes}, more than one trial may ({format_duration(longest)})"
        if cost + after > left:
            end = f"the end after it {format_duration(after)}"
            return f"{takes}, {end}; {format_duration(left)} were left"
        return ""

    def _admit(self, candidate: Candidate, rung: int) -> float | None:
        """The deadline of a trial; None, and an event, where there is no time."""
        if self.leader is None:
            return math.inf
        if why := self._obstacle(candidate, rung):
            self._late(candidate, rung, why)
            return None
        own = self.timer.elapsed + self._longest(candidate)
        return min(self.timer.budget - self.reserve(candidate), own)

    def _late(self, candidate: Candidate, rung: int, why: str) -> None:
        self.late[candidate.key] = candidate
        self.note("late", **_about(candidate, rung), why=why)

    def _settle(
        self, candidate: Candidate, rung: int, run: Callable[[Candidate, int], Outcome]
    ) -> None:
        """Write the outcome of a trial into the journal, or why there is none."""
        begun = self.timer.elapsed
        try:
            outcome = run(candidate, rung)
        except OutOfTimeError as error:
            seconds = format_duration(self.timer.elapsed - begun)
            self._late(candidate, rung, f"{error}, {seconds} after it began")
            return
        except TrainingInterruptedError:
            raise
        except Exception as error:  # one candidate must not end the search
            self._failed.add((candidate.key, rung))
            name = "" if isinstance(error, LeporidError) else f"{type(error).__name__} "
            self.note("failed", **_about(candidate, rung), why=f"{name}{error}".strip())
            return
        self.late.pop(candidate.key, None)
        result = Result(candidate, rung, outcome, self.timer.elapsed)
        about = {"value": result.value, "seconds": outcome.seconds}
        self.note("evaluated", **_about(candidate, rung), **about, **outcome.facts)
        self.results[candidate.key, rung] = result

    def is_settled(self, candidate: Candidate, rung: int) -> bool:
        """Whether that trial is over, also where it failed."""
        place = (candidate.key, rung)
        return place in self.results or place in self._failed

    def note(self, kind: str, **fields: Any) -> None:
        """Write an event into the journal and tell it."""
        self._tell(self.journal.append(kind, at=round(self.timer.elapsed, 3), **fields))

    def _absorb(self) -> None:
        """Take over trials of other processes and sessions."""
        self.journal.reload()
        for event in self.journal.of("evaluated", "failed"):
            place = (event["key"], event["rung"])
            if event["event"] == "failed":
                self._failed.add(place)
            elif place not in self.results:
                candidate = Candidate.from_dict(event["candidate"])
                with suppress(DataError):  # its file is gone or damaged: it is evaluated again
                    outcome = self.evaluator.recall(candidate, event["rung"])
                    self.results[place] = Result(candidate, event["rung"], outcome, event["at"])


def _about(candidate: Candidate, rung: int) -> dict[str, Any]:
    return {"key": candidate.key, "rung": rung, "candidate": candidate.to_dict()}
