"""From the race to a model to deploy: choose, test once, fit on everything.

The time for this was kept during the race. Where a prediction was wrong, the next candidate that
can still end in time takes the place, and that is said.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from leporid import models
from leporid.choosing.blending import FINALISTS, BlendChoice, choose_blend
from leporid.choosing.budget import Guard, OutOfTimeError
from leporid.choosing.candidates import Candidate
from leporid.choosing.judging import GOES_ON, Rehearsal
from leporid.choosing.race import FULL, Race, Result
from leporid.data import Split
from leporid.errors import LeporidError, LeporidWarning, TrainingInterruptedError
from leporid.evaluation import (
    MetricTable,
    combine,
    compare,
    evaluate,
    ingredients,
    parse_metric,
)
from leporid.models import Blend, Recommender, continued, everything
from leporid.runs import CUTS, Meter, RunRecord, judge, write_final, write_run
from leporid.training import StopWhen

BASELINES = ("toppop", "itemknn", "ease")
CURVE = (0.25, 0.5)
_CHEAPER = 0.5
_WORTH = 1.0
"""Of two that are level the one is taken that saves this share of the other's time, and so many
milliseconds: less is what two measurements of the same model differ by."""
_SEARCH = 0.03
"""Share of the budget that a search for a blend may take of what was kept for the end."""
_GRACE = 0.03
"""Share of the budget that the final fits may be late by: a good answer is worth that much."""
_STRATA = ("tail-users", "cold-users")


@dataclass
class Verdict:
    """What the race decided, and why."""

    best: Result | None = None
    """The highest value."""
    winner: Result | None = None
    """The cheapest of those that are level with it; after the fit, the one that was fitted."""
    runner_up: Result | None = None
    """The best of another model."""
    blend: BlendChoice | None = None
    """The greedy blend, taken or not."""
    takes_blend: bool = False
    curve: list[tuple[float, float]] = field(default_factory=list)
    """Shares of the users and the metric of the winner after learning from them."""
    notes: list[str] = field(default_factory=list)


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
    verdict: Verdict = field(default_factory=Verdict)
    tested: list[Tested] = field(default_factory=list)
    record: RunRecord | None = None
    model: Recommender | None = None
    label: str = ""
    members: list[Candidate] = field(default_factory=list)
    """What was fitted: one candidate, or those of a blend."""

    def decide(self) -> None:
        """The winner, by the judged values alone."""
        race, verdict = self.race, self.verdict
        verdict.best = best = race.leader
        if best is None:
            return
        level = race.level_with(best)
        cheapest = min(level, key=lambda r: r.outcome.facts["ms"])
        saved = best.outcome.facts["ms"] - cheapest.outcome.facts["ms"]
        cheaper = saved > max(_WORTH, _CHEAPER * best.outcome.facts["ms"])
        verdict.winner = cheapest if cheaper else best
        ranked = sorted(race.finished, key=lambda r: -r.value)
        others = [r for r in ranked if r.candidate.model != verdict.winner.candidate.model]
        verdict.runner_up = next(iter(others), None)
        self._blend(ranked)

    def _blend(self, ranked: list[Result]) -> None:
        """Blend the finalists: the best of each model, as far as all can be fitted in time."""
        timer, left = self.race.timer, self.race.timer.left
        finalists: list[Result] = []
        for result in ranked:
            needed = self.judge.finish(result.candidate)
            new = all(result.candidate.model != f.candidate.model for f in finalists)
            if new and needed < 0.8 * left and len(finalists) < FINALISTS:
                finalists.append(result)
                left -= needed if len(finalists) <= 3 else 0
        if len(finalists) < 2 or finalists[0] is not self.verdict.best:
            return
        lists = [self.judge.lists(result.candidate) for result in finalists]
        until = max(self._budget - self.race.reserve(), timer.elapsed + _SEARCH * self._budget)
        try:
            judged, guard = self.judge.part(FULL), Guard(timer, until)
            blend = choose_blend(finalists, lists, judged, self.metric, guard)
        except OutOfTimeError:
            self.verdict.notes.append("no time was left to look for a blend")
            return
        self.verdict.blend = blend
        if blend is not None and blend.low > 0:
            needed = sum(self.judge.finish(member.candidate) for member in blend.members)
            self.verdict.takes_blend = needed < 0.9 * timer.left

    def learn_curve(self) -> None:
        """The winner with fewer users, where that takes next to no time."""
        winner = self.verdict.winner
        if winner is None or winner.candidate.kind == "neural" or self.judge.stage.n_users < 40:
            return
        for share in CURVE:
            cost = winner.outcome.seconds
            if self.race.timer.left - 2 * self.race.reserve() < 2 * cost + 0.02 * self._budget:
                return
            guard = Guard(self.race.timer, self._budget - self.race.reserve())
            try:
                value = self._with_share(winner.candidate, share, guard)
            except LeporidError:
                return
            self.verdict.curve.append((share, value))
        self.verdict.curve.append((1.0, winner.value))

    def _with_share(self, candidate: Candidate, share: float, guard: Guard) -> float:
        """The metric after learning from a share of the users, those who are judged among them."""
        judge, stage = self.judge, self.judge.stage
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
        table = evaluate(
            model, part, at=(judge.cut,), progress=guard, metrics=[parse_metric(self.metric)[0]]
        )
        return table.mean()[self.metric]

    @property
    def _budget(self) -> float:
        return self.race.timer.budget

    @cached_property
    def known(self) -> Split:
        """What the chosen model learns from before the test."""
        return tested_on(self.split)

    def fit(self) -> None:
        """Fit the winner, test it, fit it on everything; or the next one that can end in time."""
        verdict = self.verdict
        for label, members, result in self._order():
            last = label == "toppop"
            try:
                self._fit_one(label, members, float("inf") if last else (1 + _GRACE) * self._budget)
                verdict.winner, verdict.takes_blend = result, len(members) > 1
                return
            except (OutOfTimeError, MemoryError):
                verdict.notes.append(f"{label} could not be fitted in the time left")
            except Exception as error:  # whatever one model does, the next one takes its place
                if last or isinstance(error, TrainingInterruptedError):
                    raise
                verdict.notes.append(f"{label} could not be fitted: {error}")

    def _order(self) -> Iterator[tuple[str, list[Candidate], Result | None]]:
        """Who is fitted first, and who in their place: label, members, what the race says of it."""
        verdict, timer = self.verdict, self.race.timer
        if verdict.takes_blend and verdict.blend is not None:
            yield verdict.blend.label, [m.candidate for m in verdict.blend.members], verdict.winner
        ranked = sorted(self.race.finished, key=lambda r: -r.value)
        if (winner := verdict.winner) is not None:
            for result in dict.fromkeys([winner, *ranked]):
                if result is winner or self.judge.finish(result.candidate) < timer.left:
                    yield result.candidate.label, [result.candidate], result
        plain = Candidate(model="toppop")
        yield plain.label, [plain], next((r for r in ranked if r.candidate == plain), None)

    def _fit_one(self, label: str, members: list[Candidate], until: float) -> None:
        guard = Guard(self.race.timer, until)
        with Meter() as meter:
            fitted = [self._fitted(candidate, guard) for candidate in members]
            validated = self._as_one(fitted)
        self.label, self.members = label, members
        self._say("fitted", seconds=meter.seconds)
        if len(self.split.test):
            self._test(label, validated, meter, guard)
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
                self.model = validated
        if self.model is validated or self.record is None:
            self.model.save(self.folder / "model")
        else:
            self.record = write_final(
                self.folder, self.model, validated, self.record, meter.seconds
            )
        self._say("final fit", seconds=meter.seconds)

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

    def _test(self, label: str, model: Recommender, meter: Meter, guard: Guard) -> None:
        """The only look at the test part for the chosen model; its record."""
        table = self._evaluated(model, guard)
        self.record, outcomes = judge(
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
                "choose": {"metric": self.metric, "budget": self._budget, "label": label},
                "data_digest": self.split.digest,
                "learnt": "train and validation",
            },
        )
        write_run(self.folder, model, self.record, outcomes)
        self.tested.append(self._tested(label, table, meter.seconds))

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
            found = compare(self.tested[0].columns, other.columns, self.metric)
            other.low, other.high = found.low, found.high
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
