"""One self-contained HTML page: tables, plots with intervals, tail users, significance."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from leporid.artifacts import atomic_path
from leporid.paper.figures import draw_bars, to_svg
from leporid.paper.render import render
from leporid.paper.significance_marks import against_best
from leporid.paper.tables import PaperTable
from leporid.runs.record import RunRecord, versions

__all__ = ["figure_html", "rows_html", "table_section", "training_section", "write_report"]


def write_report(
    path: str | Path, title: str, sections: Sequence[tuple[str, str]], *, environment: bool = True
) -> Path:
    """Write the page atomically. A section is a heading and its HTML."""
    sections = [*sections, ("Environment", _environment())] if environment else sections
    body = _contents([heading for heading, _ in sections]) if len(sections) > 3 else ""
    body += "".join(
        f"<h2 id='part-{number}'>{html.escape(heading)}</h2>\n{text}\n"
        for number, (heading, text) in enumerate(sections)
    )
    page = resources.files("leporid.paper").joinpath("report.html").read_text("utf-8")
    page = page.replace("{{title}}", html.escape(title)).replace("{{body}}", body)
    with atomic_path(path) as target:
        target.write_text(page, encoding="utf-8")
    return Path(path)


def figure_html(figure: Any, caption: str) -> str:
    """A matplotlib figure inside the page, with its caption."""
    return f"<figure>{to_svg(figure)}<figcaption>{html.escape(caption)}</figcaption></figure>"


def rows_html(rows: Sequence[Mapping[str, Any]], caption: str) -> str:
    """Any list of dictionaries as a sortable table; columns of words are set left."""
    if not rows:
        return "<p class='note'>Nothing to show.</p>"
    words = {key for key in rows[0] if all(isinstance(row.get(key), str) for row in rows)}
    style = {key: " class='words'" if key in words else "" for key in rows[0]}
    head = "".join(f"<th scope='col'{style[key]}>{html.escape(str(key))}</th>" for key in rows[0])
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{style[key]}{_sort_key(row[key])}>{_cell(key, row[key])}</td>" for key in row
        )
        + "</tr>"
        for row in rows
    )
    return (
        f"<div class='scroll'><table class='sortable'><caption>{html.escape(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def table_section(table: PaperTable, root: str | Path) -> str:
    """The table, a plot with 95% intervals over users, and who differs from the best."""
    text = render(table, "html")
    shown = [row for row in table.rows if row.records]
    if not shown:
        return text
    metric = "HR@10"
    # The records keep intervals and hits of all users together, which say nothing of a stratum.
    tail = table.name == "table4"
    figure = draw_bars(
        [" / ".join(part for part in row.key if part != "-") for row in shown],
        [row.values[metric].ours or 0.0 for row in shown],
        [None if tail else _interval(row.records, metric) for row in shown],
        f"{metric}, mean over seeds" + ("" if tail else ", with the mean 95% interval over users"),
    )
    text += figure_html(figure, f"{table.title}: {metric} on {table.dataset}")
    tests = [] if tail else against_best(table, root)
    if tests:
        text += rows_html(tests, "F1@10 per user against the best row (Wilcoxon, Holm-corrected)")
    return text


def training_section(records: Sequence[RunRecord]) -> str:
    """Steps to the best validation value and how far rows moved from where they started."""
    rows = []
    for record in records:
        summary = record.extra.get("training")
        if summary:
            plain = {
                key.replace("_", " "): value
                for key, value in summary.items()
                if not isinstance(value, dict)
            }
            rows.append(
                {
                    "model": f"{record.model} ({record.recipe})" if record.recipe else record.model,
                    "init": record.init or "-",
                    "seed": record.seed,
                    **plain,
                    "seconds": record.seconds,
                }
            )
    text = rows_html(rows, "Training: steps to the best value, and drift from the start")
    return text + (
        "<p class='note'>Drift is how far each embedding table moved from its initial vectors, "
        "relative to their norm, in the order the model made its tables (users first).</p>"
    )


def _interval(records: Sequence[RunRecord], metric: str) -> tuple[float, float] | None:
    given = [r.extra["confidence_95"][metric] for r in records if "confidence_95" in r.extra]
    if len(given) < len(records):
        return None
    low, high = (sum(pair[end] for pair in given) / len(given) for end in (0, 1))
    return low, high


def _environment() -> str:
    rows = [{"package": name, "version": version} for name, version in versions().items()]
    return rows_html(rows, "The report was made with")


def _contents(headings: Sequence[str]) -> str:
    links = "".join(
        f"<li><a href='#part-{number}'>{html.escape(heading)}</a></li>"
        for number, heading in enumerate(headings)
    )
    return f"<nav aria-label='Contents'><ul>{links}</ul></nav>"


def _sort_key(value: Any) -> str:
    number = value[0] if isinstance(value, list) and value else value
    plain = isinstance(number, int | float) and not isinstance(number, bool)
    return f" data-sort='{number!r}'" if plain else ""


def _cell(key: str, value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        return ", ".join(f"{part:.2f}" for part in value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}" if abs(value) > 9999 else str(value)
    if not isinstance(value, float):
        return html.escape(str(value))
    if key in ("p", "p_holm") and value < 1e-4:
        # A p-value below the smallest double is stored as 0; so small a figure has no meaning.
        return "&lt; 0.0001"
    if key == "seconds":
        return f"{value:,.1f}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4f}" if abs(value) >= 5e-5 or not value else f"{value:.1e}"
