"""The page of an answer: the charts, the table of models, examples, the test and the commands."""

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leporid.html import (
    Series,
    bars_html,
    chart_html,
    folded_html,
    rows_html,
    write_report,
)
from leporid.models import Recommender
from leporid.runs import examples_html
from leporid.selection.candidates import Problem
from leporid.selection.priors import FAMILIES, family_of
from leporid.selection.summary import best_rows


def write_page(
    path: Path, parts: Mapping[str, Any], problem: Problem, model: Recommender
) -> None:
    details = parts["details"]
    metric = details["metric"]
    tested = [
        {name: row[name] for name in ("model", metric)} for row in parts["tested"]
    ]
    prior = [{"model": k, "expected": f"{v:.0%}"} for k, v in details["prior"].items()]
    inits = [
        {"initialisation": k, "NDCG@10": v}
        for k, v in details["initialisations"].items()
    ]
    shown = "\n".join(html.escape(line) for line in parts["commands"])
    sections = [
        ("The search", _charts(parts)),
        ("The models", _models(parts)),
        ("Recommendations", examples_html(model, problem.items)),
        ("On test", rows_html(tested, "Read once, after the choice")),
        (
            "",
            rows_html(
                details["users"], f"{metric} of the chosen model by group of users"
            ),
        ),
        ("Left out", rows_html(details["left out"], "Models without a result")),
        (
            "Initialisations",
            rows_html(inits, "Vectors alone, without any training (probe)"),
        ),
        (
            "Order of the candidates",
            folded_html(prior, "Quality on logs like this one"),
        ),
        ("The same again", f"<pre>{shown}</pre>"),
    ]
    write_report(path, "leporid choose", sections, parts["why"])


def _charts(parts: Mapping[str, Any]) -> str:
    """Quality over time with the best so far, and quality against milliseconds per request."""
    metric, done = parts["details"]["metric"], parts["details"]["timeline"]
    line: list[tuple[float, float]] = []
    for row in sorted(done, key=lambda row: row["at"]):
        best = line[-1][1] if line else row["value"]
        line += [(row["at"], best), (row["at"], max(best, row["value"]))]
    every = _by_family([(row["at"], row["value"], row["model"]) for row in done])
    table = best_rows(parts["table"])
    rows = [
        (max(row["ms per request"], 0.01), row[metric], row["model"]) for row in table
    ]
    fastest = [
        m for i, (ms, _, m) in enumerate(rows) if all(ms < row[0] for row in rows[:i])
    ]
    caption = f"{metric} of every candidate when it was done"
    first = chart_html([Series("best so far", line, 0), *every], "seconds", caption)
    caption = f"{metric} and time per request; named are those that no other model beats in both"
    second = chart_html(
        _by_family(rows), "ms per request", caption, log=True, named=fastest
    )
    return f"<div class='charts'>{first}{second}</div>" if first else ""


def _by_family(rows: Sequence[tuple[float, float, str]]) -> list[Series]:
    """Points in the colours of the models' families; each row is x, y and a model."""
    families = [*FAMILIES, "other"]
    groups = [
        [row for row in rows if family_of(row[2]) == family] for family in families
    ]
    return [
        Series(families[i], [row[:2] for row in own], i, [row[2] for row in own])
        for i, own in enumerate(groups)
        if own
    ]


def _models(parts: Mapping[str, Any]) -> str:
    """The best candidate of each model with bars; all others folded."""
    metric, best, table = (
        parts["details"]["metric"],
        best_rows(parts["table"]),
        parts["table"],
    )
    if not table:
        return ""
    bars = bars_html(
        {row["model"]: row[metric] for row in best}, f"{metric}, best of each model"
    )
    rows = rows_html(
        best, "The best candidate of each model, on the inner validation split"
    )
    return bars + rows + folded_html(table, f"All {len(table)} candidates")
