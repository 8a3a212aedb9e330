"""The fits of the end: before the test on train and validation, after it on everything."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from leporid.data import Split
from leporid.foundation import ProgressLike, SettingValue
from leporid.models import (
    FitContext,
    Recommender,
    StopWhen,
    everything,
    fit,
    trained_on,
)
from leporid.selection.budget import Deadline
from leporid.selection.candidates import Candidate
from leporid.selection.evaluator import TrialEvaluator
from leporid.selection.runtime_estimates import CONTINUED_SHARE_OF_STEPS, SAFETY_FACTOR
from leporid.selection.task import with_validation

TRAINING_SHARE_BEFORE_TEST = 0.4
TRAINING_SHARE_AFTER_TEST = 0.6


def fit_validated(
    evaluator: TrialEvaluator, candidate: Candidate, deadline: Deadline
) -> Recommender:
    """Fit a candidate on train and validation; a network is retrained if there is time."""
    if not candidate.is_network:
        return fit_classical(evaluator, candidate, deadline, final=False)
    model = Recommender.load(evaluator.network(candidate))
    training = evaluator.estimates.best_step_seconds(candidate)
    needed = SAFETY_FACTOR * (1 + CONTINUED_SHARE_OF_STEPS) * training
    if needed >= evaluator.timer.left / 2:
        return train_on(evaluator, candidate, model, deadline, final=False)
    context = training_context(evaluator, deadline)
    retrained = model.refit(evaluator.task.known.train, context=context)
    retrained.fitting = replace(retrained.fitting, final=False)
    return retrained


def fit_final(
    evaluator: TrialEvaluator,
    candidate: Candidate,
    model: Recommender,
    deadline: Deadline,
) -> Recommender:
    """Fit a candidate on everything; a network goes on from the tested `model`."""
    if candidate.is_network:
        return train_on(evaluator, candidate, model, deadline, final=True)
    return fit_classical(evaluator, candidate, deadline, final=True)


def train_on(
    evaluator: TrialEvaluator,
    candidate: Candidate,
    model: Recommender,
    deadline: Deadline,
    *,
    final: bool,
) -> Recommender:
    """Train a network on with more data, for the steps that a share of the time left allows."""
    split = evaluator.task.known
    share_of_time = TRAINING_SHARE_BEFORE_TEST
    if final:
        split = everything(evaluator.task.split)
        share_of_time = TRAINING_SHARE_AFTER_TEST
    needed = SAFETY_FACTOR * evaluator.estimates.best_step_seconds(candidate)
    seconds = share_of_time * max(evaluator.timer.left, 0.0)
    share_of_steps = min(seconds / max(needed, 1e-9), 1.0)
    context = training_context(evaluator, deadline)
    continued = trained_on(model, split, share_of_steps, context)
    continued.fitting = replace(continued.fitting, final=final)
    return continued


def training_context(evaluator: TrialEvaluator, deadline: Deadline) -> FitContext:
    """Return a context whose training raises `OutOfTimeError` at the deadline."""

    def check_deadline(step: int) -> bool:
        deadline.advance(0)  # a network asks after every step
        return False

    return FitContext(
        device=evaluator.task.device,
        callbacks=(StopWhen(check_deadline),),
        progress=deadline,
    )


def fit_classical(
    evaluator: TrialEvaluator, candidate: Candidate, deadline: Deadline, *, final: bool
) -> Recommender:
    """Fit a classical candidate, in a process of its own if it may not end in time."""
    task = evaluator.task
    if not evaluator.estimates.is_doubtful(candidate, deadline.until):
        return fit_on(task.split, candidate, task.seed, final, deadline)
    with tempfile.TemporaryDirectory(dir=evaluator.folder) as name:
        folder = str(Path(name) / "model")
        evaluator.run_in_subprocess(
            fit_to_folder,
            deadline.until,
            candidate,
            seed=task.seed,
            final=final,
            folder=folder,
        )
        return Recommender.load(folder)


def fit_on(
    split: Split,
    candidate: Candidate,
    seed: int,
    final: bool,
    progress: ProgressLike | None = None,
) -> Recommender:
    """Fit a classical candidate on train and validation, or on everything."""
    part = everything(split) if final else with_validation(split)
    context = FitContext.of(None, progress=progress)
    model = fit(candidate.spec(part.train, seed), part, context)
    model.fitting = replace(model.fitting, final=final)
    return model


def fit_to_folder(
    split: str,
    candidate: Mapping[str, SettingValue],
    seed: int,
    final: bool,
    folder: str,
) -> None:
    """Fit a classical candidate on a saved split, and save the model."""
    model = fit_on(Split.load(split), Candidate.from_dict(candidate), seed, final)
    model.save(folder)
