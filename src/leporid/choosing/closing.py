"""From the race to a model to deploy: choose, test once, fit on everything.

The time for this was kept during the race. Where a prediction was wrong, the next candidate that
can still end in time takes the place, and that is said. An answer that the folder holds already is
replaced only by one with a higher value.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from leporid import models
from leporid.artifacts import atomic_folder
from leporid.choosing import decision
from leporid.choosing.answer import Answer
from leporid.choosing.budget import Guard, OutOfTimeError
from leporid.choosing.candidates import Candidate
from leporid.choosing.decision import Verdict
from leporid.choosing.journal import Event
from leporid.choosing.judging import GOES_ON, Rehearsal
from leporid.choosing.race import FULL, Race, Result, by_value
from leporid.data import Split
from leporid.errors import LeporidError, LeporidWarning, TrainingInterruptedError
from leporid.evaluation import MetricTable, combine, evaluate, ingredients, paired_interval
from leporid.models import Blend, Recommender, continued, everything
from leporid.runs import CUTS, Meter, RunRecord, UserOutcomes, judge, write_final, write_run
from leporid.training import StopWhen

BASELINES = ("toppop", "itemknn", "ease")
_GRACE = 0.03
"""Share of the budget that the final fits may be late by: a good answer is worth that much."""
_STRATA = ("tail-users", "cold-users")


@dataclass
class Tested:
    """A fitted model on the test part."""

    label: str
    metrics: dict[str, float]
    strata: dict[str, float]
    """The metric among tail and new users."""
    columns: Any
    seconds: float
    low: float = 0.0
    high: float = 0.0
    """95% interval of the chosen model's metric minus this one's."""


@dataclass
class Closing:
    """The end of a race."""

    race: Race
    judge: Rehearsal
    split: Split
    metric: str
    folder: Path
    dataset: str
    tell: Callable[[dict[str, Any]], None]
    describe: Callable[[Closing, Path], dict[str, Any]]
    """Writes the summary and the report of the answer into a folder; the parts of a `Choice`."""
    verdict: Verdict = field(default_factory=Verdict)
    tested: list[Tested] = field(default_factory=list)
    record: RunRecord | None = None
    outcomes: UserOutcomes | None = None
    model: Recommender | None = None
    label: str = ""
    members: list[Candidate] = field(default_factory=list)
    """What was fitted: one candidate, or those of a blend."""
    value: float | None = None
    """The metric of that in the race; None where it was not judged."""
    is_interrupted: bool = False
    is_written: bool = False
    is_complete: bool = False

    @property
    def key(self) -> str:
        """Of what was fitted."""
        return "+".join(member.key for member in self.members)

    @property
    def _budget(self) -> float:
        return self.race.timer.budget

    def decided(self) -> Event | None:
        """The decision of an earlier session, unless something was judged since."""
        events = self.race.journal.of("decided", "judged")
        events = [e for e in events if e["event"] == "decided" or e["rung"] == FULL]
        last = events[-1] if events else None
        return last if last and last["event"] == "decided" and not last["interrupted"] else None

    def decide(self) -> None:
        """Decide as an earlier session did with the same results, or anew."""
        race, verdict, before = self.race, self.verdict, self.decided()
        if race.journal.is_resumed:
            # The end has its time again, whatever an earlier one or loading the log took.
            race.timer.keep(max(race.reserve(), before["left"] if before else 0.0))
        if before is not None and verdict.restore(before, race):
            return
        decision.decide(race, self.judge, self.metric, verdict)
        if verdict.winner is not None:
            about = {**verdict.to_event(), "interrupted": self.is_interrupted}
            about |= {"label": verdict.winner.candidate.label, "left": race.timer.left}
            self._say("decided", budget=self._budget, **about)

    def learn_curve(self) -> None:
        """The winner with fewer users, where that takes next to no time."""
        decision.learning_curve(self.race, self.judge, self.verdict)

    @cached_property
    def known(self) -> Split:
        """What the chosen model learns from before the test."""
        return tested_on(self.split)

    def fit(self, standing: Answer | None = None) -> bool:
        """Fit the winner, test it, fit it on everything; or the next one that can end in time.

        False where the `standing` answer of the folder stays, since nothing better can be fitted.
        """
        verdict = self.verdict
        for label, members, result in self._order():
            last, value = label == "toppop", self._value(members, result)
            if standing is not None and not standing.gives_way_to(members, value):
                return False
            self.label, self.members, self.value = label, members, value
            try:
                until = float("inf") if last else (1 + _GRACE) * self._budget
                self._fit_one(until, is_first=standing is None)
            except (OutOfTimeError, MemoryError):
                verdict.notes.append(f"{label} could not be fitted in the time left")
            except Exception as error:  # whatever one model does, the next one takes its place
                if last or self.is_written or isinstance(error, TrainingInterruptedError):
                    raise
                verdict.notes.append(f"{label} could not be fitted: {error}")
            else:
                return True
        return False

    def _value(self, members: list[Candidate], result: Result | None) -> float | None:
        """The metric in the race; of a blend on users that it was not picked on."""
        best, blend = self.verdict.best, self.verdict.blend
        if len(members) > 1 and best is not None and blend is not None:
            return best.value + blend.difference
        return None if result is None else result.value

    def _order(self) -> Iterator[tuple[str, list[Candidate], Result | None]]:
        """Who is fitted first, and who in their place: label, members, what the race says of it."""
        verdict, timer = self.verdict, self.race.timer
        winner, blend = verdict.winner, verdict.blend
        if verdict.takes_blend and blend is not None:
            yield blend.label, [m.candidate for m in blend.members], winner
            verdict.takes_blend = False
        ranked = sorted(self.race.finished, key=by_value)
        if winner is not None:
            for result in dict.fromkeys([winner, *ranked]):
                if result is winner or self.judge.finish(result.candidate) < timer.left:
                    if result is not winner:
                        verdict.winner, verdict.milliseconds = result, None
                    yield result.candidate.label, [result.candidate], result
        plain = Candidate(model="toppop")
        verdict.winner = next((r for r in ranked if r.candidate == plain), None)
        yield plain.label, [plain], verdict.winner

    def _fit_one(self, until: float, *, is_first: bool) -> None:
        guard, members = Guard(self.race.timer, until), self.members
        with Meter() as meter:
            fitted = [self._fitted(candidate, guard) for candidate in members]
            self.model = validated = self._as_one(fitted)
        self._say("fitted", seconds=meter.seconds)
        if len(self.split.test):
            self._test(validated, meter, guard)
            if is_first:  # an earlier answer is not replaced before the final fit
                self._write(validated, 0.0)
        with Meter() as meter:
            try:
                pairs = zip(members, fitted, strict=True)
                self.model = self._as_one([self._final(c, m, guard) for c, m in pairs])
            except TrainingInterruptedError:
                raise
            except Exception as error:  # it was tested, so this is the answer, whatever happens
                late = isinstance(error, OutOfTimeError)
                why = "there was no time for the final fit" if late else f"no final fit: {error}"
                self.verdict.notes.append(
                    f"{why}; the model in the folder has not learnt from the test part"
                )
        self._write(validated, meter.seconds)
        self._say("final fit", seconds=meter.seconds)

    def _write(self, validated: Recommender, seconds: float) -> None:
        """Put the answer into the folder: model, record, summary and report in one step."""
        assert self.model is not None
        with atomic_folder(self.folder, without=("validated", "history.csv")) as fresh:
            if self.record is None or self.outcomes is None:
                self.model.save(fresh / "model")
            else:
                write_run(fresh, validated, self.record, self.outcomes)
                if self.model is not validated:
                    write_final(fresh, self.model, validated, self.record, seconds)
            self.describe(self, fresh)
        self.is_written = True

    def _as_one(self, fitted: list[Recommender]) -> Recommender:
        """The model itself, or the blend of several."""
        blend = self.verdict.blend
        return Blend.of(fitted, blend.entries) if blend and len(fitted) > 1 else fitted[0]

    def _fitted(self, candidate: Candidate, guard: Guard) -> Recommender:
        """A candidate fitted on what is known before the test."""
        if candidate.kind == "classical":
            return self._fit_classical(candidate, guard, final=False)
        model = self.judge.trained(candidate)
        if not self.judge.begins_anew(candidate):
            return self._continued(model, self.known, guard)
        again = model.refit(self.known.train, **self._how(guard))
        again.fitting = again.fitting.replace(final=False)
        return again

    def _final(self, candidate: Candidate, model: Recommender, guard: Guard) -> Recommender:
        """The same on everything."""
        if candidate.kind == "neural":
            again = self._continued(model, everything(self.split), guard)
            again.fitting = again.fitting.replace(final=True)
            return again
        return self._fit_classical(candidate, guard, final=True)

    def _continued(self, model: Recommender, split: Split, guard: Guard) -> Recommender:
        with warnings.catch_warnings(action="ignore", category=LeporidWarning):
            return continued(model, split, GOES_ON, **self._how(guard))

    def _how(self, guard: Guard) -> dict[str, Any]:
        def stop(step: int) -> bool:
            guard.advance(0)  # a network asks after every step
            return False

        return {"device": self.judge.device, "callbacks": [StopWhen(stop)], "progress": guard}

    def _fit_classical(self, candidate: Candidate, guard: Guard, *, final: bool) -> Recommender:
        about, seed = candidate.to_dict(), self.judge.seed
        job: dict[str, Any] = {"candidate": about, "seed": seed, "final": final}
        if self.judge.is_doubtful(candidate, guard.until):
            with tempfile.TemporaryDirectory(dir=self.judge.folder) as folder:
                to = Path(folder) / "model"
                self.judge.apart(fit_alone, guard.until, candidate.model, to=str(to), **job)
                return Recommender.load(to)
        with warnings.catch_warnings(action="ignore", category=LeporidWarning):
            return fit_on(self.split, **job, progress=guard)

    def _test(self, model: Recommender, meter: Meter, guard: Guard) -> None:
        """The only look at the test part for the chosen model; its record."""
        table = self._evaluated(model, guard)
        self.record, self.outcomes = judge(
            model,
            self.known,
            meter,
            table=table,
            at=table.at,
            dataset=self.dataset,
            experiment="choose",
            init=self.members[0].init if len(self.members) == 1 else None,
            recipe=None,
            seed=self.judge.seed,
            extra={
                "choose": {"metric": self.metric, "budget": self._budget, "label": self.label},
                "data_digest": self.split.digest,
                "learnt": "train and validation",
            },
        )
        self.tested = [self._tested(self.label, table, meter.seconds)]

    def test_others(self) -> None:
        """Runner-up and baselines on test, as far as there is time."""
        if not self.tested:
            return
        entries = [self.verdict.runner_up.candidate] if self.verdict.runner_up else []
        judged = {r.candidate.model for r in self.race.finished}
        entries += [Candidate(model=name) for name in BASELINES if name in judged]
        for candidate in {c.key: c for c in entries}.values():
            if candidate.label == self.label:
                continue
            needed = 0.75 * self.judge.finish(candidate) + 0.02 * self._budget
            if needed > self.race.timer.left:
                self.verdict.notes.append(f"no time was left to test {candidate.label}")
                continue
            guard = Guard(self.race.timer, self._budget)
            try:
                with Meter() as meter:
                    model = self._fitted(candidate, guard)
                table = self._evaluated(model, guard)
            except (OutOfTimeError, MemoryError):
                self.verdict.notes.append(f"no time was left to test {candidate.label}")
                continue
            except LeporidError as error:  # the choice is made and must not be lost
                self.verdict.notes.append(f"{candidate.label} could not be tested: {error}")
                continue
            other = self._tested(candidate.label, table, meter.seconds)
            other.low, other.high = paired_interval(self.tested[0].columns, other.columns)
            self.tested.append(other)
            self._say("tested", label=candidate.label, value=other.metrics[self.metric])

    def _evaluated(self, model: Recommender, guard: Guard) -> MetricTable:
        cuts = tuple(sorted({*CUTS, self.judge.cut}))
        return evaluate(model, self.known, at=cuts, progress=guard)

    def _tested(self, label: str, table: MetricTable, seconds: float) -> Tested:
        columns = np.column_stack([table.per_user(name) for name in ingredients(self.metric)])
        means = table.mean()
        means[self.metric] = float(combine(list(columns.mean(axis=0))))
        strata = {
            name: table.mean(stratum=name)[self.metric] for name in _STRATA if table.has_users(name)
        }
        return Tested(label, means, strata, columns, seconds)

    def _say(self, event: str, **fields: Any) -> None:
        about = {"label": self.label, **fields}
        self.tell(self.race.journal.append(event, at=self.race.timer.elapsed, **about))


def tested_on(split: Split) -> Split:
    """The split with validation, which chose the model, in its training part as well."""
    nothing = split.train.select(np.empty(0, np.int64))
    return Split(split.train_valid, nothing, split.test, split.protocol)


def fit_on(
    split: Split, candidate: dict[str, Any], seed: int, final: bool, **how: Any
) -> Recommender:
    """Fit a classical candidate on what is known before the test, or on everything."""
    own = Candidate.from_dict(candidate)
    part = everything(split) if final else tested_on(split)
    model = models.get(own.model)(**own.settings).fit(part, seed=seed, **how)
    model.fitting = model.fitting.replace(final=final)
    return model


def fit_alone(split: str, to: str, **job: Any) -> None:
    """The same of a saved split; the model is saved."""
    fit_on(Split.load(split), **job).save(to)
