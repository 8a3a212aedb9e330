"""The files that describe an answer: chosen.json, and one HTML page."""

from __future__ import annotations

import html
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leporid.artifacts import write_json
from leporid.errors import MissingExtraError
from leporid.html import figure_html, new_figure, rows_html, write_report
from leporid.selection.answer import SUMMARY, FinalModel, Session, Tested
from leporid.selection.search import Search
from leporid.selection.summary import commands, explain, search_table
from leporid.selection.trial import FULL, Result

_STRATA = ("tail-users", "cold-users")
_FIGURE_SECONDS = 0.5


def describe(session: Session, final: FinalModel, folder: Path) -> dict[str, Any]:
    """Write the report and the summary of what was fitted; the parts of a `Choice`."""
    metric, timer = session.evaluator.metric, session.search.timer
    elapsed = timer.elapsed
    parts: dict[str, Any] = {
        "winner": final.label,
        "metric": metric,
        "why": explain(session, final, elapsed),
        "table": search_table(session.search),
        "tested": [_tested(tested, metric) for tested in final.tested],
        "commands": commands(session, final),
        "elapsed": elapsed,
    }
    about = {"key": final.key, "value": final.value, "budget": timer.budget}
    has_time = final.is_complete and timer.left >= _FIGURE_SECONDS
    figure = _figure(session.search) if has_time else ""
    write_page(folder / "report.html", parts, final.tested, session.facts, figure)
    write_json(folder / SUMMARY, {**parts, **about, "complete": final.is_complete})
    return parts


def _tested(tested: Tested, metric: str) -> dict[str, Any]:
    means, found = tested.table.mean(), tested.comparison
    return {
        "model": tested.label,
        metric: means[metric],
        **{name: value for name, value in means.items() if name != metric},
        "strata": _strata(tested, metric),
        "chosen minus this": None if found is None else [found.low, found.high],
    }


def _strata(tested: Tested, metric: str) -> dict[str, float]:
    """The metric of tail and of new users."""
    table = tested.table
    return {name: table.mean(stratum=name)[metric] for name in _STRATA if table.has_users(name)}


def write_page(
    path: Path,
    parts: Mapping[str, Any],
    tested: Sequence[Tested],
    facts: Mapping[str, Any],
    figure: str,
) -> Path:
    """Write the page; returns its path."""
    metric = parts["metric"]
    rows = [
        {
            "model": each.label,
            metric: each.table.mean()[metric],
            "HR@10": each.table.mean()["HR@10"],
            **_strata(each, metric),
            "seconds": round(each.seconds, 2),
        }
        for each in tested
    ]
    caption = f"Read once, after the choice; the strata are {metric} of tail and of new users"
    about = [{"property": name, "value": _short(value)} for name, value in facts.items()]
    shown = "\n".join(html.escape(line) for line in parts["commands"])
    table = rows_html(parts["table"], f"Candidates by {metric} on the inner validation split")
    sections = [
        ("The search", figure or "<p>There was no time to draw the search.</p>"),
        ("", table),
        ("On test", rows_html(rows, caption) if rows else ""),
        ("The log", rows_html(about, "These properties order the candidates")),
        ("The same again", f"<pre>{shown}</pre>"),
    ]
    return write_report(path, "leporid choose", sections, parts["why"])


def _figure(search: Search) -> str:
    """Value over time, one line per candidate."""
    if "matplotlib.figure" not in sys.modules:  # loading it takes seconds
        return ""
    try:
        figure, axes = new_figure(7.2, 4.0)
    except MissingExtraError as error:
        return f"<p>{html.escape(str(error))}</p>"
    lines: dict[str, list[Result]] = {}
    for result in search.results.values():
        lines.setdefault(result.candidate.key, []).append(result)
    best = sorted(lines.values(), key=lambda own: -max(r.value for r in own))[:8]
    for results in lines.values():
        points = sorted((result.at, result.value) for result in results)
        named = results in best and results[-1].rung == FULL
        axes.plot(
            [at for at, _ in points],
            [value for _, value in points],
            "o-",
            color=None if named else "0.6",
            label=results[-1].candidate.label if named else None,
            zorder=2 if named else 1,
        )
    axes.set(xlabel="seconds", ylabel=search.evaluator.metric)
    axes.grid(visible=True, alpha=0.3)
    if any(results[-1].rung == FULL for results in best):
        axes.legend(fontsize="x-small", frameon=False)
    return figure_html(figure, "Each point is one trial on the inner validation split")


def _short(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else f"{value:,}"
