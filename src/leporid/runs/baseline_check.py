"""A trained model beside the simple ones: TopPop, ItemKNN and EASE, in seconds, in words.

The baselines have their default settings, are fitted on the same split and judged by the same
evaluator. The difference to each is paired, user by user.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from leporid import models
from leporid.data import Split
from leporid.errors import ConfigError, DataError
from leporid.evaluation import MetricTable, combine, evaluate, paired_interval
from leporid.models import Recommender
from leporid.progress import ProgressLike, make_progress
from leporid.runs.outcomes import UserOutcomes
from leporid.runs.record import Meter

BASELINES = ("toppop", "itemknn", "ease")
MAX_EASE_ITEMS = 10_000
"""EASE inverts a dense matrix: with more items it would take minutes."""
METRIC = "HR@10"
"""What the verdict compares."""


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """A simple model on the same split, and how far the trained one is from it."""

    model: str
    name: str
    """As people write it: ItemKNN."""
    settings: dict[str, Any]
    """Its defaults, all of them."""
    metrics: dict[str, float]
    """On test."""
    seconds: float
    """Wall-clock time of the fit."""
    metric: str
    difference: float
    """The trained model's `metric` minus the baseline's."""
    low: float
    high: float
    """95% interval of the difference: users resampled, both models on the same ones."""


@dataclass(frozen=True)
class BaselineCheck:
    """The baselines that were fitted, and what follows for the trained model."""

    baselines: tuple[Baseline, ...]
    left_out: str = ""
    """Which baseline was left out and why, one sentence; empty where none was."""

    @property
    def best(self) -> Baseline:
        """The baseline with the highest metric."""
        return max(self.baselines, key=lambda baseline: baseline.metrics[baseline.metric])

    def verdict(self) -> str:
        """The trained model against the best baseline, in one sentence."""
        best = self.best
        size = _points(abs(best.difference))
        if best.high < 0:
            between = f"[{_points(-best.high)}, {_points(-best.low)}]"
            return f"{best.metric} is below {best.name} by {size} {between}: don't deploy this"
        between = f"[{_points(best.low)}, {_points(best.high)}]"
        if best.low > 0:
            return f"{best.metric} is above {best.name} by {size} {between}"
        return f"{best.metric} is level with {best.name}: {_points(best.difference)} {between}"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-able values, as `RunRecord.extra["baselines"]` holds them."""
        each = {baseline.model: asdict(baseline) for baseline in self.baselines}
        return {"models": each, "verdict": self.verdict(), "left_out": self.left_out}


def against_baselines(
    outcome: MetricTable | UserOutcomes,
    split: Split,
    *,
    fitted: Recommender | None = None,
    at: tuple[int, ...] = (1, 5, 10),
    progress: bool | ProgressLike | None = None,
) -> BaselineCheck:
    """Fit the baselines on `split` and compare a model's test outcome with theirs.

    `outcome` is what `evaluate(model, split)` or `judge` returned. `fitted` is that model, so that
    a baseline is not compared with itself.
    """
    if isinstance(outcome, MetricTable):
        if max(outcome.at) < 10:
            raise ConfigError(f"baselines are compared by {METRIC}: evaluate with at=(1, 5, 10)")
        outcome = UserOutcomes.of(outcome)
    reporter = make_progress(progress)
    rows, left_out = [], ""
    for name in BASELINES:
        model = models.get(name)()
        if name == "ease" and split.n_items > MAX_EASE_ITEMS:
            left_out = f"EASE is left out: {split.n_items:,} items are more than {MAX_EASE_ITEMS:,}"
        elif fitted is None or (fitted.name, fitted.config) != (name, model.config):
            rows.append(_baseline(model, outcome, split, at, reporter))
    if reporter is not progress:
        reporter.close()
    return BaselineCheck(tuple(rows), left_out)


def _baseline(
    model: Recommender,
    of_model: UserOutcomes,
    split: Split,
    at: tuple[int, ...],
    progress: ProgressLike,
) -> Baseline:
    name = type(model).__name__
    progress.start(f"baseline {name}")
    with Meter() as meter:
        model.fit(split)
    table = evaluate(model, split, at=at)
    own = UserOutcomes.of(table)
    if not np.array_equal(own.user, of_model.user):
        raise DataError("the model was not tested on the users of this split: evaluate it there")
    columns = [outcomes.ingredients(METRIC) for outcomes in (of_model, own)]
    difference = np.subtract(*(combine(column.mean(axis=0)) for column in columns))
    low, high = paired_interval(*columns)
    return Baseline(
        model=model.name,
        name=name,
        settings=model.config.to_dict(),
        metrics=table.mean(),
        seconds=meter.seconds,
        metric=METRIC,
        difference=float(difference),
        low=low,
        high=high,
    )


def _points(value: float) -> str:
    """Three digits behind the point and no zero before it: .039."""
    text = f"{value:.3f}"
    return "-" + text[2:] if text.startswith("-0") else text.removeprefix("0")
