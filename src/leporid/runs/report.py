"""`report.html` of a run: its test beside the baselines, its training, its settings."""

import contextlib
import html
import shlex
from collections.abc import Mapping
from pathlib import Path

import numpy as np

import leporid.html as page
from leporid.config import JsonValue
from leporid.data import titles_of
from leporid.errors import LeporidError
from leporid.evaluation import MetricTable
from leporid.models import Recommender, fit_sentence
from leporid.runs.execution import Run
from leporid.runs.record import RunRecord

SHOWN_METRICS = ("HR@10", "F1@10", "NDCG@10")
N_EXAMPLES = 3
"""Users whose recommendations are shown."""
EXAMPLE_LENGTH = 5
"""Items of their history and of their list."""


def write_train_report(path: Path, run: Run, record: RunRecord, folder: Path) -> None:
    """Write the page of a run; `folder` is where the run will lie, for its commands."""
    metrics_by_model = {record.model: record.metrics}
    if run.check is not None:
        metrics_by_model |= {each.name: each.metrics for each in run.check.baselines}
    hits = {name: metrics["HR@10"] for name, metrics in metrics_by_model.items()}
    rows = [
        {"model": name, **{key: metrics[key] for key in SHOWN_METRICS}}
        for name, metrics in metrics_by_model.items()
    ]
    settings = [
        {"setting": key, "value": str(value)} for key, value in record.config.items()
    ]
    quoted = html.escape(shlex.quote(str(folder)))
    caption = f"{len(run.test):,} users; baselines have their default settings"
    groups = page.rows_html(groups_of_users(run.test, "NDCG@10"), "NDCG@10 on test")
    sections = [
        ("On test", hits_html(hits)),
        ("", page.rows_html(rows, caption)),
        ("Groups of users", groups),
        ("Training", training_charts(run.model, record)),
        ("Look at it", f"<pre>leporid serve {quoted} --items ITEMS.csv</pre>"),
        ("Settings", page.folded_html(settings, f"{record.model}, seed {record.seed}")),
    ]
    title = f"leporid train: {record.model} on {record.dataset}"
    page.write_report(
        path, title, sections, "\n".join(summary_sentences(run, record, hits))
    )


def summary_sentences(
    run: Run, record: RunRecord, hits: Mapping[str, float]
) -> list[str]:
    """Return what the page says first: hits, the verdict, and what the folder holds."""
    popular = {"the bestsellers": hits["TopPop"]} if "TopPop" in hits else {}
    sentences = [hits_in_words(hits[record.model], popular)]
    if run.check is not None:
        sentences.append(f"On test {run.check.verdict()}.")
        sentences.append(run.check.left_out)
    sentences.append(f"The folder holds the {fit_sentence(run.deployed)}.")
    return [sentence for sentence in sentences if sentence]


def training_charts(model: Recommender, record: RunRecord) -> str:
    """Draw validation and loss over the steps of a network; empty for closed-form models."""
    curves = {"metric": f"Validation {record.config.get('metric')}", "loss": "Loss"}
    history = [] if model.history is None else model.history.rows
    charts = ""
    for key, name in curves.items():
        points = [
            (row["step"], row[key]) for row in history if row.get(key) is not None
        ]
        charts += page.chart_html(
            [page.Series(name, points, 1)], "optimiser steps", name
        )
    return f"<div class='charts'>{charts}</div>" if charts else ""


def hits_in_words(
    value: float, others: Mapping[str, float], n: int = 10, of: str = ""
) -> str:
    """Put HR@n into words: "Of 100 users 69 find something ...; with the bestsellers 53."."""
    count = "ten" if n == 10 else str(n)
    more = "".join(f"; with {name} {100 * other:.0f}" for name, other in others.items())
    return (
        f"Of 100 users {100 * value:.0f} find something they chose later among {count} "
        f"recommendations{of}{more}."
    )


def hits_html(hits: Mapping[str, float]) -> str:
    """Draw HR@10 by model as bars."""
    caption = "Of 100 users, those who find something they chose later among ten"
    return page.bars_html(
        {name: 100 * value for name, value in hits.items()}, caption, of_100=True
    )


def groups_of_users(table: MetricTable, metric: str) -> list[dict[str, JsonValue]]:
    """Return a metric of all users, of warm ones, of the least active quarter, and of cold ones."""
    strata = [
        name
        for name in ("warm-users", "tail-users", "cold-users")
        if table.has_users(name)
    ]
    return [
        {
            "users of the test part": name or "all",
            "number": len(table.columns(metric, name)),
            "value": table.mean(name)[metric],
        }
        for name in (None, *strata)
    ]


def examples_html(model: Recommender, items: str | Path | None) -> str:
    """Draw the newest items of three users and what they would be shown, with titles if known."""
    known = model.known.sequences()
    lengths = np.diff(known.indptr)
    users = np.argsort(lengths, kind="stable")[np.count_nonzero(lengths == 0) :]
    if not len(users):
        return ""
    quarters = [
        len(users) * quarter // (N_EXAMPLES + 1) for quarter in range(1, N_EXAMPLES + 1)
    ]
    chosen = users[quarters].astype(np.int32)
    titles = [str(key) for key in model.items.ids.to_pylist()]
    if items is not None:
        with contextlib.suppress(LeporidError):  # a table without titles
            titles = [info.title for info in titles_of(model.items, items)]
    histories = [known.of(int(user))[-EXAMPLE_LENGTH:] for user in chosen]
    lists = model.top_k(chosen, EXAMPLE_LENGTH).items
    return page.fill_template(
        "leporid",
        "figures.html",
        part="users",
        users=[model.users.external(int(user)) for user in chosen],
        histories=[[titles[item] for item in history] for history in histories],
        lists=[[titles[item] for item in row if item >= 0] for row in lists],
    )
