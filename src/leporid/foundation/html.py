"""HTML pages: templates, charts as SVG, sortable tables, whole reports."""

import html
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from leporid.foundation.artifacts import atomic_path
from leporid.foundation.machine import versions


def fill_template(
    package: str,
    name: str,
    filters: Mapping[str, Callable[..., str]] | None = None,
    **values: object,
) -> str:
    """Fill the Jinja2 template `templates/<name>` of a package; HTML escapes values."""
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


Tone: TypeAlias = Literal["good", "bad", ""]
"""Whether a headline is good news, bad news, or neither."""


class Series(NamedTuple):
    """What a chart shows in one colour."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: int
    """A class of the template: f0 is grey."""
    labels: Sequence[str] = ()
    """A label for each point; without them a line joins the points."""


class _Axis(NamedTuple):
    """An axis that begins and ends at round numbers."""

    place: Callable[[float], float]
    """Where a value stands, in percent of the axis."""
    ticks: list[tuple[float, str]]
    """The place and the label of each tick."""


def chart_html(
    series: Sequence[Series],
    x_name: str,
    caption: str,
    log: bool = False,
    named: Collection[str] = (),
) -> str:
    """Draw lines and points over the whole width.

    `log` is for x. Of the labels, those in `named` are written beside their points.
    """
    points = [point for each in series for point in each.points]
    if not points:
        return ""
    return fill_template(
        "leporid",
        "figures.html",
        part="chart",
        series=series,
        caption=caption,
        x_name=x_name,
        named=named,
        x=_axis([x for x, _ in points], log),
        y=_axis([y for _, y in points]),
    )


def charts_html(curves: Sequence[Series], x_name: str) -> str:
    """Draw a chart of each curve, beside each other; empty if no curve has a point."""
    charts = "".join(chart_html([curve], x_name, curve.name) for curve in curves)
    return f"<div class='charts'>{charts}</div>" if charts else ""


def bars_html(
    values: Mapping[str, float],
    caption: str,
    intervals: Mapping[str, Sequence[float]] | None = None,
    percent: bool = False,
) -> str:
    """Draw a bar for each name, the largest value first; the name given first is in colour.

    With `percent` the values are shares, shown in percent on bars of up to 100.
    """
    coloured = next(iter(values), None)
    values = dict(sorted(values.items(), key=lambda pair: -pair[1]))
    if percent:
        values = {name: 100 * value for name, value in values.items()}
    return fill_template(
        "leporid",
        "figures.html",
        part="bars",
        values=values,
        coloured=coloured,
        intervals=intervals or {},
        caption=caption,
        percent=percent,
    )


def _axis(values: Sequence[float], log: bool = False) -> _Axis:
    """Return an axis that holds all values."""
    scaled = [math.log10(value) if log else value for value in values]
    low = min(scaled)
    high = max(scaled)
    # About four steps of 1, 2 or 5 times a power of ten; on a logarithmic axis powers of ten.
    rough = (high - low or abs(high) or 1.0) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = 1 if log else power * next(f for f in (1, 2, 5, 10) if f * power >= rough)
    first = math.floor(round(low / step, 6))
    count = max(1, math.ceil(round(high / step, 6)) - first)

    def place(value: float) -> float:
        position = math.log10(value) if log else value
        return round(100 * (position / step - first) / count, 2)

    ticks = []
    for number in range(first, first + count + 1):
        value = 10.0 ** (number * step) if log else number * step
        ticks.append((place(value), f"{value:.6g}"))
    return _Axis(place, ticks)


def rows_html(rows: Sequence[Mapping[str, object]], caption: str) -> str:
    """Show dictionaries as the rows of a sortable table; columns of words are set left."""
    if not rows:
        return ""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    words = {
        key for key in columns if all(isinstance(row.get(key, ""), str) for row in rows)
    }
    return fill_template(
        "leporid",
        "rows.html",
        rows=rows,
        columns=columns,
        caption=caption,
        words=words,
    )


def folded_html(rows: Sequence[Mapping[str, object]], caption: str) -> str:
    """Show dictionaries as the rows of a table, behind a line that opens it."""
    return f"<details><summary>{html.escape(caption)}</summary>{rows_html(rows, '')}</details>"


def write_report(
    path: str | Path,
    title: str,
    sections: Sequence[tuple[str, str]],
    summary: str,
    tone: Tone = "",
) -> Path:
    """Write one self-contained page atomically.

    `summary` is plain text, a paragraph per line, and comes first; `tone` colours its first line.
    A section is a heading and its HTML; one without a heading continues the one before, one
    without HTML is left out.
    """
    rows = [
        {"package": name, "version": version} for name, version in versions().items()
    ]
    environment = ("Environment", folded_html(rows, "What the report was made with"))
    page = fill_template(
        "leporid",
        "report.html",
        title=title,
        summary=summary.splitlines(),
        tone=tone,
        sections=[section for section in (*sections, environment) if section[1]],
    )
    with atomic_path(path) as target:
        target.write_text(page, encoding="utf-8")
    return Path(path)
