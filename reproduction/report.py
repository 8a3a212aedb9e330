"""Sections of the HTML report: tables with intervals over users, significance, training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leporid.evaluation import UserValuesBySeed, compare, holm
from leporid.foundation import rows_html
from leporid.runs import RunRecord
from reproduction.figures import draw_bars, figure_html
from reproduction.render import render
from reproduction.store import PackedResults
from reproduction.tables import TAIL, PaperTable


def table_section(table: PaperTable, root: str | Path) -> str:
    """The table, a plot with 95% intervals over users, and who differs from the best."""
    text = render(table, "html")
    shown = [row for row in table.rows if row.records]
    if not shown:
        return text
    metric = "HR@10"
    # The records keep intervals and hits of all users together, which say nothing of a stratum.
    tail = table.name == TAIL
    figure = draw_bars(
        [" / ".join(part for part in row.key if part != "-") for row in shown],
        [row.values[metric].ours or 0.0 for row in shown],
        [None if tail else _interval(row.records, metric) for row in shown],
        f"{metric}, mean over seeds" + ("" if tail else ", with the mean 95% interval over users"),
    )
    text += figure_html(figure, f"{table.title}: {metric} on {table.dataset}")
    tests = [] if tail else against_best(table, root)
    caption = "F1@10 of the best row less that of each other, paired by user (t, Holm)"
    return text + (rows_html(tests, caption) if tests else "")


def against_best(table: PaperTable, root: str | Path) -> list[dict[str, Any]]:
    """For every row but the best by HR@10: how much F1@10 it lacks, Holm-adjusted p and word.

    Rows whose runs kept no hits, or those of other users, are left out.
    """
    results = PackedResults(root)
    names: list[str] = []
    sides: list[UserValuesBySeed] = []
    users: NDArray[np.int32] = np.empty(0, dtype=np.int32)
    for row in (table.rows[number] for number in table.ranked("HR@10")):
        runs = [o for record in row.records if (o := results.outcomes(record.key)) is not None]
        if runs and not names:
            users = runs[0].user
        if runs and all(np.array_equal(run.user, users) for run in runs):
            names.append(" ".join(part for part in row.key if part != "-"))
            sides.append(dict(enumerate(runs)))
    tests = [compare(sides[0], side, "F1@10") for side in sides[1:]]
    return [
        {
            "row": name,
            "gap": test.difference,
            "p": test.p_value,
            "p_holm": adjusted.p_value,
            "the best is": adjusted.outcome,
            "best": names[0],
        }
        for name, test, adjusted in zip(names[1:], tests, holm(tests), strict=True)
    ]


def training_section(records: Sequence[RunRecord]) -> str:
    """Steps to the best validation value, and how far the embeddings moved in training."""
    rows = []
    for record in records:
        name = f"{record.model} ({record.recipe})" if record.recipe else record.model
        row = {"model": name, "init": record.init or "-", "seed": record.seed}
        for key, value in record.extra["training"].items():
            if not isinstance(value, dict):
                row[key.replace("_", " ")] = value
        rows.append({**row, "seconds": record.seconds})
    text = rows_html(rows, "Training: steps to the best value, and drift of the embeddings")
    return text + (
        "<p class='note'>Drift is the distance of each embedding table from its initial "
        "embeddings, relative to their norm, in the order of the model's tables (users first).</p>"
    )


def _interval(records: Sequence[RunRecord], metric: str) -> tuple[float, float] | None:
    pairs = [r.extra["confidence_95"][metric] for r in records if "confidence_95" in r.extra]
    if len(pairs) < len(records):
        return None
    low, high = (sum(ends) / len(pairs) for ends in zip(*pairs, strict=True))
    return low, high
