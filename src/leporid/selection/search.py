"""The race: heats of candidates over rungs of users and steps, by paired differences.

It knows no model: a `Judge` says what an evaluation costs and what came out of it. Every decision
follows from the evaluations in the journal and a fixed order, so a race that was killed goes on as
if it had not been. The clock decides only whether there is time for the next evaluation.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from leporid.errors import DataError, LeporidError, TrainingInterruptedError
from leporid.evaluation import combine, compare
from leporid.experiments import claim
from leporid.selection.budget import OutOfTimeError, Timer
from leporid.selection.candidates import Candidate
from leporid.selection.journal import Event, Journal

LONGEST = 0.06
"""Share of the budget that the evaluation of one classical model may take."""
_LOOK_EVERY = 0.05
"""Seconds between two looks at what workers have done."""
TIE = 0.01
"""Two candidates are level only if their values differ by less than this share."""


@dataclass(frozen=True)
class Rung:
    """How much an evaluation looks at."""

    users: float
    """Share of the judged users."""
    steps: float
    """Share of the steps of a full training."""


RUNGS = (Rung(0.25, 1 / 9), Rung(0.5, 1 / 3), Rung(1.0, 1.0))
FULL = len(RUNGS) - 1


@dataclass(frozen=True, eq=False)
class Outcome:
    """What an evaluation gave."""

    columns: NDArray[np.float64]
    """float64[m, c]: the metric of every judged user, or what it is made of (F1)."""
    seconds: float
    """Of the whole evaluation."""
    facts: dict[str, Any]
    """Milliseconds per request, bytes, steps: what the table shows."""

    @cached_property
    def value(self) -> float:
        """The metric."""
        return float(combine(list(self.columns.mean(axis=0))))


class Task(Protocol):
    """Work somewhere else."""

    def done(self) -> bool:
        """Whether it is over, well or badly."""

    def result(self) -> Any:
        """What it gave, or what it raised."""

    def cancel(self) -> Any:
        """Nobody waits for it any more."""


class Workers(Protocol):
    """Who judges candidates at the same time: a cluster, a pool of processes."""

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Task:
        """Begin `function(*arguments)` somewhere."""


class Judge(Protocol):
    """What the race needs of the world outside."""

    workers: Workers | None
    """None: everything is judged here, one after the other."""

    def cost(self, candidate: Candidate, rung: int) -> float:
        """Predicted seconds of an evaluation; 0 where nothing is known."""

    def finish(self, candidate: Candidate) -> float:
        """Predicted seconds from the end of the race to a deployed model, if this one wins."""

    def shorten(self, candidate: Candidate, rung: int) -> bool:
        """Plan an evaluation for less time; whether that is possible."""

    def evaluate(self, candidate: Candidate, rung: int, until: float) -> Outcome:
        """Fit and judge; `OutOfTimeError` where it would end after `until`."""

    def recall(self, candidate: Candidate, rung: int) -> Outcome:
        """The outcome of an evaluation that the journal names."""

    def order(self, candidate: Candidate, rung: int) -> tuple[Callable[..., Any], *tuple[Any, ...]]:
        """What a worker is asked to do: a function and its arguments."""

    def receive(self, candidate: Candidate, rung: int, task: Task | None) -> Outcome:
        """The outcome of what a worker did; `OutOfTimeError` where it did nothing (None)."""


@dataclass(frozen=True, eq=False)
class Result:
    """A candidate, how far it came, and what came out."""

    candidate: Candidate
    rung: int
    outcome: Outcome
    at: float

    @property
    def value(self) -> float:
        """The metric."""
        return self.outcome.value


class Race:
    """Heats, one after the other, until the time that the winner needs is all that is left."""

    def __init__(
        self,
        judge: Judge,
        journal: Journal,
        timer: Timer,
        *,
        reserve: float = 0.0,
        tell: Callable[[Event], None] = lambda event: None,
    ) -> None:
        self.judge, self.journal, self.timer = judge, journal, timer
        self._reserve, self._tell = reserve, tell
        self.results: dict[tuple[str, int], Result] = {}
        self._failed: set[tuple[str, int]] = set()
        self.late: dict[str, Candidate] = {}
        """Candidates left out because there was no time for them."""
        self._absorb()

    @property
    def finished(self) -> list[Result]:
        """Results on all users with all steps, in the order they came."""
        return [result for result in self.results.values() if result.rung == FULL]

    @property
    def leader(self) -> Result | None:
        """The best of them."""
        return min(self.finished, key=by_value, default=None)

    def heat(self, candidates: Iterable[Candidate], rung: int = FULL) -> list[Result]:
        """Judge all of them at one rung, as far as there is time; the results, in their order."""
        wanted = list({c.key: c for c in candidates}.values())
        if self.judge.workers is not None:
            self._send(wanted, rung, self.judge.workers)
        waiting = wanted
        while waiting:
            busy = [c for c in waiting if not self.is_settled(c, rung) and not self._try(c, rung)]
            if not busy or self.timer.left <= self.reserve():
                break
            time.sleep(0.2)  # another process has them
            self._absorb()
            waiting = busy
        return [self.results[c.key, rung] for c in wanted if (c.key, rung) in self.results]

    def bracket(self, candidates: Sequence[Candidate]) -> list[Result]:
        """Through all rungs, fewer at each."""
        results: list[Result] = []
        for rung in range(len(RUNGS)):
            results = self.heat(candidates, rung)
            candidates = [r.candidate for r in self.survivors(results)]
        return results

    def survivors(self, results: Sequence[Result]) -> list[Result]:
        """The better quarter, less those clearly behind another start of the same model."""
        kept: list[Result] = []
        for result in sorted(results, key=by_value)[: entrants_kept(len(results))]:
            same = [other for other in kept if other.candidate.model == result.candidate.model]
            if all(self.difference(result, other)[2] >= 0 for other in same):
                kept.append(result)
        return kept

    def difference(self, first: Result, second: Result) -> tuple[float, float, float]:
        """first - second with its 95% interval, on the same users."""
        found = compare(first.outcome.columns, second.outcome.columns, "metric")
        return found.difference, found.low, found.high

    def level_with(self, best: Result) -> list[Result]:
        """Finished results that differ from the best by next to nothing, and not for certain."""
        near = [r for r in self.finished if best.value - r.value <= TIE * abs(best.value)]
        return [r for r in near if r is best or self.difference(r, best)[2] >= 0]

    def reserve(self) -> float:
        """Seconds to keep for what comes after the race."""
        leader = self.leader
        return self._reserve + (self.judge.finish(leader.candidate) if leader else 0.0)

    def _claim(self, candidate: Candidate, rung: int) -> AbstractContextManager[bool]:
        return claim(self.journal.path.parent / "claims" / f"{candidate.key}-{rung}")

    def _try(self, candidate: Candidate, rung: int) -> bool:
        """Judge the candidate unless another process does; whether that is settled."""
        with self._claim(candidate, rung) as mine:
            if not mine:
                return False
            self._absorb()
            if not self.is_settled(candidate, rung):
                until = self._admit(candidate, rung)
                if until is not None:
                    self._settle(candidate, rung, partial(self.judge.evaluate, until=until))
        return True

    def _send(self, candidates: Sequence[Candidate], rung: int, workers: Workers) -> None:
        """Let workers judge them all at once; who has no answer at the deadline is late."""
        with ExitStack() as claims:
            sent: dict[Task, Candidate] = {}
            for candidate in candidates:
                if not self.is_settled(candidate, rung) and claims.enter_context(
                    self._claim(candidate, rung)
                ):
                    self._absorb()
                    if self.is_settled(candidate, rung) or self._admit(candidate, rung) is None:
                        continue
                    task = workers.submit(*self.judge.order(candidate, rung))
                    sent[task] = candidate
            while sent:
                over = self.leader is not None and self.timer.left <= self.reserve()
                for task in [task for task in sent if over or task.done()]:
                    answer = partial(self.judge.receive, task=None if over else task)
                    if over:
                        task.cancel()
                    self._settle(sent.pop(task), rung, answer)
                time.sleep(_LOOK_EVERY)

    def _admit(self, candidate: Candidate, rung: int) -> float | None:
        """Until when the candidate may be judged; None, and a note, where there is no time."""
        longest = LONGEST * self.timer.budget if candidate.kind == "classical" else math.inf
        if self.leader is None:
            return math.inf
        while True:
            cost = self.judge.cost(candidate, rung)
            # Whoever takes part must be able to win: its own end must fit behind it.
            after = max(self._reserve + self.judge.finish(candidate), self.reserve())
            if self.timer.left >= cost + after or not self.judge.shorten(candidate, rung):
                break
        if cost > longest or self.timer.left < cost + after:
            self._late(candidate, rung, cost + after)
            return None
        return min(self.timer.budget - self.reserve(), self.timer.elapsed + longest)

    def _late(self, candidate: Candidate, rung: int, needs: float) -> None:
        self.late[candidate.key] = candidate
        self._note("late", **_about(candidate, rung), needs=round(needs, 1))

    def _settle(
        self, candidate: Candidate, rung: int, judged: Callable[[Candidate, int], Outcome]
    ) -> None:
        """Take an outcome to the journal, or why there is none."""
        begun = self.timer.elapsed
        try:
            outcome = judged(candidate, rung)
        except OutOfTimeError:
            self._late(candidate, rung, self.timer.elapsed - begun)
            return
        except TrainingInterruptedError:
            raise
        except Exception as error:  # whatever one candidate does, the others go on
            self._failed.add((candidate.key, rung))
            name = "" if isinstance(error, LeporidError) else f"{type(error).__name__} "
            self._note("failed", **_about(candidate, rung), why=f"{name}{error}".strip())
            return
        self.late.pop(candidate.key, None)
        about = {**_about(candidate, rung), "value": outcome.value, "seconds": outcome.seconds}
        event = self._note("judged", **about, **outcome.facts)
        self.results[candidate.key, rung] = Result(candidate, rung, outcome, event["at"])

    def is_settled(self, candidate: Candidate, rung: int) -> bool:
        """Whether that evaluation is over, well or badly."""
        place = (candidate.key, rung)
        return place in self.results or place in self._failed

    def _note(self, kind: str, **fields: Any) -> Event:
        event = self.journal.append(kind, at=self.timer.elapsed, **fields)
        self._tell(event)
        return event

    def _absorb(self) -> None:
        """Take over what the journal knows by now and this process does not."""
        self.journal.reload()
        for event in self.journal.of("judged", "failed"):
            place = (event["key"], event["rung"])
            if event["event"] == "failed":
                self._failed.add(place)
            elif place not in self.results:
                candidate = Candidate.from_dict(event["candidate"])
                with suppress(DataError):  # its file is gone or damaged: it is evaluated again
                    outcome = self.judge.recall(candidate, event["rung"])
                    self.results[place] = Result(candidate, event["rung"], outcome, event["at"])


def _about(candidate: Candidate, rung: int) -> dict[str, Any]:
    return {"key": candidate.key, "rung": rung, "candidate": candidate.to_dict()}


def by_value(result: Result) -> tuple[float, int, str]:
    """Sorts the best first; of equals the one with fewer settings, then the one with the lower key.

    The order in which results arrive must not matter: workers answer in any order.
    """
    return -result.value, len(result.candidate.settings), result.candidate.key


def entrants_kept(entrants: int) -> int:
    """How many of them go on to the next rung."""
    return math.ceil(entrants / 4)
