"""From the search to a deployed model: decide, test once, fit on everything, write the answer.

The time for this was kept during the search. If a fit overruns its estimate, the next-best
candidate that still fits the budget is used, and the answer says so. An answer that the folder
already holds is replaced only by one with a higher value.
"""

import math
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from leporid import models
from leporid.artifacts import atomic_folder, write_json
from leporid.data import Split
from leporid.embeddings import EmbeddingSpec
from leporid.errors import LeporidError, LeporidWarning, TrainingInterruptedError
from leporid.evaluation import MetricTable, evaluate
from leporid.models import (
    Blend,
    FitContext,
    ModelSpec,
    Recommender,
    StopWhen,
    everything,
    trained_on,
)
from leporid.runs import (
    CUTOFFS,
    OF_EARLIER_RUN,
    Cost,
    Meter,
    Run,
    RunSpec,
    evaluate_run,
    write_run_files,
)
from leporid.selection.budget import Guard, OutOfTimeError
from leporid.selection.candidates import Candidate, Result, by_value, with_validation
from leporid.selection.evaluator import TrialEvaluator
from leporid.selection.events import last_decision
from leporid.selection.report import write_page
from leporid.selection.runtime_estimates import CONTINUED_SHARE_OF_STEPS, SAFETY_FACTOR
from leporid.selection.search import Decision, Search, decide
from leporid.selection.summary import SUMMARY, as_json, summarise

MIN_FINAL_FIT_SHARE = 0.05
TRAINING_SHARE_BEFORE_TEST, TRAINING_SHARE_AFTER_TEST = 0.4, 0.6
MAX_CURVE_SHARE = 1 / 4


@dataclass
class Session:
    """One call of `choose`."""

    search: Search
    folder: Path
    dataset: str
    source: str
    """The log and its options on the command line."""
    notes: list[str] = field(default_factory=list)
    is_interrupted: bool = False


def finalise(
    session: Session, may_replace: Callable[[str, float | None], bool]
) -> tuple[Recommender, dict[str, Any]] | None:
    """Decide, fit, test and write the answer; the model and the parts of a `Choice`.

    None where the folder keeps its answer: nothing with a key and value that `may_replace` it
    could be fitted.
    """
    timer = session.search.timer
    for final in _finalists(session, decide_in_time(session)):
        if not may_replace(final.key, final.value):
            return None
        is_last = final.label == "toppop"
        until = max(timer.budget, timer.elapsed + MIN_FINAL_FIT_SHARE * timer.budget)
        try:
            with warnings.catch_warnings(action="ignore", category=LeporidWarning):
                done = _fit_and_test(
                    session, final, Guard(timer, math.inf if is_last else until)
                )
        except (OutOfTimeError, MemoryError):
            session.notes.append(f"{final.label} could not be fitted in the time left")
        except Exception as error:  # the next candidate is used instead
            if is_last or isinstance(error, TrainingInterruptedError):
                raise
            session.notes.append(f"{final.label} could not be fitted: {error}")
        else:
            session.search.note("chosen", label=final.label, budget=timer.budget)
            return done
    return None


def decide_in_time(session: Session) -> Decision | None:
    """Decide, as an earlier session did with the same results and the same time."""
    search, timer = session.search, session.search.timer
    before = last_decision(search.journal)
    if search.journal.is_resumed:
        # The end has its time again, whatever an earlier one or loading the log took.
        timer.keep(max(search.reserve(), before["left"] if before else 0.0))
    left, decision = timer.left, decide(search)
    if decision is not None and (before is None or before["key"] != decision.key):
        about = {
            "budget": timer.budget,
            "left": left,
            "interrupted": session.is_interrupted,
        }
        search.note("decided", key=decision.key, **about)
    return decision


def _finalists(session: Session, decision: Decision | None) -> Iterator[Decision]:
    """What is fitted first, and what instead of it; the most popular items at last."""
    search = session.search
    ranked = [
        Decision.of(result) for result in sorted(search.results.values(), key=by_value)
    ]
    if decision is not None:
        yield decision
    for other in ranked:
        fits = search.estimates.finish(other.members[0]) < search.timer.left
        if fits and (decision is None or other.key != decision.key):
            yield other
    plain = Candidate(model="toppop")
    known = (other for other in ranked if other.members == (plain,))
    yield next(known, Decision((plain,), (1,), None))


