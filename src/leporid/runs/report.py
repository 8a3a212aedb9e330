"""`report.html` of a run: its test beside the baselines, its training, its settings."""

import contextlib
import html
import shlex
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from leporid.data import titles_of
from leporid.errors import LeporidError
from leporid.evaluation import MetricTable
from leporid.foundation import JsonValue
from leporid.foundation import html as page
from leporid.models import Recommender
from leporid.runs.execution import Run
from leporid.runs.record import RunRecord

SHOWN_METRICS = ("HR@10", "F1@10", "NDCG@10")
HITS_CAPTION = "Share of users with a hit in their top 10"
MOST_POPULAR = "most popular items"
"""What readers call TopPop."""
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
    groups = groups_of_users(run.test, "NDCG@10")
    curves = training_curves(run.model, record)
    sentences = summary_sentences(run, record, hits)
    tone = tone_of(run)
    sections = [
        ("On test", page.bars_html(hits, HITS_CAPTION, percent=True)),
        ("", page.rows_html(rows, caption)),
        ("Groups of users", page.rows_html(groups, "NDCG@10 on test")),
        ("Training", page.charts_html(curves, "optimiser steps")),
        ("Look at it", f"<pre>leporid serve {quoted} --items ITEMS.csv</pre>"),
        ("Settings", page.folded_html(settings, f"{record.model}, seed {record.seed}")),
    ]
    title = f"leporid train: {record.model} on {record.dataset}"
    page.write_report(path, title, sections, "\n".join(sentences), tone)


def summary_sentences(
    run: Run, record: RunRecord, hits: Mapping[str, float]
) -> list[str]:
    """Return what the page says first: the verdict, hits, and what the folder holds."""
    popular = {MOST_POPULAR: hits["TopPop"]} if "TopPop" in hits else {}
    sentences = []
    if run.check is not None:
        sentences.append(run.check.headline())
    sentences.append(hits_in_words(hits[record.model], popular))
    if run.check is not None:
        sentences.append(f"On test {run.check.verdict()}.")
        sentences.append(run.check.left_out)
    if run.interruption:
        sentences.append(f"This run is not finished: {run.interruption}.")
    sentences.append(f"The folder holds the {record.extra['deployed']}.")
    return [sentence for sentence in sentences if sentence]


def training_curves(model: Recommender, record: RunRecord) -> list[page.Series]:
    """Return validation and loss over the steps of a network; none for closed-form models."""
    names = {"metric": f"Validation {record.config.get('metric')}", "loss": "Loss"}
    history = [] if model.history is None else model.history.rows
    curves = []
    for key, name in names.items():
        points = [
            (row["step"], row[key]) for row in history if row.get(key) is not None
        ]
        curves.append(page.Series(name, points, 1))
    return curves


def hits_in_words(
    value: float, others: Mapping[str, float], n: int = 10, of: str = ""
) -> str:
    """Put HR@n into words: "69% of users have a hit in their top 10 (most popular items: 53%)."."""
    beside = ", ".join(f"{name}: {other:.0%}" for name, other in others.items())
    more = f" ({beside})" if beside else ""
    return f"{value:.0%} of users have a hit in their top {n}{of}{more}."


def tone_of(run: Run) -> page.Tone:
    """Return whether the headline of a run is good news."""
    tones: dict[str, page.Tone] = {"better": "good", "worse": "bad"}
    return tones.get(run.check.best.comparison.outcome, "") if run.check else ""


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
        before="has, among others" if model.known.time is None else "had last",
    )
