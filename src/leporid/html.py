"""HTML pages: templates, charts as SVG, sortable tables, whole reports."""

import html
import math
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from leporid.artifacts import atomic_path
from leporid.machine import versions


def fill_template(
    package: str,
    name: str,
    filters: Mapping[str, Callable[..., str]] | None = None,
    **values: Any,
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
    log: bool = False,
    named: Any = (),
) -> str:
    """Lines and points over the whole width; `log` is for x, `named` labels are written out."""
    every = [point for one in series for point in one.points]
    if not every:
        return ""
    axes = {"x": _axis([x for x, _ in every], log), "y": _axis([y for _, y in every])}
    about: dict[str, Any] = {
        "caption": caption,
        "x_name": x_name,
        "named": named,
        **axes,
    }
    return fill_template(
        "leporid", "figures.html", part="chart", series=series, **about
    )


def bars_html(
    values: Mapping[str, float],
    caption: str,
    intervals: Any = None,
    of_100: bool = False,
) -> str:
    """A bar for each name, the first one in colour; its end is the largest value, or 100."""
    about: dict[str, Any] = {
        "intervals": intervals or {},
        "caption": caption,
        "of_100": of_100,
    }
    return fill_template("leporid", "figures.html", part="bars", values=values, **about)


def _axis(
    values: Sequence[float], log: bool = False
) -> tuple[Callable[[float], float], list[tuple[float, str]]]:
    """Where a value stands, in percent of an axis that begins and ends at round numbers; ticks."""
    scaled = [math.log10(value) if log else value for value in values]
    low, high = min(scaled), max(scaled)
    # About four steps of 1, 2 or 5 times a power of ten; on a logarithmic axis powers of ten.
    rough = (high - low or abs(high) or 1.0) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = 1 if log else power * next(f for f in (1, 2, 5, 10) if f * power >= rough)
    first = math.floor(round(low / step, 6))
    count = max(1, math.ceil(round(high / step, 6)) - first)

    def place(value: float) -> float:
        return round(
            100 * ((math.log10(value) if log else value) / step - first) / count, 2
        )

    marks = [(first + i) * step for i in range(count + 1)]
    return place, [
        (place(m), f"{m:.6g}") for m in ((10.0**m if log else m) for m in marks)
    ]


def rows_html(rows: Sequence[Mapping[str, Any]], caption: str) -> str:
    """Any list of dictionaries as a sortable table; columns of words are set left."""
    if not rows:
        return ""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    words = {
        key for key in columns if all(isinstance(row.get(key, ""), str) for row in rows)
    }
    values: dict[str, Any] = {
        "rows": rows,
        "columns": columns,
        "caption": caption,
        "words": words,
    }
    return fill_template("leporid", "rows.html", **values)


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
    rows = [
        {"package": name, "version": version} for name, version in versions().items()
    ]
    environment = ("Environment", folded_html(rows, "What the report was made with"))
    shown = [section for section in (*sections, environment) if section[1]]
    values: dict[str, Any] = {
        "title": title,
        "summary": summary.splitlines(),
        "sections": shown,
    }
    with atomic_path(path) as target:
        target.write_text(
            fill_template("leporid", "report.html", **values), encoding="utf-8"
        )
    return Path(path)