def _fit_and_test(
    session: Session, final: Decision, guard: Guard
) -> tuple[Recommender, dict[str, Any]]:
    """Fit on train and validation, test, fit on everything, and put the answer into the folder."""
    search, evaluator = session.search, session.search.evaluator
    with Meter() as meter:
        fitted = [fit_validated(evaluator, member, guard) for member in final.members]
        validated = _combined(fitted, final)
    search.note("fitted", label=final.label, seconds=meter.seconds)
    run, tables = None, {}
    if len(search.problem.split.test):
        run = test_winner(session, final, validated, meter, guard)
        tables = {final.label: run.test, **test_others(session, final)}
    model = validated
    with Meter() as meter:
        try:
            pairs = zip(final.members, fitted, strict=True)
            model = _combined(
                [fit_final(evaluator, *pair, guard) for pair in pairs], final
            )
        except TrainingInterruptedError:
            raise
        except Exception as error:  # the validated model was tested: it is the answer
            late = isinstance(error, OutOfTimeError)
            why = (
                "there was no time for the final fit"
                if late
                else f"no final fit: {error}"
            )
            session.notes.append(
                f"{why}; the model in the folder is not fitted on the test part"
            )
    search.note("final fit", label=final.label, seconds=meter.seconds)
    about = {"notes": session.notes, "learning curve": learning_curve(search)}
    parts = summarise(search, final, tables, session.source, session.folder, about)
    with atomic_folder(session.folder, without=OF_EARLIER_RUN) as fresh:
        if run is None:
            model.save(fresh / "model")
        else:
            if model is not validated:
                run.final = model
                run.final_cost = Cost(meter.seconds, meter.peak_memory_mb)
            write_run_files(run, fresh)
        # After Ctrl-C the same command goes on with the time that is left.
        budget = search.timer.elapsed if session.is_interrupted else search.timer.budget
        kept = {"key": final.key, "value": final.value, "budget": budget}
        write_page(fresh / "report.html", parts, search.problem, model)
        write_json(fresh / SUMMARY, as_json(parts) | kept)
    return model, parts


def _combined(fitted: list[Recommender], final: Decision) -> Recommender:
    """The model itself, or the blend of several."""
    return Blend.of(fitted, final.entries) if len(fitted) > 1 else fitted[0]


def fit_validated(
    evaluator: TrialEvaluator, candidate: Candidate, guard: Guard
) -> Recommender:
    """A candidate fitted on train and validation; a network is retrained if there is time."""
    if not candidate.is_network:
        return _fit_classical(evaluator, candidate, guard, final=False)
    model = Recommender.load(evaluator.network(candidate))
    seconds = evaluator.estimates.training_seconds(candidate, "best_step")
    if (
        SAFETY_FACTOR * (1 + CONTINUED_SHARE_OF_STEPS) * seconds
        >= evaluator.timer.left / 2
    ):
        return _trained_on(evaluator, candidate, model, guard, final=False)
    again = model.refit(
        evaluator.problem.known.train, context=training_context(evaluator, guard)
    )
    again.fitting = again.fitting.replace(final=False)
    return again


def fit_final(
    evaluator: TrialEvaluator, candidate: Candidate, model: Recommender, guard: Guard
) -> Recommender:
    """The same candidate fitted on everything; a network goes on from `model`."""
    if candidate.is_network:
        return _trained_on(evaluator, candidate, model, guard, final=True)
    return _fit_classical(evaluator, candidate, guard, final=True)


def _trained_on(
    evaluator: TrialEvaluator,
    candidate: Candidate,
    model: Recommender,
    guard: Guard,
    final: bool,
) -> Recommender:
    """A network trained on with more data, for the steps that a share of the time left allows."""
    problem, part = evaluator.problem, TRAINING_SHARE_BEFORE_TEST
    split = problem.known
    if final:
        split, part = everything(problem.split), TRAINING_SHARE_AFTER_TEST
    seconds = SAFETY_FACTOR * evaluator.estimates.training_seconds(
        candidate, "best_step"
    )
    share = min(part * max(evaluator.timer.left, 0.0) / max(seconds, 1e-9), 1.0)
    again = trained_on(model, split, share, training_context(evaluator, guard))
    again.fitting = again.fitting.replace(final=final)
    return again


def training_context(evaluator: TrialEvaluator, guard: Guard) -> FitContext:
    """Return a context whose training raises at the deadline of the guard."""

    def check_deadline(step: int) -> bool:
        guard.advance(0)  # a network asks after every step
        return False

    return FitContext(
        device=evaluator.problem.device,
        callbacks=(StopWhen(check_deadline),),
        progress=guard,
    )


