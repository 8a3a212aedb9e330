"""The page of an answer: the charts, the table of models, examples, the test and the commands."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from leporid.foundation import (
    Series,
    bars_html,
    chart_html,
    folded_html,
    rows_html,
    write_report,
)
from leporid.models import Recommender
from leporid.runs import examples_html
from leporid.selection.priors import FAMILIES, family_of
from leporid.selection.summary import Summary, best_of_each_model
from leporid.selection.task import SearchTask


class ChartPoint(NamedTuple):
    """A point of a chart, and the model that it stands for."""

    x: float
    y: float
    model: str


def write_page(
    path: Path, summary: Summary, task: SearchTask, model: Recommender
) -> None:
    """Write the page of an answer."""
    metric = summary.metric
    left_out = [{"model": each.model, "why": each.why} for each in summary.left_out]
    tested = [
        {"model": each.label, metric: each.metrics[metric]} for each in summary.tested
    ]
    inits = [
        {"initialisation": name, "NDCG@10": value}
        for name, value in summary.inits.items()
    ]
    prior = [
        {"model": name, "expected": f"{share:.0%}"}
        for name, share in summary.prior.items()
    ]
    groups = f"{metric} of the chosen model by group of users"
    probes = "Vectors alone, without any training (probe)"
    commands = "\n".join(html.escape(line) for line in summary.commands)
    sections = [
        ("The search", charts(summary)),
        ("The models", model_tables(summary)),
        ("Recommendations", examples_html(model, task.items)),
        ("On test", rows_html(tested, "Read once, after the choice")),
        ("", rows_html(summary.user_groups, groups)),
        ("Left out", rows_html(left_out, "Models without a result")),
        ("Initialisations", rows_html(inits, probes)),
        (
            "Order of the candidates",
            folded_html(prior, "Quality on logs like this one"),
        ),
        ("Reproduce with", f"<pre>{commands}</pre>"),
    ]
    write_report(path, "leporid choose", sections, summary.why, summary.tone)


def charts(summary: Summary) -> str:
    """Draw quality over time with the best so far, and quality against time per request."""
    metric = summary.metric
    trials = [ChartPoint(each.at, each.value, each.model) for each in summary.timeline]
    over_time = chart_html(
        [Series("best so far", best_so_far(trials), 0), *by_family(trials)],
        "seconds",
        f"{metric} of every candidate when it was done",
    )
    if not over_time:
        return ""
    points = [
        ChartPoint(max(row.ms, 0.01), row.value, row.model)
        for row in best_of_each_model(summary.rows)
    ]
    # The best model comes first: one is named if it is faster than all before it.
    fastest = [
        point.model
        for place, point in enumerate(points)
        if all(point.x < better.x for better in points[:place])
    ]
    per_request = chart_html(
        by_family(points),
        "ms per request",
        f"{metric} and time per request; named are those that no other model beats in both",
        log=True,
        named=fastest,
    )
    return f"<div class='charts'>{over_time}{per_request}</div>"


def best_so_far(trials: Sequence[ChartPoint]) -> list[tuple[float, float]]:
    """Return the steps of the best value over time."""
    line: list[tuple[float, float]] = []
    for trial in sorted(trials, key=lambda trial: trial.x):
        best = line[-1][1] if line else trial.y
        line += [(trial.x, best), (trial.x, max(best, trial.y))]
    return line


def by_family(points: Sequence[ChartPoint]) -> list[Series]:
    """Return points in the colours of the models' families."""
    series = []
    for colour, family in enumerate((*FAMILIES, "other")):
        members = [point for point in points if family_of(point.model) == family]
        if members:
            places = [(point.x, point.y) for point in members]
            names = [point.model for point in members]
            series.append(Series(family, places, colour, names))
    return series


def model_tables(summary: Summary) -> str:
    """Draw the best candidate of each model with bars, and all others folded."""
    if not summary.rows:
        return ""
    metric = summary.metric
    table = [row.to_dict(metric) for row in summary.rows]
    best = best_of_each_model(summary.rows)
    values = {row.model: row.value for row in best}
    bars = bars_html(values, f"{metric}, best of each model")
    rows = rows_html(
        [row.to_dict(metric) for row in best],
        "The best candidate of each model, on the inner validation split",
    )
    return bars + rows + folded_html(table, f"All {len(table)} candidates")
