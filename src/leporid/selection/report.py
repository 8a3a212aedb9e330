"""The files that describe an answer: chosen.json, and one HTML page."""

from __future__ import annotations

import html
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leporid.artifacts import write_json
from leporid.html import figure_html, new_figure, rows_html, write_report
from leporid.selection.answer import SUMMARY, FinalModel, Session
from leporid.selection.search import Search
from leporid.selection.summary import commands, explain, search_table

_FIGURE_SECONDS = 0.5


def describe(session: Session, final: FinalModel, folder: Path) -> dict[str, Any]:
    """Write the report and the summary of what was fitted; the parts of a `Choice`."""
    search, timer = session.search, session.search.timer
    elapsed = timer.elapsed
    parts: dict[str, Any] = {
        "winner": final.label,
        "metric": session.evaluator.metric,
        "why": explain(session, final, elapsed),
        "table": search_table(search),
        "tested": final.tested,
        "commands": commands(session, final),
        "elapsed": elapsed,
    }
    about = {"key": final.key, "value": final.value, "budget": timer.budget}
    # Loading matplotlib takes seconds: `choose` does so where there is time.
    is_loaded = "matplotlib.figure" in sys.modules
    has_time = is_loaded and timer.left >= _FIGURE_SECONDS
    figure = _figure(search) if has_time and search.results else ""
    write_page(folder / "report.html", parts, figure)
    write_json(folder / SUMMARY, {**parts, **about})
    return parts


def write_page(path: Path, parts: Mapping[str, Any], figure: str) -> None:
    """Write the page: the search over time, its table, the test and the commands."""
    metric = parts["metric"]
    tested = [{name: row[name] for name in ("model", metric)} for row in parts["tested"]]
    shown = "\n".join(html.escape(line) for line in parts["commands"])
    table = rows_html(parts["table"], f"Candidates by {metric} on the inner validation split")
    sections = [
        ("The search", figure or "<p>There was no time to draw the search.</p>"),
        ("", table),
        ("On test", rows_html(tested, "Read once, after the choice") if tested else ""),
        ("The same again", f"<pre>{shown}</pre>"),
    ]
    write_report(path, "leporid choose", sections, parts["why"])


def _figure(search: Search) -> str:
    """Value over time, one line per candidate."""
    figure, axes = new_figure(7.2, 4.0)
    lines: dict[str, list[tuple[float, float]]] = {}
    for result in search.results.values():
        lines.setdefault(result.candidate.label, []).append((result.at, result.value))
    best = sorted(lines, key=lambda label: -lines[label][-1][1])[:8]
    for label, points in lines.items():
        how = {"label": label} if label in best else {"color": "0.6"}
        axes.plot(*zip(*sorted(points), strict=True), "o-", **how)
    axes.set(xlabel="seconds", ylabel=search.evaluator.metric)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize="x-small", frameon=False)
    return figure_html(figure, "Each point is one trial on the inner validation split")
