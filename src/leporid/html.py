"""HTML pages: templates, charts as SVG, sortable tables, whole reports."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from leporid._version import versions
from leporid.artifacts import atomic_path


def fill_template(
    package: str, name: str, filters: Mapping[str, Callable[..., str]] | None = None, **values: Any
) -> str:
    """The Jinja2 template `templates/<name>` of a package; HTML escapes values."""
    from jinja2 import Environment, StrictUndefined

    pages = Environment(
        autoescape=name.endswith(".html"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    pages.filters |= filters or {}
    text = resources.files(package).joinpath("templates", name).read_text("utf-8")
    return pages.from_string(text).render(values)


class Series(NamedTuple):
    """What a chart shows in one colour."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: int
    """A class of the template: f0 is grey."""
    labels: Sequence[str] = ()
    """Of the points; without them a line joins the points."""


def chart_html(
    series: Sequence[Series],
    x_name: str,
    caption: str,
    *,
    log: bool = False,
    named: Sequence[str] = (),
) -> str:
    """Lines and points over the whole width; `log` is for x, `named` labels are written out."""
    every = [point for one in series for point in one.points]
    if not every:
        return ""
    x, x_ticks = _axis([point[0] for point in every], log=log)
    y, y_ticks = _axis([point[1] for point in every])
    axes = {"x": x, "x_ticks": x_ticks, "x_name": x_name, "y": y, "y_ticks": y_ticks}
    about: dict[str, Any] = {"caption": caption, "series": series, "named": named, **axes}
    return fill_template("leporid", "figures.html", part="chart", **about)


def bars_html(
    values: Mapping[str, float],
    caption: str,
    intervals: Mapping[str, Sequence[float]] | None = None,
    *,
    full: float | None = None,
) -> str:
    """A bar for each name, the first one in colour; the width is `full`, or else the largest."""
    intervals = intervals or {}
    most = full or max([*values.values(), *(end for ends in intervals.values() for end in ends)])
    about: dict[str, Any] = {"caption": caption, "values": values, "intervals": intervals}
    shown = "{:.0f}" if full == 100 else "{:.4f}"
    return fill_template(
        "leporid", "figures.html", part="bars", scale=100 / (most or 1), shown=shown, **about
    )


def _axis(
    values: Sequence[float], *, log: bool = False
) -> tuple[Callable[[float], float], list[tuple[float, str]]]:
    """Where a value stands, in percent of an axis that begins and ends at round numbers."""
    scaled = [math.log10(value) if log else value for value in values]
    low, high = min(scaled), max(scaled)
    # About four steps of 1, 2 or 5 times a power of ten; on a logarithmic axis powers of ten.
    rough = (high - low or abs(high) or 1.0) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = 1 if log else power * next(f for f in (1, 2, 5, 10) if f * power >= rough)
    first = math.floor(round(low / step, 6))
    count = max(1, math.ceil(round(high / step, 6)) - first)

    def place(value: float) -> float:
        return round(100 * ((math.log10(value) if log else value) / step - first) / count, 2)

    marks = [(first + i) * step for i in range(count + 1)]
    return place, [(place(m), f"{m:.6g}") for m in ((10.0**m if log else m) for m in marks)]


def rows_html(rows: Sequence[Mapping[str, Any]], caption: str) -> str:
    """Any list of dictionaries as a sortable table; columns of words are set left."""
    if not rows:
        return ""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    words = {key for key in columns if all(isinstance(row.get(key, ""), str) for row in rows)}
    values: dict[str, Any] = {"rows": rows, "columns": columns, "caption": caption, "words": words}
    return fill_template("leporid", "rows.html", shown=_shown, sort_key=_sort_key, **values)


def folded_html(rows: Sequence[Mapping[str, Any]], caption: str) -> str:
    """The same behind a line that opens it."""
    return f"<details><summary>{html.escape(caption)}</summary>{rows_html(rows, '')}</details>"


def write_report(
    path: str | Path, title: str, sections: Sequence[tuple[str, str]], summary: str
) -> Path:
    """Write one self-contained page atomically.

    `summary` is plain text, a paragraph per line, and comes first. A section is a heading and
    its HTML; one without a heading continues the one before, one without HTML is left out.
    """
    rows = [{"package": name, "version": version} for name, version in versions().items()]
    environment = ("Environment", folded_html(rows, "What the report was made with"))
    shown = [section for section in (*sections, environment) if section[1]]
    values: dict[str, Any] = {"title": title, "summary": summary.splitlines(), "sections": shown}
    with atomic_path(path) as target:
        target.write_text(fill_template("leporid", "report.html", **values), encoding="utf-8")
    return Path(path)


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
    if key in ("seconds", "ms per request"):
        return f"{value:,.1f}" if value >= 1 else f"{value:.2f}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.4f}" if abs(value) >= 5e-5 or not value else f"{value:.1e}"
