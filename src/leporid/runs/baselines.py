"""Baselines of a run: simple models with default settings on the same split.

They are fitted first, because they take seconds; the model is compared with them after its test.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from leporid.config import JsonValue
from leporid.data import Split
from leporid.errors import ConfigError
from leporid.evaluation import Comparison, MetricTable, compare, evaluate
from leporid.models import FitContext, ModelSpec, Recommender, fit
from leporid.progress import Progress, ProgressLike, make_progress
from leporid.runs.meter import Meter

BASELINES = ("toppop", "itemknn", "ease")
REPEATS_BASELINE = "frequency"
"""A further baseline where lists may show what a user already has."""
MAX_EASE_ITEMS = 10_000
"""EASE inverts a dense matrix: with more items it would take minutes."""
METRIC = "NDCG@10"
"""The metric by which a model and its baselines are compared."""


@dataclass(frozen=True)
class BaselineResult:
    """A fitted baseline and its test."""

    model: Recommender
    table: MetricTable
    """Metrics of each user on test."""
    seconds: float
    """Wall-clock time of the fit."""

    @property
    def name(self) -> str:
        """The name as it is written in the literature, such as ItemKNN."""
        return type(self.model).__name__


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """A baseline, and the trained model compared with it."""

    model: str
    """Name in the registry."""
    name: str
    """The name as it is written in the literature, such as ItemKNN."""
    settings: dict[str, JsonValue]
    """All settings, which are the defaults."""
    metrics: dict[str, float]
    """Means on test."""
    seconds: float
    """Wall-clock time of the fit."""
    comparison: Comparison
    """The trained model (a) with this baseline (b)."""

    def to_dict(self) -> dict[str, JsonValue]:
        """Return plain JSON values."""
        return {
            "model": self.model,
            "name": self.name,
            "settings": self.settings,
            "metrics": {**self.metrics},
            "seconds": self.seconds,
            "comparison": self.comparison.to_dict(),
        }


@dataclass(frozen=True)
class BaselineCheck:
    """The baselines that were fitted, and what follows for the trained model."""

    baselines: tuple[Baseline, ...]
    left_out: str = ""
    """Sentence on the baseline that was left out, and why; empty if none was."""

    @property
    def best(self) -> Baseline:
        """The baseline with the highest value."""
        return max(self.baselines, key=lambda baseline: baseline.comparison.mean_b)

    def verdict(self) -> str:
        """Compare the trained model with the best baseline in one sentence."""
        comparison = self.best.comparison
        advice = "; do not deploy it" if comparison.outcome == "below" else ""
        return comparison.describe() + advice

    def to_dict(self) -> dict[str, JsonValue]:
        """Return plain JSON values, as `RunRecord.extra["baselines"]` holds them."""
        models: dict[str, JsonValue] = {
            each.model: each.to_dict() for each in self.baselines
        }
        return {"models": models, "verdict": self.verdict(), "left_out": self.left_out}


def baseline_specs(
    split: Split, beside: ModelSpec | None = None
) -> tuple[ModelSpec, ...]:
    """Return the baselines of a split, without the one that `beside` itself describes."""
    names = [*BASELINES, REPEATS_BASELINE] if split.include_seen else [*BASELINES]
    if is_too_large_for_ease(split):
        names.remove("ease")
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
    specs: Sequence[ModelSpec], split: Split, progress: ProgressLike
) -> list[BaselineResult]:
    """Fit and test each baseline."""
    results = []
    for spec in specs:
        progress.start(f"baseline {spec.model_class.__name__}")
        with Meter() as meter:
            model = fit(spec, split, FitContext())
        results.append(BaselineResult(model, evaluate(model, split), meter.seconds))
    return results


def check_against(
    baselines: Sequence[BaselineResult],
    outcome: MetricTable,
    name: str,
    left_out: str = "",
) -> BaselineCheck:
    """Compare the test of a model called `name` with that of its baselines."""
    if METRIC not in outcome.names:
        raise ConfigError(
            f"baselines are compared by {METRIC}: evaluate with at=(1, 5, 10)"
        )
    rows = [
        Baseline(
            model=each.model.name,
            name=each.name,
            settings=each.model.config.to_dict(),
            metrics=each.table.mean(),
            seconds=each.seconds,
            comparison=compare(
                outcome, each.table, METRIC, name_a=name, name_b=each.name
            ),
        )
        for each in baselines
    ]
    return BaselineCheck(tuple(rows), left_out)


def against_baselines(
    outcome: MetricTable,
    split: Split,
    *,
    fitted: Recommender | None = None,
    progress: Progress = None,
) -> BaselineCheck:
    """Fit the baselines on `split` and compare a model's test with theirs by NDCG@10.

    `outcome` is what `evaluate(model, split)` returned. `fitted` is that model, so that a baseline
    is not compared with itself.
    """
    if METRIC not in outcome.names:
        raise ConfigError(
            f"baselines are compared by {METRIC}: evaluate with at=(1, 5, 10)"
        )
    specs = baseline_specs(split)
    if fitted is not None:
        fitted_spec = ModelSpec(type(fitted), fitted.requested)
        specs = tuple(spec for spec in specs if not is_same(spec, fitted_spec))
    reporter = make_progress(progress)
    baselines = fit_baselines(specs, split, reporter)
    if reporter is not progress:
        reporter.close()
    name = "the model" if fitted is None else fitted.name
    return check_against(baselines, outcome, name, left_out_sentence(split))
