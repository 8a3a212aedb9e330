"""`execute`: carry out a `RunSpec`. The result is a `Run`, which `save_run` writes."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from leporid.data import Split
from leporid.evaluation import MetricTable, evaluate
from leporid.foundation import JsonValue
from leporid.models import (
    FitContext,
    FittedBaseline,
    ModelSpec,
    Recommender,
    baseline_specs,
    best_baseline,
    fit,
    fit_baselines,
    left_out_sentence,
    refit_on_everything,
    validation_metric,
)
from leporid.runs.baselines import BaselineCheck, check_against
from leporid.runs.meter import Meter

CUTOFFS: tuple[int, ...] = (1, 5, 10)
"""The list lengths a run is tested at."""


@dataclass(frozen=True, eq=False)
class RunSpec:
    """What a run has to find out: how good a model is on a split, and beside which baselines."""

    model: ModelSpec
    dataset: str
    """Name of the data in the record."""
    experiment: str = "train"
    """Name of the group of runs that this one belongs to."""
    baselines: tuple[ModelSpec, ...] = ()
    """Simple models that are fitted first and compared with the model."""
    left_out: str = ""
    """Sentence on a baseline that is left out, and why; empty if none is."""
    final: bool = False
    """Whether the model is fitted once more on everything, to be deployed."""
    compare_features: bool = False
    """Whether a network is also trained without its feature tables, and the better one kept."""
    cutoffs: tuple[int, ...] = CUTOFFS
    """The list lengths of the test."""
    spec_hash: str | None = None
    """Hash of what was asked for; None computes it from the record."""
    extra: Mapping[str, JsonValue] = field(default_factory=dict)
    """Further facts for the record."""

    def with_baselines(self, split: Split) -> RunSpec:
        """Return the spec with the usual baselines for a split."""
        specs = baseline_specs(split, beside=self.model)
        return replace(self, baselines=specs, left_out=left_out_sentence(split))


@dataclass(frozen=True)
class Cost:
    """What a fit took."""

    seconds: float
    """Wall-clock time."""
    peak_memory_mb: float
    """Highest resident memory of the process, in MiB."""


@dataclass(eq=False)
class Run:
    """What was found out."""

    spec: RunSpec
    split: Split
    model: Recommender
    """Fitted on the training part: the model that was tested."""
    test: MetricTable
    """Metrics of each user on test."""
    validation: dict[str, float]
    """Mean metrics on validation; empty without a validation part."""
    cost: Cost
    """Time and memory of the tested model's fit."""
    check: BaselineCheck | None = None
    """The baselines and the comparison with them."""
    final: Recommender | None = None
    """Fitted on everything: the model to deploy."""
    final_cost: Cost | None = None
    """Time and memory of the final fit."""
    interruption: str = ""
    """Sentence on what Ctrl-C or SIGTERM broke off; empty if the run is whole."""

    @property
    def deployed(self) -> Recommender:
        """The model to deploy: the final one if there is one."""
        return self.final or self.model

    @property
    def interrupted_by(self) -> signal.Signals | None:
        """The signal that ended the training of the tested model early; None if none did."""
        history = self.model.history
        return None if history is None else history.interrupted_by


def execute(spec: RunSpec, split: Split, context: FitContext | None = None) -> Run:
    """Fit the baselines, then the model; test it once, compare it, and fit it on everything.

    `context` says where the model is trained, who is told, and where checkpoints go. With
    `keep_interrupted` in it, a training that somebody interrupts is tested with its best weights so
    far, and not fitted on everything.
    """
    context = context or FitContext()
    baselines: list[FittedBaseline] = []
    if spec.baselines:
        metric = validation_metric(spec.model)
        baselines = fit_baselines(spec.baselines, split, context.progress, metric)
        context = replace(context, baseline=best_baseline(baselines, metric))
    if spec.left_out:
        context.progress.say(spec.left_out)
    with Meter() as meter:
        model = fit(spec.model, split, context, compare_features=spec.compare_features)
    run = evaluate_run(
        spec, split, model, Cost(training_seconds(model, meter), meter.peak_memory_mb)
    )
    best = context.baseline
    if best is not None and best.metric in run.validation:
        value = run.validation[best.metric]
        context.progress.say(
            f"{model.name}: {best.metric} {value:.4f} on validation, {best.standing(value)}"
        )
    if baselines:
        run.check = check_against(baselines, split, run.test, model.name, spec.left_out)
    if run.interrupted_by is not None and model.history is not None:
        run.interruption = f"the training was {model.history.describe()}"
    elif spec.final:
        add_final_fit(run, context)
    return run


def add_final_fit(run: Run, context: FitContext) -> None:
    """Fit the tested model of a run once more, on everything."""
    with Meter() as meter:
        run.final = refit_on_everything(run.spec.model, run.model, run.split, context)
    run.final_cost = Cost(meter.seconds, meter.peak_memory_mb)


def evaluate_run(
    spec: RunSpec,
    split: Split,
    model: Recommender,
    cost: Cost,
    outcomes: MetricTable | None = None,
) -> Run:
    """Evaluate a fitted model on test and validation.

    `outcomes` is its test, if it was made before.
    """
    if outcomes is None:
        outcomes = evaluate(model, split, at=spec.cutoffs)
    validation: dict[str, float] = {}
    if len(split.valid.target_events):
        validation = evaluate(model, split, at=spec.cutoffs, part="valid").mean()
    return Run(spec, split, model, outcomes, validation, cost)


def training_seconds(model: Recommender, meter: Meter) -> float:
    """Return the seconds of a fit, with those before a checkpoint that it went on from."""
    if model.history is None or not model.history.rows:
        return meter.seconds
    return max(meter.seconds, float(model.history.rows[-1]["seconds"]))
