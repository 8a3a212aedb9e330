"""HTML pages and figures: templates, matplotlib figures as SVG, sortable tables, whole reports."""

from __future__ import annotations

import html
import io
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from leporid._version import versions
from leporid.artifacts import atomic_path
from leporid.errors import import_extra


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


def new_figure(width: float, height: float, columns: int = 1) -> tuple[Any, Any]:
    """A matplotlib figure of that size in inches, and its axes (an array of several)."""
    drawing = import_extra("matplotlib.figure", "drawing figures", "plots")
    figure = drawing.Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(1, columns)


def draw_bars(
    labels: Sequence[str],
    values: Sequence[float],
    intervals: Sequence[tuple[float, float] | None],
    name: str,
) -> Any:
    """Horizontal bars with confidence intervals."""
    figure, axis = new_figure(6.4, 0.5 + 0.3 * len(labels))
    axis.barh(range(len(labels)), values, color="tab:blue", alpha=0.75)
    for row, interval in enumerate(intervals):
        if interval is not None:
            axis.plot(interval, [row, row], color="black", linewidth=1.2)
            axis.plot([values[row]], [row], marker="|", color="black")
    axis.set_yticks(range(len(labels)), labels)
    axis.set_ylim(len(labels) - 0.4, -0.6)
    axis.set_xlabel(name)
    axis.grid(visible=True, axis="x", alpha=0.3)
    return figure


def to_svg(figure: Any) -> str:
    """The figure as an `<svg>` element in the colour of the text; equal figures give equal text."""
    import matplotlib as mpl

    buffer = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "leporid"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
    text = buffer.getvalue().replace("#000000", "currentColor")
    # Black letters have no colour of their own: they inherit this one.
    return '<svg fill="currentColor"' + text[text.index("<svg") + len("<svg") :]


def figure_html(figure: Any, caption: str) -> str:
    """A matplotlib figure inside the page, with its caption."""
    return f"<figure>{to_svg(figure)}<figcaption>{html.escape(caption)}</figcaption></figure>"


def rows_html(rows: Sequence[Mapping[str, Any]], caption: str) -> str:
    """Any list of dictionaries as a sortable table; columns of words are set left."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    words = {key for key in columns if all(isinstance(row.get(key, ""), str) for row in rows)}
    values: dict[str, Any] = {"rows": rows, "columns": columns, "caption": caption, "words": words}
    return fill_template("leporid", "rows.html", shown=_shown, sort_key=_sort_key, **values)


def write_report(
    path: str | Path, title: str, sections: Sequence[tuple[str, str]], summary: str
) -> Path:
    """Write one self-contained page atomically.

    `summary` is plain text, a paragraph per line, and comes first. A section is a heading and
    its HTML; one without a heading continues the one before, one without HTML is left out.
    """
    rows = [{"package": name, "version": version} for name, version in versions().items()]
    environment = ("Environment", rows_html(rows, "The report was made with"))
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
    if key == "seconds":
        return f"{value:,.1f}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.4f}" if abs(value) >= 5e-5 or not value else f"{value:.1e}"
