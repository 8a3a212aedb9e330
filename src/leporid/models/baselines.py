"""Baselines: simple models with default settings, which a training has to beat.

They are fitted first, because they take seconds, and evaluated on validation at once: before a
training begins everybody knows what it is compared with.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from leporid.data import Split
from leporid.evaluation import evaluate, parse_metric
from leporid.foundation import ProgressLike
from leporid.models.base import Recommender
from leporid.models.context import BestBaseline
from leporid.models.spec import ModelSpec

BASELINES = ("toppop", "itemknn", "ease")
"""Names in the registry, the quickest first."""
ORDER_BASELINE = "transitions"
"""A further baseline where the training part has an order."""
REPEATS_BASELINE = "frequency"
"""A further baseline where lists may show what a user already has."""
MAX_EASE_ITEMS = 10_000
"""EASE inverts a dense matrix: with more items it would take minutes."""
BASELINE_METRIC = "NDCG@10"
"""The metric by which a model and its baselines are compared."""
_SHOWN = (BASELINE_METRIC, "HR@10")
"""Metrics of the table on validation."""
_CUTOFFS = (1, 5, 10)


@dataclass(frozen=True)
class FittedBaseline:
    """A baseline that was fitted on the training part and evaluated on validation."""

    model: Recommender
    validation: dict[str, float]
    """Means on validation; empty without a validation part."""
    seconds: float
    """Wall-clock time of the fit."""

    @property
    def name(self) -> str:
        """The name as it is written in the literature, such as ItemKNN."""
        return type(self.model).__name__


def baseline_specs(
    split: Split, beside: ModelSpec | None = None
) -> tuple[ModelSpec, ...]:
    """Return the baselines of a split, without the one that `beside` itself describes."""
    names = [*BASELINES]
    if split.train.has_order:
        names.insert(2, ORDER_BASELINE)
    if is_too_large_for_ease(split):
        names.remove("ease")
    if split.include_seen:
        names.insert(1, REPEATS_BASELINE)
    specs = (ModelSpec.resolve(name, split.train, seed=0) for name in names)
    return tuple(spec for spec in specs if beside is None or not is_same(spec, beside))


def is_same(spec: ModelSpec, other: ModelSpec) -> bool:
    """Tell whether two specs describe the same model with the same settings."""
    return (spec.model, spec.settings) == (other.model, other.settings)


def is_too_large_for_ease(split: Split) -> bool:
    """Tell whether EASE would take minutes."""
    return split.n_items > MAX_EASE_ITEMS


def left_out_sentence(split: Split) -> str:
    """Say which baseline is left out, and why; empty if none is."""
    if not is_too_large_for_ease(split):
        return ""
    return f"EASE is left out: {split.n_items:,} items are more than {MAX_EASE_ITEMS:,}"


def fit_baselines(
    specs: Sequence[ModelSpec],
    split: Split,
    progress: ProgressLike,
    metric: str = BASELINE_METRIC,
) -> list[FittedBaseline]:
    """Fit each baseline and print its validation at once; `metric` is one of those computed."""
    if not specs:
        return []
    validates = len(split.valid.target_events) > 0
    cutoffs = sorted({*_CUTOFFS, parse_metric(metric)[1]})
    shown = list(dict.fromkeys([metric, *_SHOWN]))
    columns = f"{', '.join(shown)} on validation" if validates else "tested at the end"
    progress.start(f"baselines: {columns}", len(specs))
    fitted: list[FittedBaseline] = []
    for spec in specs:
        name = spec.model_class.__name__
        progress.advance(1 if fitted else 0, note=f"fitting {name}")
        begun = time.perf_counter()
        model = spec.model_class(spec.settings).fit(split, seed=spec.seed)
        seconds = time.perf_counter() - begun
        means: dict[str, float] = {}
        if validates:
            means = evaluate(model, split, at=cutoffs, part="valid").mean()
        baseline = FittedBaseline(model, means, seconds)
        values = "".join(f"  {means[name]:.4f}" for name in shown if means)
        progress.say(f"  {name:<12}{values}  fitted in {seconds:.1f} s")
        fitted.append(baseline)
    return fitted


def validation_metric(spec: ModelSpec) -> str:
    """Return the metric by which a training selects; that of the comparison for other models."""
    metric = vars(spec.settings).get("metric", BASELINE_METRIC)
    return str(metric)


def best_baseline(
    baselines: Sequence[FittedBaseline], metric: str
) -> BestBaseline | None:
    """Return the baseline with the highest metric on validation; None without a validation."""
    validated = [baseline for baseline in baselines if baseline.validation]
    if not validated:
        return None
    best = max(validated, key=lambda baseline: baseline.validation[metric])
    return BestBaseline(best.name, metric, best.validation[metric])
