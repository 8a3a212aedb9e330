"""Pages of runs: the report of `leporid train` and that of `leporid compare`, and their words."""

from __future__ import annotations

import html
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from leporid.data import titles_of
from leporid.errors import LeporidError
from leporid.evaluation import Comparison, MetricTable
from leporid.experiments.record import RunRecord
from leporid.html import (
    Series,
    bars_html,
    chart_html,
    fill_template,
    folded_html,
    rows_html,
    write_report,
)
from leporid.models import Recommender, fit_sentence

HITS = "Of 100 users, those who find something they chose later among ten"
"""Caption of the bars that show HR@10."""


def hits_in_words(own: float, others: Mapping[str, float], n: int = 10, of: str = "") -> str:
    """HR@n as people: "Of 100 users 69 find something ...; with the bestsellers 53."."""
    count = "ten" if n == 10 else str(n)
    more = "".join(f"; with {name} {100 * value:.0f}" for name, value in others.items())
    return (
        f"Of 100 users {100 * own:.0f} find something they chose later among {count} "
        f"recommendations{of}{more}."
    )


def groups_of_users(table: MetricTable, metric: str) -> list[dict[str, Any]]:
    """The metric of all users, of warm ones, of the least active quarter, and of cold ones."""
    strata = [name for name in ("warm-users", "tail-users", "cold-users") if table.has_users(name)]
    return [
        {
            "users of the test part": name or "all",
            "number": len(table.columns(metric, name)),
            "value": table.mean(name)[metric],
        }
        for name in (None, *strata)
    ]


def examples_html(model: Recommender, items: Any) -> str:
    """The newest items of three users, and what they would be shown; with titles where known."""
    known = model.known.sequences()
    lengths = np.diff(known.indptr)
    users = np.flatnonzero(lengths)
    if not len(users):
        return ""
    by_length = users[np.argsort(lengths[users], kind="stable")]
    chosen = by_length[[len(by_length) // 4, len(by_length) // 2, 3 * len(by_length) // 4]]
    titles = [str(key) for key in model.items.ids.to_pylist()]
    if items is not None:
        with suppress(LeporidError):  # a table without titles
            titles = [info.title for info in titles_of(model.items, items)]
    lists = model.top_k(chosen.astype(np.int32), 5).items
    people = [
        {
            "user": model.users.external(int(user)),
            "history": [titles[item] for item in known.of(int(user))[-5:]],
            "lists": [titles[item] for item in top if item >= 0],
        }
        for user, top in zip(chosen, lists, strict=True)
    ]
    return fill_template("leporid", "figures.html", part="people", people=people)


def write_train_report(
    folder: Path, fitted: Recommender, deployed: Recommender, record: RunRecord, table: MetricTable
) -> None:
    """Write `report.html` of a run: its test beside the baselines, its training, its settings."""
    check: Mapping[str, Any] = record.extra.get("baselines", {"models": {}})
    tested = {record.model: record.metrics}
    tested |= {other["name"]: other["metrics"] for other in check["models"].values()}
    hits = {name: metrics["HR@10"] for name, metrics in tested.items()}
    popular = {"the bestsellers": hits["TopPop"]} if "TopPop" in hits else {}
    said = [hits_in_words(hits[record.model], popular)]
    said += [f"On test {check['verdict']}.", check["left_out"]] if check["models"] else []
    said.append(f"The folder holds the {fit_sentence(deployed)}.")
    shown = ("HR@10", "F1@10", "NDCG@10")
    rows = [{"model": name, **{key: of[key] for key in shown}} for name, of in tested.items()]
    charts = ""
    names = {"metric": f"Validation {record.config.get('metric')}", "loss": "Loss"}
    for colour, (key, name) in enumerate(names.items(), start=1):
        history = fitted.history.rows if hasattr(fitted, "history") else []
        points = [(row["step"], row[key]) for row in history if row.get(key) is not None]
        charts += chart_html([Series(name, points, colour)], "optimiser steps", name)
    settings = [{"setting": key, "value": str(value)} for key, value in record.config.items()]
    commands = f"leporid serve {shlex.quote(str(folder))} --items ITEMS.csv"
    percent = {name: 100 * value for name, value in hits.items()}
    sections = [
        ("On test", bars_html(percent, HITS, full=100)),
        ("", rows_html(rows, f"{len(table):,} users; baselines have their default settings")),
        ("Groups of users", rows_html(groups_of_users(table, "NDCG@10"), "NDCG@10 on test")),
        ("Training", charts and f"<div class='charts'>{charts}</div>"),
        ("Look at it", f"<pre>{html.escape(commands)}</pre>"),
        ("Settings", folded_html(settings, f"{record.model}, seed {record.seed}")),
    ]
    title = f"leporid train: {record.model} on {record.dataset}"
    write_report(folder / "report.html", title, sections, "\n".join(filter(None, said)))


def write_comparison(
    path: Path,
    runs: Sequence[Mapping[str, Any]],
    tests: Sequence[Comparison],
    tables: Mapping[str, Sequence[Mapping[str, Any]]],
) -> None:
    """Write the page of `leporid compare`: the runs, who is above whom, and its `tables`."""
    said = [f"{test.describe()}." for test in tests]
    first, *others = runs
    metrics = [key for key, value in first.items() if isinstance(value, Mapping)]
    if "HR@10" in metrics:
        more = {run["run"]: run["HR@10"]["mean"] for run in others}
        said.insert(0, hits_in_words(first["HR@10"]["mean"], more, of=f" of {first['run']}"))
    charts = ""
    for metric in metrics:
        found = {run["run"]: run[metric] for run in runs}
        ends = {n: (of["low"], of["high"]) for n, of in found.items() if of["low"] is not None}
        means = {name: of["mean"] for name, of in found.items()}
        charts += bars_html(means, f"{metric} on test, with 95% intervals over users", ends)
    sections = [("Side by side", f"<div class='charts'>{charts}</div>")]
    sections += [("", rows_html(rows, caption)) for caption, rows in tables.items() if rows]
    write_report(path, "leporid compare", sections, "\n".join(said))
