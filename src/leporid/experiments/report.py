"""Pages of runs: the report of `leporid train` and that of `leporid compare`, and their words."""

import html
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import leporid.html as page
from leporid.data import titles_of
from leporid.errors import LeporidError
from leporid.evaluation import Comparison, MetricTable
from leporid.experiments.record import RunRecord
from leporid.models import Recommender, fit_sentence


def hits_in_words(own: float, others: Mapping[str, float], n: int = 10, of: str = "") -> str:
    """HR@n as people: "Of 100 users 69 find something ...; with the bestsellers 53."."""
    count = "ten" if n == 10 else str(n)
    more = "".join(f"; with {name} {100 * value:.0f}" for name, value in others.items())
    return (
        f"Of 100 users {100 * own:.0f} find something they chose later among {count} "
        f"recommendations{of}{more}."
    )


def hits_html(hits: Mapping[str, float]) -> str:
    """HR@10 by model as bars."""
    caption = "Of 100 users, those who find something they chose later among ten"
    return page.bars_html({name: 100 * value for name, value in hits.items()}, caption, of_100=True)


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
    users = np.argsort(lengths, kind="stable")[np.count_nonzero(lengths == 0) :]
    if not len(users):
        return ""
    chosen = users[[len(users) // 4, len(users) // 2, 3 * len(users) // 4]].astype(np.int32)
    titles = [str(key) for key in model.items.ids.to_pylist()]
    if items is not None:
        with suppress(LeporidError):  # a table without titles
            titles = [info.title for info in titles_of(model.items, items)]
    about: dict[str, Any] = {
        "users": [model.users.external(int(user)) for user in chosen],
        "histories": [[titles[item] for item in known.of(int(user))[-5:]] for user in chosen],
        "lists": [[titles[i] for i in top if i >= 0] for top in model.top_k(chosen, 5).items],
    }
    return page.fill_template("leporid", "figures.html", part="people", **about)


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
    curves = {"metric": f"Validation {record.config.get('metric')}", "loss": "Loss"}
    charts = ""
    for key, name in curves.items():
        history = fitted.history.rows if hasattr(fitted, "history") else []
        points = [(row["step"], row[key]) for row in history if row.get(key) is not None]
        charts += page.chart_html([page.Series(name, points, 1)], "optimiser steps", name)
    settings = [{"setting": key, "value": str(value)} for key, value in record.config.items()]
    folder_name = html.escape(shlex.quote(str(folder)))
    sections = [
        ("On test", hits_html(hits)),
        ("", page.rows_html(rows, f"{len(table):,} users; baselines have their default settings")),
        ("Groups of users", page.rows_html(groups_of_users(table, "NDCG@10"), "NDCG@10 on test")),
        ("Training", charts and f"<div class='charts'>{charts}</div>"),
        ("Look at it", f"<pre>leporid serve {folder_name} --items ITEMS.csv</pre>"),
        ("Settings", page.folded_html(settings, f"{record.model}, seed {record.seed}")),
    ]
    title = f"leporid train: {record.model} on {record.dataset}"
    page.write_report(folder / "report.html", title, sections, "\n".join(filter(None, said)))


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
        charts += page.bars_html(means, f"{metric} on test, with 95% intervals over users", ends)
    sections = [("Side by side", f"<div class='charts'>{charts}</div>")]
    sections += [("", page.rows_html(rows, caption)) for caption, rows in tables.items() if rows]
    page.write_report(path, "leporid compare", sections, "\n".join(said))
