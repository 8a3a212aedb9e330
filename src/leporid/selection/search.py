"""`Search`: rounds of candidates over rungs of users and steps, compared by paired differences.

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
from leporid.selection.budget import OutOfTimeError, Timer
from leporid.selection.candidates import (
    FULL,
    MAX_TRIAL_SHARE,
    RUNGS,
    Candidate,
    Outcome,
    Result,
    Workers,
    by_value,
)
from leporid.selection.evaluator import TrialEvaluator

_POLL_WORKERS, _POLL_PROCESSES = 0.05, 0.2
"""Seconds between two looks at what workers, or other processes, have done."""
_TIE = 0.01
"""Two candidates are level only if their values differ by less than this share."""


class Search:
    """Rounds, one after the other, until only the time that the winner needs is left."""

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

    def round(self, candidates: Iterable[Candidate], rung: int = FULL) -> list[Result]:
        """Evaluate candidates at one rung, as far as there is time; the results in their order."""
        entrants = list({c.key: c for c in candidates}.values())
        if self.evaluator.workers is not None:
            self._send(entrants, rung, self.evaluator.workers)
        waiting = entrants
        while waiting:
            busy = [c for c in waiting if not self.is_settled(c, rung) and not self._try(c, rung)]
            if not busy or self.timer.left <= self.reserve():
                break
            time.sleep(_POLL_PROCESSES)  # another process has them
            self._absorb()
            waiting = busy
        return [self.results[c.key, rung] for c in entrants if (c.key, rung) in self.results]

    def bracket(self, candidates: Sequence[Candidate]) -> list[Result]:
        """Successive halving: all rungs, fewer candidates at each."""
        results: list[Result] = []
        for rung in range(len(RUNGS)):
            results = self.round(candidates, rung)
            candidates = [r.candidate for r in self.survivors(results)]
        return results

    def survivors(self, results: Sequence[Result]) -> list[Result]:
        """The best quarter, without those below another initialisation of the same model."""
        kept: list[Result] = []
        for result in sorted(results, key=by_value)[: entrants_kept(len(results))]:
            same = [other for other in kept if other.candidate.model == result.candidate.model]
            if all(self.compare(result, other).outcome != "below" for other in same):
                kept.append(result)
        return kept

    def compare(self, a: Result, b: Result) -> Comparison:
        """Two results of one rung, on the same users."""
        return compare(a.outcome.columns, b.outcome.columns, self.evaluator.metric)

    def level_with(self, best: Result) -> list[Result]:
        """Finished results within 1% of the best and not below it."""
        near = [r for r in self.finished if best.value - r.value <= _TIE * abs(best.value)]
        return [r for r in near if r is best or self.compare(r, best).outcome != "below"]

    def reserve(self) -> float:
        """Seconds to keep for the end of the search."""
        leader = self.leader
        return self._reserve + (self.evaluator.finish(leader.candidate) if leader else 0.0)

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

    def _send(self, candidates: Sequence[Candidate], rung: int, workers: Workers) -> None:
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
                sent[workers.submit(*self.evaluator.order(candidate, rung))] = candidate
            while sent:
                over = self.leader is not None and self.timer.left <= self.reserve()
                for task in [task for task in sent if over or task.done()]:
                    answer = partial(self.evaluator.receive, task=None if over else task)
                    if over:
                        task.cancel()
                    self._settle(sent.pop(task), rung, answer)
                time.sleep(_POLL_WORKERS)

    def _admit(self, candidate: Candidate, rung: int) -> float | None:
        """The deadline of a trial; None, and an event, where there is no time."""
        longest = MAX_TRIAL_SHARE * self.timer.budget if candidate.kind == "classical" else math.inf
        if self.leader is None:
            return math.inf
        while True:
            cost = self.evaluator.cost(candidate, rung)
            # A candidate must be able to win: its final fits must be possible after the trial.
            after = max(self._reserve + self.evaluator.finish(candidate), self.reserve())
            if self.timer.left >= cost + after or not self.evaluator.shorten(candidate, rung):
                break
        if cost > longest or self.timer.left < cost + after:
            self._late(candidate, rung, cost + after)
            return None
        return min(self.timer.budget - self.reserve(), self.timer.elapsed + longest)

    def _late(self, candidate: Candidate, rung: int, needs: float) -> None:
        self.late[candidate.key] = candidate
        self.note("late", **_about(candidate, rung), needs=round(needs, 1))

    def _settle(
        self, candidate: Candidate, rung: int, run: Callable[[Candidate, int], Outcome]
    ) -> None:
        """Write the outcome of a trial into the journal, or why there is none."""
        begun = self.timer.elapsed
        try:
            outcome = run(candidate, rung)
        except OutOfTimeError:
            self._late(candidate, rung, self.timer.elapsed - begun)
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


def entrants_kept(entrants: int) -> int:
    """How many of them go on to the next rung."""
    return math.ceil(entrants / 4)
