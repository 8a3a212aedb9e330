"""What the rooms that write pages share: a template filled in, a figure, its SVG.

Jinja2 and matplotlib are imported when they are used; matplotlib comes with the extra `plots`.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from importlib import resources
from typing import Any

from leporid.errors import import_extra


def fill_template(
    room: str, name: str, filters: Mapping[str, Callable[..., str]] | None = None, **values: Any
) -> str:
    """The Jinja2 template `name` in the folder of the package `room`; HTML escapes values."""
    from jinja2 import Environment, StrictUndefined

    pages = Environment(
        autoescape=name.endswith(".html"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    pages.filters |= filters or {}
    text = resources.files(room).joinpath(name).read_text("utf-8")
    return pages.from_string(text).render(values)


def new_figure(width: float, height: float, columns: int = 1) -> tuple[Any, Any]:
    """A matplotlib figure of that size in inches, and its axes (an array of several)."""
    drawing = import_extra("matplotlib.figure", "drawing figures", "plots")
    figure = drawing.Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(1, columns)


def to_svg(figure: Any) -> str:
    """The figure as an `<svg>` element; equal figures give equal text.

    It has no background, and what matplotlib draws in black takes the colour of the text around
    it, so that a dark page shows it as well.
    """
    import matplotlib as mpl

    buffer = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "leporid"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
    text = buffer.getvalue().replace("#000000", "currentColor")
    # Black letters have no colour of their own: they inherit this one.
    return '<svg fill="currentColor"' + text[text.index("<svg") + len("<svg") :]
