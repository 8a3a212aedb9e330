"""A trained model beside simple ones: TopPop, ItemKNN and EASE, in seconds, in words.

The baselines have their default settings, are fitted on the same split and evaluated alike. Each
is compared with the model on the same users.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from leporid import models
from leporid.data import Split
from leporid.errors import ConfigError
from leporid.evaluation import Comparison, MetricTable, compare, evaluate
from leporid.experiments.record import Meter
from leporid.models import Recommender
from leporid.progress import ProgressLike, make_progress

BASELINES = ("toppop", "itemknn", "ease")
MAX_EASE_ITEMS = 10_000
"""EASE inverts a dense matrix: with more items it would take minutes."""
METRIC = "NDCG@10"
"""What the models are compared by."""


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """A simple model on the same split, and the trained model compared with it."""

    model: str
    name: str
    """As it is written: ItemKNN."""
    settings: dict[str, Any]
    """Its defaults, all of them."""
    metrics: dict[str, float]
    """On test."""
    seconds: float
    """Wall-clock time of the fit."""
    comparison: Comparison
    """The trained model (a) with this baseline (b)."""


@dataclass(frozen=True)
class BaselineCheck:
    """The baselines that were fitted, and what follows for the trained model."""

    baselines: tuple[Baseline, ...]
    left_out: str = ""
    """Which baseline was left out and why, one sentence; empty where none was."""

    @property
    def best(self) -> Baseline:
        """The baseline with the highest metric."""
        return max(self.baselines, key=lambda baseline: baseline.comparison.mean_b)

    def verdict(self) -> str:
        """The trained model against the best baseline, in one sentence."""
        comparison = self.best.comparison
        advice = "; do not deploy it" if comparison.outcome == "below" else ""
        return comparison.describe() + advice

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-able values, as `RunRecord.extra["baselines"]` holds them."""
        each = {
            baseline.model: {**asdict(baseline), "comparison": baseline.comparison.to_dict()}
            for baseline in self.baselines
        }
        return {"models": each, "verdict": self.verdict(), "left_out": self.left_out}


def against_baselines(
    outcome: MetricTable,
    split: Split,
    *,
    fitted: Recommender | None = None,
    progress: bool | ProgressLike | None = None,
) -> BaselineCheck:
    """Fit the baselines on `split` and compare a model's test outcome with theirs by NDCG@10.

    `outcome` is what `evaluate(model, split)` returned. `fitted` is that model, so that
    a baseline is not compared with itself.
    """
    if METRIC not in outcome.names:
        raise ConfigError(f"baselines are compared by {METRIC}: evaluate with at=(1, 5, 10)")
    names = {"name_a": fitted.name if fitted is not None else "the model"}
    reporter = make_progress(progress)
    rows, left_out = [], ""
    for model in (models.get(name)() for name in BASELINES):
        if model.name == "ease" and split.n_items > MAX_EASE_ITEMS:
            left_out = f"EASE is left out: {split.n_items:,} items are more than {MAX_EASE_ITEMS:,}"
            continue
        if fitted is not None and (fitted.name, fitted.config) == (model.name, model.config):
            continue
        names["name_b"] = name = type(model).__name__
        reporter.start(f"baseline {name}")
        with Meter() as meter:
            model.fit(split)
        table = evaluate(model, split)
        rows.append(
            Baseline(
                model=model.name,
                name=name,
                settings=model.config.to_dict(),
                metrics=table.mean(),
                seconds=meter.seconds,
                comparison=compare(outcome, table, METRIC, **names),
            )
        )
    if reporter is not progress:
        reporter.close()
    return BaselineCheck(tuple(rows), left_out)
