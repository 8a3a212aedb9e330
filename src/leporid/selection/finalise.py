"""From the search to a deployed model: decide, test once, fit on everything, write the answer.

The time for this was kept during the search. If a fit overruns its estimate, the next-best
candidate that still fits the budget is used, and the answer says so. An answer that the folder
already holds is replaced only by one with a higher value.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from leporid.errors import LeporidError, LeporidWarning, TrainingInterruptedError
from leporid.evaluation import MetricTable, evaluate
from leporid.foundation import atomic_folder, write_json
from leporid.models import Blend, ModelSpec, Recommender
from leporid.runs import (
    CUTOFFS,
    OF_EARLIER_RUN,
    Cost,
    Meter,
    Run,
    RunSpec,
    evaluate_run,
    record_of,
    write_run_files,
)
from leporid.selection.answer import SUMMARY, Answer
from leporid.selection.budget import Deadline, OutOfTimeError
from leporid.selection.candidates import Candidate
from leporid.selection.decision import Decision, decide
from leporid.selection.evaluator import TrialEvaluator
from leporid.selection.events import last_decision
from leporid.selection.final_fits import fit_final, fit_validated
from leporid.selection.learning_curve import learning_curve
from leporid.selection.report import write_page
from leporid.selection.search import Search
from leporid.selection.summary import summarise
from leporid.selection.task import SearchTask

MIN_FINAL_FIT_SHARE = 0.05


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
) -> tuple[Recommender, Answer] | None:
    """Decide, fit, test and write the answer; return it with the model.

    Returns None if the folder keeps its answer: nothing with a key and value that `may_replace` it
    could be fitted.
    """
    timer = session.search.timer
    for decision in finalists(session, decide_in_time(session)):
        label = decision.label
        if not may_replace(decision.key, decision.value):
            return None
        is_last = label == "toppop"
        until = max(timer.budget, timer.elapsed + MIN_FINAL_FIT_SHARE * timer.budget)
        deadline = Deadline(timer, math.inf if is_last else until)
        try:
            with warnings.catch_warnings(action="ignore", category=LeporidWarning):
                answered = _fit_and_test(session, decision, deadline)
        except (OutOfTimeError, MemoryError):
            session.notes.append(f"{label} could not be fitted in the time left")
        except Exception as error:  # the next candidate is used instead
            if is_last or isinstance(error, TrainingInterruptedError):
                raise
            session.notes.append(f"{label} could not be fitted: {error}")
        else:
            session.search.note("chosen", label=label, budget=timer.budget)
            return answered
    return None


def decide_in_time(session: Session) -> Decision | None:
    """Decide, as an earlier session did with the same results and the same time."""
    search = session.search
    timer = search.timer
    earlier = last_decision(search.journal)
    if search.journal.is_resumed:
        # The end has its time again, whatever an earlier one or loading the log took.
        timer.keep(max(search.reserve(), earlier.left if earlier else 0.0))
    left = timer.left
    decision = decide(search)
    if decision is not None and (earlier is None or earlier.key != decision.key):
        search.note(
            "decided",
            key=decision.key,
            budget=timer.budget,
            left=left,
            interrupted=session.is_interrupted,
        )
    return decision


def finalists(session: Session, decision: Decision | None) -> Iterator[Decision]:
    """Yield what is fitted first, and what instead of it; the most popular items at last."""
    search = session.search
    ranked = [Decision.of(result) for result in search.ranked]
    if decision is not None:
        yield decision
    for other in ranked:
        fits = search.estimates.finish(other.members[0]) < search.timer.left
        if fits and (decision is None or other.key != decision.key):
            yield other
    most_popular = Candidate(model="toppop")
    for other in ranked:
        if other.members == (most_popular,):
            yield other
            return
    yield Decision((most_popular,), (1,), None)


def _fit_and_test(
    session: Session, decision: Decision, deadline: Deadline
) -> tuple[Recommender, Answer]:
    """Fit on train and validation, test, fit on everything, and write the answer."""
    search = session.search
    with Meter() as meter:
        members = [
            fit_validated(search.evaluator, member, deadline)
            for member in decision.members
        ]
        validated = combined(members, decision)
    search.note("fitted", label=decision.label, seconds=meter.seconds)
    run = None
    tables: dict[str, MetricTable] = {}
    if len(search.task.split.test):
        run = test_winner(session, decision, validated, cost_of(meter), deadline)
        tables = {decision.label: run.test, **test_others(session, decision)}
    with Meter() as meter:
        model = fit_on_everything(session, decision, members, deadline)
    search.note("final fit", label=decision.label, seconds=meter.seconds)
    if run is not None and model is not None:
        run.final = model
        run.final_cost = cost_of(meter)
    deployed = model or validated
    return deployed, write_answer(session, decision, deployed, run, tables)


def fit_on_everything(
    session: Session,
    decision: Decision,
    members: list[Recommender],
    deadline: Deadline,
) -> Recommender | None:
    """Return the model to deploy; None if the tested one is deployed, with a note why."""
    evaluator = session.search.evaluator
    try:
        final = [
            fit_final(evaluator, candidate, member, deadline)
            for candidate, member in zip(decision.members, members, strict=True)
        ]
        return combined(final, decision)
    except TrainingInterruptedError:
        raise
    except Exception as error:  # the validated model was tested: it is the answer
        why = f"no final fit: {error}"
        if isinstance(error, OutOfTimeError):
            why = "there was no time for the final fit"
        session.notes.append(
            f"{why}; the model in the folder is not fitted on the test part"
        )
        return None


def write_answer(
    session: Session,
    decision: Decision,
    model: Recommender,
    run: Run | None,
    tables: dict[str, MetricTable],
) -> Answer:
    """Write the run, the page and the summary into the folder, in one step."""
    search = session.search
    summary = summarise(
        search,
        decision,
        tables,
        source=session.source,
        folder=session.folder,
        notes=session.notes,
        curve=learning_curve(search),
    )
    answer = summary.answer()
    with atomic_folder(session.folder, without=OF_EARLIER_RUN) as fresh:
        if run is None:
            model.save(fresh / "model")
        else:
            write_run_files(run, record_of(run), fresh)
        # After Ctrl-C the same command goes on with the time that is left.
        is_over = not session.is_interrupted
        budget = search.timer.budget if is_over else search.timer.elapsed
        write_page(fresh / "report.html", summary, search.task, model)
        document = answer.to_dict()
        document |= {"key": decision.key, "value": decision.value, "budget": budget}
        write_json(fresh / SUMMARY, document)
    return answer


def cost_of(meter: Meter) -> Cost:
    """Return what a block of code took."""
    return Cost(meter.seconds, meter.peak_memory_mb)


def combined(members: list[Recommender], decision: Decision) -> Recommender:
    """Return the model itself, or the blend of several."""
    if not decision.is_blend:
        return members[0]
    return Blend.of(members, decision.blend_members)


def test_winner(
    session: Session,
    decision: Decision,
    model: Recommender,
    cost: Cost,
    deadline: Deadline,
) -> Run:
    """Evaluate the chosen model on the test part: the only time that this is done."""
    search = session.search
    task = search.task
    table = _tested_on(search.evaluator, model, deadline)
    spec = RunSpec(
        described(decision, model, task),
        dataset=session.dataset,
        experiment="choose",
        cutoffs=table.at,
        extra={
            "choose": {
                "metric": task.metric,
                "budget": search.timer.budget,
                "label": decision.label,
            },
            "data_digest": task.split.digest,
            "learnt": "train and validation",
        },
    )
    return evaluate_run(spec, task.known, model, cost, table)


def described(decision: Decision, model: Recommender, task: SearchTask) -> ModelSpec:
    """Return the description of the chosen model in its record."""
    if decision.is_blend:
        return ModelSpec(type(model), model.requested, seed=task.seed)
    return decision.members[0].trial_spec(task)


def test_others(session: Session, decision: Decision) -> dict[str, MetricTable]:
    """Fit and test the baselines, as far as there is time."""
    search = session.search
    tables: dict[str, MetricTable] = {}
    for label in search.task.baselines:
        if label == decision.label:
            continue
        deadline = Deadline(search.timer, search.timer.budget)
        try:
            model = fit_validated(search.evaluator, Candidate(model=label), deadline)
            table = _tested_on(search.evaluator, model, deadline)
        except (OutOfTimeError, MemoryError):
            session.notes.append(f"no time was left to test {label}")
        except LeporidError as error:  # the answer must not be lost
            session.notes.append(f"{label} could not be tested: {error}")
        else:
            tables[label] = table
            search.note("tested", label=label, value=table.mean()[search.task.metric])
    return tables


def _tested_on(
    evaluator: TrialEvaluator, model: Recommender, deadline: Deadline
) -> MetricTable:
    cutoffs = tuple(sorted({*CUTOFFS, evaluator.task.cutoff}))
    return evaluate(model, evaluator.task.known, at=cutoffs, progress=deadline)