def _fit_classical(
    evaluator: TrialEvaluator, candidate: Candidate, guard: Guard, *, final: bool
) -> Recommender:
    seed = evaluator.problem.seed
    job: dict[str, Any] = {
        "candidate": candidate.to_dict(),
        "seed": seed,
        "final": final,
    }
    if not evaluator.estimates.is_doubtful(candidate, guard.until):
        return fit_on(evaluator.problem.split, **job, progress=guard)
    with tempfile.TemporaryDirectory(dir=evaluator.folder) as folder:
        job["to"] = str(Path(folder) / "model")
        evaluator.run_in_subprocess(fit_to_folder, guard.until, candidate.model, **job)
        return Recommender.load(job["to"])


def test_winner(
    session: Session, final: Decision, model: Recommender, meter: Meter, guard: Guard
) -> Run:
    """Evaluate the chosen model on the test part: the only time that this is done."""
    search = session.search
    problem = search.problem
    table = _tested_on(search.evaluator, model, guard)
    choice = {
        "metric": problem.metric,
        "budget": search.timer.budget,
        "label": final.label,
    }
    spec = RunSpec(
        final_model(final, model, problem.seed),
        dataset=session.dataset,
        experiment="choose",
        cutoffs=table.at,
        extra={
            "choose": choice,
            "data_digest": problem.split.digest,
            "learnt": "train and validation",
        },
    )
    cost = Cost(meter.seconds, meter.peak_memory_mb)
    return evaluate_run(spec, problem.known, model, cost, table)


def final_model(final: Decision, model: Recommender, seed: int) -> ModelSpec:
    """Return what was chosen, as the record names it."""
    init = None
    if len(final.members) == 1 and final.members[0].init is not None:
        init = EmbeddingSpec.resolve(final.members[0].init, {})
    return ModelSpec(type(model), model.asked, init=init, seed=seed)


def learning_curve(search: Search) -> dict[str, Any]:
    """The metric of the best quick classical candidate, fitted on half of the users and on all.

    Both for the users of that half, on the inner validation split. Empty without the time for it.
    """
    limit = MAX_CURVE_SHARE * search.timer.left
    ranked = [
        r
        for r in sorted(search.results.values(), key=by_value)
        if not r.candidate.is_network
    ]
    best = next((r for r in ranked if search.estimates.cost(r.candidate) < limit), None)
    inner = search.problem.inner
    is_drawn = (
        np.random.default_rng(search.problem.seed).permutation(inner.n_users) % 2 == 0
    )
    train, valid, test = (
        part.select(is_drawn[part.user])
        for part in (inner.train, inner.valid, inner.test)
    )
    if best is None or not len(train) or not len(test):
        return {}
    half = replace(
        search.problem, inner=replace(inner, train=train, valid=valid, test=test)
    )
    aside = TrialEvaluator(half, search.timer, search.evaluator.folder / "half")
    with suppress(LeporidError, MemoryError):  # the answer must not be lost
        of_half = aside.evaluate(best.candidate, math.inf).value
        rows = best.columns[is_drawn[np.unique(inner.test.user)]]
        of_all = Result(best.candidate, rows, {}, 0.0).value
        values = {
            "half": of_half,
            "all": of_all,
            "twice": max(2 * of_all - of_half, of_all),
        }
        return {"candidate": best.candidate.label, **values}
    return {}


def test_others(session: Session, final: Decision) -> dict[str, MetricTable]:
    search, found = session.search, {}
    for label in (name for name in search.problem.baselines if name != final.label):
        guard = Guard(search.timer, search.timer.budget)
        try:
            model = fit_validated(search.evaluator, Candidate(model=label), guard)
            found[label] = _tested_on(search.evaluator, model, guard)
        except (OutOfTimeError, MemoryError):
            session.notes.append(f"no time was left to test {label}")
        except LeporidError as error:  # the answer must not be lost
            session.notes.append(f"{label} could not be tested: {error}")
        else:
            search.note(
                "tested", label=label, value=found[label].mean()[search.problem.metric]
            )
    return found


def _tested_on(
    evaluator: TrialEvaluator, model: Recommender, guard: Guard
) -> MetricTable:
    cuts = tuple(sorted({*CUTOFFS, evaluator.problem.cutoff}))
    return evaluate(model, evaluator.problem.known, at=cuts, progress=guard)


def fit_on(
    split: Split, candidate: dict[str, Any], seed: int, final: bool, **how: Any
) -> Recommender:
    """Fit a classical candidate on train and validation, or on everything."""
    own = Candidate.from_dict(candidate)
    part = everything(split) if final else with_validation(split)
    model: Recommender = models.get(own.model)(**own.settings).fit(
        part, seed=seed, **how
    )
    model.fitting = model.fitting.replace(final=final)
    return model


def fit_to_folder(split: str, to: str, **job: Any) -> None:
    """The same on a saved split; the model is saved."""
    fit_on(Split.load(split), **job).save(to)
