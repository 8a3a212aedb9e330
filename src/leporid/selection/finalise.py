"""From the search to a deployed model: decide, test once, fit on everything.

The time for this was kept during the search. If a fit overruns its estimate, the next-best
candidate that still fits the budget is used, and the summary says so. An answer that the folder
already holds is replaced only by one with a higher value.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leporid import models
from leporid.artifacts import atomic_folder
from leporid.data import Split
from leporid.errors import LeporidError, LeporidWarning, TrainingInterruptedError
from leporid.evaluation import MetricTable, compare, evaluate
from leporid.experiments import (
    BASELINES,
    CUTOFFS,
    Event,
    Journal,
    Meter,
    record_run,
    write_final,
    write_run,
)
from leporid.models import Blend, Recommender, continued, everything
from leporid.selection.answer import Answer, FinalModel, Session
from leporid.selection.budget import Guard, OutOfTimeError
from leporid.selection.candidates import FULL, Candidate, by_value, with_validation
from leporid.selection.decision import decide
from leporid.selection.evaluator import TrialEvaluator
from leporid.selection.runtime_estimates import CONTINUED_STEPS
from leporid.selection.summary import describe
from leporid.training import StopWhen

_GRACE = 0.03
"""The final fits may overrun the budget by this share rather than be lost."""
_TEST_SHARE = 0.02
"""Share of the budget that testing one more model must leave."""


def finalise(
    session: Session, standing: Answer | None
) -> tuple[Recommender, dict[str, Any]] | None:
    """Decide, fit, test and write the answer; the model and the parts of a `Choice`.

    None where the standing answer of the folder stays, since nothing better could be fitted.
    """
    search = session.search
    decide_or_restore(session)
    with warnings.catch_warnings(action="ignore", category=LeporidWarning):
        final = fit_winner(session, standing)
        if final is None or final.model is None:
            return None
        test_others(session, final)
    parts = describe(session, final, session.folder, draws=True)
    search.note("chosen", label=final.label, budget=search.timer.budget)
    return final.model, parts


def last_decision(journal: Journal) -> Event | None:
    """The decision of an earlier session, unless a trial was finished since."""
    events = journal.of("decided", "evaluated")
    events = [e for e in events if e["event"] == "decided" or e["rung"] == FULL]
    last = events[-1] if events else None
    return last if last and last["event"] == "decided" and not last["interrupted"] else None


def decide_or_restore(session: Session) -> None:
    """Decide as an earlier session did with the same results, or anew."""
    search, decision, timer = session.search, session.decision, session.search.timer
    before = last_decision(search.journal)
    if search.journal.is_resumed:
        # The end has its time again, whatever an earlier one or loading the log took.
        timer.keep(max(search.reserve(), before["left"] if before else 0.0))
    if before is not None and decision.restore(before, search):
        return
    decide(search, decision)
    if decision.winner is not None:
        about = {**decision.to_event(), "interrupted": session.is_interrupted}
        search.note("decided", budget=timer.budget, left=timer.left, **about)


def fit_winner(session: Session, standing: Answer | None) -> FinalModel | None:
    """Fit the winner, test it, fit it on everything; or the next one that still fits the budget.

    None where the standing answer stays.
    """
    notes = session.decision.notes
    for final in _finalists(session):
        last = final.label == "toppop"
        if standing is not None and not standing.gives_way_to(final):
            return None
        until = float("inf") if last else (1 + _GRACE) * session.search.timer.budget
        try:
            _fit_and_test(session, final, Guard(session.search.timer, until))
        except (OutOfTimeError, MemoryError):
            notes.append(f"{final.label} could not be fitted in the time left")
        except Exception as error:  # the next candidate is used instead
            if last or isinstance(error, TrainingInterruptedError):
                raise
            notes.append(f"{final.label} could not be fitted: {error}")
        else:
            return final
    return None


def _finalists(session: Session) -> Iterator[FinalModel]:
    """What is fitted first, and what instead of it."""
    decision, search = session.decision, session.search
    winner, blend, best = decision.winner, decision.blend, decision.best
    if decision.takes_blend and blend is not None and best is not None:
        # Its value on users that it was not picked on.
        value = best.value + blend.comparison.difference
        yield FinalModel(blend.label, [m.candidate for m in blend.members], value)
        decision.takes_blend = False
    ranked = sorted(search.finished, key=by_value)
    if winner is not None:
        for result in dict.fromkeys([winner, *ranked]):
            candidate = result.candidate
            if result is winner or session.evaluator.finish(candidate) < search.timer.left:
                if result is not winner:
                    decision.winner, decision.milliseconds = result, None
                yield FinalModel(candidate.label, [candidate], result.value)
    plain = Candidate(model="toppop")
    decision.winner = next((r for r in ranked if r.candidate == plain), None)
    known = decision.winner
    yield FinalModel(plain.label, [plain], None if known is None else known.value)


def _fit_and_test(session: Session, final: FinalModel, guard: Guard) -> None:
    """Fit on train and validation, test, fit on everything, and put the answer into the folder."""
    evaluator = session.evaluator
    with Meter() as meter:
        fitted = [fit_validated(evaluator, member, guard) for member in final.members]
        final.model = validated = _combined(session, fitted)
    session.search.note("fitted", label=final.label, seconds=meter.seconds)
    if len(evaluator.problem.split.test):
        test_winner(session, final, meter, guard)
    with Meter() as meter:
        try:
            pairs = zip(final.members, fitted, strict=True)
            last = [fit_final(evaluator, member, model, guard) for member, model in pairs]
            final.model = _combined(session, last)
        except TrainingInterruptedError:
            raise
        except Exception as error:  # the validated model was tested: it is the answer
            late = isinstance(error, OutOfTimeError)
            why = "there was no time for the final fit" if late else f"no final fit: {error}"
            session.decision.notes.append(
                f"{why}; the model in the folder is not fitted on the test part"
            )
    with atomic_folder(session.folder, without=("validated", "history.csv")) as fresh:
        if final.run is None:
            final.model.save(fresh / "model")
        else:
            write_run(fresh, validated, final.run.record, final.run.table)
            if final.model is not validated:
                write_final(fresh, final.model, validated, final.run.record, meter.seconds)
        describe(session, final, fresh)
    session.search.note("final fit", label=final.label, seconds=meter.seconds)


def _combined(session: Session, fitted: list[Recommender]) -> Recommender:
    """The model itself, or the blend of several."""
    blend = session.decision.blend
    return Blend.of(fitted, blend.entries) if blend and len(fitted) > 1 else fitted[0]


def fit_validated(evaluator: TrialEvaluator, candidate: Candidate, guard: Guard) -> Recommender:
    """A candidate fitted on train and validation."""
    if candidate.kind == "classical":
        return _fit_classical(evaluator, candidate, guard, final=False)
    model, split = evaluator.trained(candidate), evaluator.problem.known
    options = _training_options(evaluator, guard)
    if evaluator.estimates.is_retrained(candidate):
        again = model.refit(split.train, **options)
    else:
        again = continued(model, split, CONTINUED_STEPS, **options)
    again.fitting = again.fitting.replace(final=False)
    return again


def fit_final(
    evaluator: TrialEvaluator, candidate: Candidate, model: Recommender, guard: Guard
) -> Recommender:
    """The same candidate fitted on everything; a network goes on from `model`."""
    if candidate.kind == "classical":
        return _fit_classical(evaluator, candidate, guard, final=True)
    options, split = _training_options(evaluator, guard), everything(evaluator.problem.split)
    again = continued(model, split, CONTINUED_STEPS, **options)
    again.fitting = again.fitting.replace(final=True)
    return again


def _training_options(evaluator: TrialEvaluator, guard: Guard) -> dict[str, Any]:
    def stop(step: int) -> bool:
        guard.advance(0)  # a network asks after every step
        return False

    device = evaluator.problem.device
    return {"device": device, "callbacks": [StopWhen(stop)], "progress": guard}


def _fit_classical(
    evaluator: TrialEvaluator, candidate: Candidate, guard: Guard, *, final: bool
) -> Recommender:
    seed = evaluator.problem.seed
    job: dict[str, Any] = {"candidate": candidate.to_dict(), "seed": seed, "final": final}
    if not evaluator.estimates.is_doubtful(candidate, guard.until):
        return fit_on(evaluator.problem.split, **job, progress=guard)
    with tempfile.TemporaryDirectory(dir=evaluator.folder) as folder:
        job["to"] = str(Path(folder) / "model")
        evaluator.run_in_subprocess(fit_to_folder, guard.until, candidate.model, **job)
        return Recommender.load(job["to"])


def test_winner(session: Session, final: FinalModel, meter: Meter, guard: Guard) -> None:
    """The only evaluation of the chosen model on the test part; its record."""
    problem, model = session.evaluator.problem, final.model
    assert model is not None
    table = _tested_on(session.evaluator, model, guard)
    about = {"metric": problem.metric, "budget": session.search.timer.budget, "label": final.label}
    final.run = record_run(
        model,
        problem.known,
        meter,
        table=table,
        at=table.at,
        dataset=session.dataset,
        experiment="choose",
        init=final.members[0].init if len(final.members) == 1 else None,
        recipe=None,
        seed=problem.seed,
        extra={
            "choose": about,
            "data_digest": problem.split.digest,
            "learnt": "train and validation",
        },
    )
    final.tested = [{"model": final.label, **table.mean(), "chosen minus this": None}]


def test_others(session: Session, final: FinalModel) -> None:
    """The best of another model and the baselines on test, as far as there is time."""
    if final.run is None:
        return
    evaluator, notes, timer = session.evaluator, session.decision.notes, session.search.timer
    ranked = [result.candidate for result in sorted(session.search.finished, key=by_value)]
    others = [c for c in ranked if all(c.model != member.model for member in final.members)]
    baselines = [Candidate(model=name) for name in BASELINES]
    evaluated = {candidate.model for candidate in ranked}
    entries = [*others[:1], *(c for c in baselines if c.model in evaluated)]
    for candidate in {c.key: c for c in entries if c.label != final.label}.values():
        label, guard = candidate.label, Guard(timer, timer.budget)
        try:
            if 0.75 * evaluator.finish(candidate) + _TEST_SHARE * timer.budget > timer.left:
                raise OutOfTimeError(label)
            table = _tested_on(evaluator, fit_validated(evaluator, candidate, guard), guard)
        except (OutOfTimeError, MemoryError):
            notes.append(f"no time was left to test {label}")
        except LeporidError as error:  # the answer must not be lost
            notes.append(f"{label} could not be tested: {error}")
        else:
            found = compare(final.run.table, table, evaluator.metric)
            interval = [found.low, found.high]
            final.tested.append({"model": label, **table.mean(), "chosen minus this": interval})
            session.search.note("tested", label=label, value=found.mean_b)


def _tested_on(evaluator: TrialEvaluator, model: Recommender, guard: Guard) -> MetricTable:
    cuts = tuple(sorted({*CUTOFFS, evaluator.problem.cutoff}))
    return evaluate(model, evaluator.problem.known, at=cuts, progress=guard)


def fit_on(
    split: Split, candidate: dict[str, Any], seed: int, final: bool, **how: Any
) -> Recommender:
    """Fit a classical candidate on train and validation, or on everything."""
    own = Candidate.from_dict(candidate)
    part = everything(split) if final else with_validation(split)
    model: Recommender = models.get(own.model)(**own.settings).fit(part, seed=seed, **how)
    model.fitting = model.fitting.replace(final=final)
    return model


def fit_to_folder(split: str, to: str, **job: Any) -> None:
    """The same on a saved split; the model is saved."""
    fit_on(Split.load(split), **job).save(to)
