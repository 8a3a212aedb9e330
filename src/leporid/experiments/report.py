"""One self-contained HTML page: tables, plots with intervals, tail users, significance."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from leporid.artifacts import atomic_path
from leporid.experiments.figures import draw_bars, to_svg
from leporid.experiments.record import RunRecord, versions
from leporid.experiments.render import render
from leporid.experiments.significance_marks import against_best
from leporid.experiments.tables import PaperTable

__all__ = ["figure_html", "rows_html", "table_section", "training_section", "write_report"]


def write_report(
    path: str | Path, title: str, sections: Sequence[tuple[str, str]], *, environment: bool = True
) -> Path:
    """Write the page atomically. A section is a heading and its HTML."""
    body = "".join(f"<h2>{html.escape(heading)}</h2>\n{text}\n" for heading, text in sections)
    if environment:
        body += f"<h2>Environment</h2>{_environment()}"
    page = resources.files("leporid.experiments").joinpath("report.html").read_text("utf-8")
    page = page.replace("{{title}}", html.escape(title)).replace("{{body}}", body)
    with atomic_path(path) as target:
        target.write_text(page, encoding="utf-8")
    return Path(path)


def figure_html(figure: Any, caption: str) -> str:
    """A matplotlib figure inside the page, with its caption."""
    return f"<figure>{to_svg(figure)}<figcaption>{html.escape(caption)}</figcaption></figure>"


def rows_html(rows: Sequence[Mapping[str, Any]], caption: str) -> str:
    """Any list of dictionaries as a sortable table."""
    if not rows:
        return "<p class='note'>Nothing to show.</p>"
    head = "".join(f"<th scope='col'>{html.escape(str(key))}</th>" for key in rows[0])
    body = "".join(
        "<tr>"
        + "".join(f"<td>{html.escape(_cell(value))}</td>" for value in row.values())
        + "</tr>"
        for row in rows
    )
    return (
        f"<div class='scroll'><table class='sortable'><caption>{html.escape(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def table_section(table: PaperTable, root: str | Path) -> str:
    """The table, a plot with 95% intervals over users, and who differs from the best."""
    text = f"<div class='scroll'>{render(table, 'html')}</div>"
    shown = [row for row in table.rows if row.records]
    if not shown:
        return text
    metric = "HR@10"
    figure = draw_bars(
        [" / ".join(row.key) for row in shown],
        [row.values[metric].ours or 0.0 for row in shown],
        [_interval(row.records, metric) for row in shown],
        f"{metric}, mean over seeds, with the mean 95% interval over users",
    )
    text += figure_html(figure, f"{table.title}: {metric} on {table.dataset}")
    tests = against_best(table, root)
    if tests:
        text += rows_html(tests, "F1@10 per user against the best row (Wilcoxon, Holm-corrected)")
    return text


def training_section(records: Sequence[RunRecord]) -> str:
    """Steps to the best validation value and how far rows moved from where they started."""
    rows = []
    for record in records:
        summary = record.extra.get("training")
        if summary:
            plain = {key: value for key, value in summary.items() if not isinstance(value, dict)}
            rows.append(
                {
                    "model": record.model,
                    "init": record.init or "-",
                    "seed": record.seed,
                    **plain,
                    "seconds": round(record.seconds, 1),
                }
            )
    return rows_html(rows, "Training: steps to the best value, and drift from the start")


def _interval(records: Sequence[RunRecord], metric: str) -> tuple[float, float] | None:
    given = [r.extra["confidence_95"][metric] for r in records if "confidence_95" in r.extra]
    if len(given) < len(records):
        return None
    low, high = (sum(pair[end] for pair in given) / len(given) for end in (0, 1))
    return low, high


def _environment() -> str:
    rows = [{"package": name, "version": version} for name, version in versions().items()]
    return rows_html(rows, "The report was made with")


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1e-3 and value else f"{value:.4f}"
    return str(value)
