"""One self-contained HTML page: tables, plots with intervals, tail users, significance."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leporid.artifacts import atomic_path
from leporid.evaluation import Side, compare, holm
from leporid.pages import fill_template, to_svg
from leporid.paper.figures import draw_bars
from leporid.paper.render import render
from leporid.paper.tables import TAIL, PaperTable
from leporid.runs import Results, RunRecord, versions


def write_report(
    path: str | Path, title: str, sections: Sequence[tuple[str, str]], summary: str
) -> Path:
    """Write the page atomically.

    `summary` is plain text, a paragraph per line, and stands first. A section is a heading and
    its HTML; one without a heading continues the one before, one without HTML is left out.
    """
    rows = [{"package": name, "version": version} for name, version in versions().items()]
    environment = ("Environment", rows_html(rows, "The report was made with"))
    values: dict[str, Any] = {"title": title, "summary": summary.splitlines()}
    values["sections"] = [section for section in (*sections, environment) if section[1]]
    page = fill_template("leporid.paper", "templates/report.html", **values)
    with atomic_path(path) as target:
        target.write_text(page, encoding="utf-8")
    return Path(path)


def figure_html(figure: Any, caption: str) -> str:
    """A matplotlib figure inside the page, with its caption."""
    return f"<figure>{to_svg(figure)}<figcaption>{html.escape(caption)}</figcaption></figure>"


def rows_html(rows: Sequence[Mapping[str, Any]], caption: str) -> str:
    """Any list of dictionaries as a sortable table; columns of words are set left.

    A row may lack columns that others have.
    """
    columns = list(dict.fromkeys(key for row in rows for key in row))
    words = {key for key in columns if all(isinstance(row.get(key, ""), str) for row in rows)}
    values: dict[str, Any] = {"rows": rows, "columns": columns, "caption": caption, "words": words}
    values |= {"shown": _shown, "sort_key": _sort_key}
    return fill_template("leporid.paper", "templates/rows.html", **values)


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


def against_best(table: PaperTable, root: str | Path, n: int = 10) -> list[dict[str, Any]]:
    """For every row but the best by HR@n: how far F1@n is below the best, and Holm-adjusted p.

    Rows whose runs kept no hits, or those of other users, are left out.
    """
    results = Results(root)
    names: list[str] = []
    sides: list[Side] = []
    users: NDArray[np.int32] = np.empty(0, dtype=np.int32)
    for row in (table.rows[number] for number in table.ranked(f"HR@{n}")):
        runs = [o for record in row.records if (o := results.outcomes(record.key)) is not None]
        if runs and not names:
            users = runs[0].user
        if runs and all(np.array_equal(run.user, users) for run in runs):
            names.append(" ".join(part for part in row.key if part != "-"))
            sides.append(dict(enumerate(runs)))
    tests = [compare(sides[0], side, f"F1@{n}") for side in sides[1:]]
    return [
        {"row": name, "gap": test.difference, "p": test.p_value, "p_holm": h, "best": names[0]}
        for name, test, h in zip(names[1:], tests, (t.p_value for t in holm(tests)), strict=True)
    ]


def training_section(records: Sequence[RunRecord]) -> str:
    """Steps to the best validation value and how far rows moved from where they started."""
    rows = []
    for record in records:
        name = f"{record.model} ({record.recipe})" if record.recipe else record.model
        row = {"model": name, "init": record.init or "-", "seed": record.seed}
        for key, value in record.extra["training"].items():
            if not isinstance(value, dict):
                row[key.replace("_", " ")] = value
        rows.append({**row, "seconds": record.seconds})
    text = rows_html(rows, "Training: steps to the best value, and drift from the start")
    return text + (
        "<p class='note'>Drift is how far each embedding table moved from its initial vectors, "
        "relative to their norm, in the order the model made its tables (users first).</p>"
    )


def _interval(records: Sequence[RunRecord], metric: str) -> tuple[float, float] | None:
    pairs = [r.extra["confidence_95"][metric] for r in records if "confidence_95" in r.extra]
    if len(pairs) < len(records):
        return None
    low, high = (sum(ends) / len(pairs) for ends in zip(*pairs, strict=True))
    return low, high


def _sort_key(value: Any) -> float | None:
    number = value[0] if isinstance(value, list) and value else value
    plain = isinstance(number, int | float) and not isinstance(number, bool)
    return number if plain else None


def _shown(key: str, value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        return ", ".join(f"{part:.2f}" for part in value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}" if abs(value) > 9999 else str(value)
    if not isinstance(value, float):
        return str(value)
    if key in ("p", "p_holm") and value < 1e-4:
        # A p-value below the smallest double is stored as 0; so small a figure has no meaning.
        return "< 0.0001"
    if key == "seconds":
        return f"{value:,.1f}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.4f}" if abs(value) >= 5e-5 or not value else f"{value:.1e}"
