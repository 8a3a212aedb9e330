"""The race as one HTML page: the answer, a picture over time, the table, strata, commands."""

from __future__ import annotations

import html
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leporid.errors import MissingExtraError
from leporid.html import figure_html, new_figure, rows_html, write_report
from leporid.selection.finalise import Closing
from leporid.selection.search import FULL

_PICTURE_SECONDS = 0.5


def write_page(
    path: Path,
    closing: Closing,
    why: str,
    table: Sequence[dict[str, Any]],
    commands: Sequence[str],
    facts: dict[str, Any],
) -> Path:
    """Write the page; returns its path."""
    metric = closing.metric
    shown = "\n".join(html.escape(line) for line in commands)
    about = [{"fact": name, "value": _short(value)} for name, value in facts.items()]
    sections = [
        ("The race", _picture(closing)),
        ("", rows_html(table, f"Candidates by {metric} on the rehearsal")),
        ("On test", _tested(closing)),
        ("The log", rows_html(about, "What ordered the candidates")),
        ("The same again", f"<pre>{shown}</pre>"),
    ]
    return write_report(path, "leporid choose", sections, why)


def _tested(closing: Closing) -> str:
    metric = closing.metric
    strata = list(dict.fromkeys(name for t in closing.tested for name in t.strata))
    rows = [
        {
            "model": tested.label,
            metric: tested.metrics[metric],
            "HR@10": tested.metrics["HR@10"],
            **{name: tested.strata.get(name, 0.0) for name in strata},
            "seconds": round(tested.seconds, 2),
        }
        for tested in closing.tested
    ]
    words = f"Read once, after the choice; the strata are {metric} of tail and of new users"
    return rows_html(rows, words) if rows else ""


def _picture(closing: Closing) -> str:
    """Value over time, one line per candidate."""
    loaded = closing.is_complete and "matplotlib.figure" in sys.modules
    if not loaded or closing.race.timer.left < _PICTURE_SECONDS:
        return "<p>There was no time to draw the race.</p>"
    try:
        figure, axes = new_figure(7.2, 4.0)
    except MissingExtraError as error:
        return f"<p>{html.escape(str(error))}</p>"
    lines: dict[str, list[Any]] = {}
    for result in closing.race.results.values():
        lines.setdefault(result.candidate.key, []).append(result)
    best = sorted(lines.values(), key=lambda rs: -max(r.value for r in rs if r))[:8]
    for results in lines.values():
        points = sorted((r.at, r.value) for r in results)
        named = results in best and results[-1].rung == FULL
        axes.plot(
            [at for at, _ in points],
            [value for _, value in points],
            "o-",
            color=None if named else "0.6",
            label=results[-1].candidate.label if named else None,
            zorder=2 if named else 1,
        )
    axes.set(xlabel="seconds", ylabel=closing.metric)
    axes.grid(visible=True, alpha=0.3)
    if any(results[-1].rung == FULL for results in best):
        axes.legend(fontsize="x-small", frameon=False)
    return figure_html(figure, "Every point is one evaluation on the rehearsal")


def _short(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else f"{value:,}"
