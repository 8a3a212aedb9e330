"""The verdict of a run: its model compared on test with the baselines that were fitted first."""

from collections.abc import Sequence
from dataclasses import dataclass

from leporid.data import Split
from leporid.errors import ConfigError
from leporid.evaluation import Comparison, MetricTable, compare, evaluate
from leporid.foundation import JsonValue, Progress, reporting
from leporid.models import (
    BASELINE_METRIC,
    FittedBaseline,
    ModelSpec,
    Recommender,
    baseline_specs,
    fit_baselines,
    left_out_sentence,
)


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
    validation: dict[str, float]
    """Means on validation; empty without a validation part."""
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
            "validation": {**self.validation},
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
        advice = "; do not deploy it" if comparison.outcome == "worse" else ""
        return comparison.describe() + advice

    def headline(self) -> str:
        """Return what follows for the trained model, to be read first."""
        comparison = self.best.comparison
        model = comparison.name_a
        other = comparison.name_b
        size = f"{abs(comparison.difference):.4f} in {comparison.metric}"
        headlines = {
            "better": f"{model} beats {other}, the best baseline, by {size}.",
            "worse": f"Do not deploy {model}: {other} is better by {size}.",
            "equivalent": f"{model} ties with {other}, which takes seconds to fit.",
            "inconclusive": f"{model} and {other} cannot be told apart on this test.",
        }
        return headlines[comparison.outcome]

    def to_dict(self) -> dict[str, JsonValue]:
        """Return plain JSON values, as `RunRecord.extra["baselines"]` holds them."""
        models: dict[str, JsonValue] = {
            each.model: each.to_dict() for each in self.baselines
        }
        return {"models": models, "verdict": self.verdict(), "left_out": self.left_out}


def check_against(
    baselines: Sequence[FittedBaseline],
    split: Split,
    outcome: MetricTable,
    name: str,
    left_out: str = "",
) -> BaselineCheck:
    """Test the baselines, and compare them with the test of a model called `name`."""
    check_comparable(outcome)
    rows = []
    for each in baselines:
        table = evaluate(each.model, split)
        compared = compare(
            outcome, table, BASELINE_METRIC, name_a=name, name_b=each.name
        )
        rows.append(
            Baseline(
                model=each.model.name,
                name=each.name,
                settings=each.model.config.to_dict(),
                metrics=table.mean(),
                validation=each.validation,
                seconds=each.seconds,
                comparison=compared,
            )
        )
    return BaselineCheck(tuple(rows), left_out)


def check_comparable(outcome: MetricTable) -> None:
    """Refuse a test without the metric by which baselines are compared."""
    if BASELINE_METRIC not in outcome.names:
        raise ConfigError(
            f"baselines are compared by {BASELINE_METRIC}: evaluate with at=(1, 5, 10)"
        )


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
    check_comparable(outcome)
    own = None if fitted is None else ModelSpec(type(fitted), fitted.requested)
    specs = baseline_specs(split, beside=own)
    with reporting(progress) as reporter:
        baselines = fit_baselines(specs, split, reporter)
    name = "the model" if fitted is None else fitted.name
    return check_against(baselines, split, outcome, name, left_out_sentence(split))
