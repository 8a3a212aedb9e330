"""A table as Markdown, CSV, LaTeX (booktabs; best bold, second underlined) or HTML."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, select_autoescape

from leporid.errors import UnknownNameError
from leporid.paper.tables import PaperTable, TableRow, Value

FORMATS = {"markdown": "md", "csv": "csv", "latex": "tex", "html": "html"}
"""How a table can be written, and the suffix of such a file."""


def render(table: PaperTable, form: str) -> str:
    """The table as text; `form` is one of `FORMATS`."""
    if form not in FORMATS:
        raise UnknownNameError("format", form, FORMATS)
    if form == "csv":
        return _csv(table)
    return fill_template(f"paper_table.{FORMATS[form]}", table=table, rows=_rows(table))


def fill_template(name: str, **values: Any) -> str:
    """A file of `templates/`, filled; in HTML text is escaped."""
    return _environment().get_template(name).render(**values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("leporid.paper"),
        autoescape=select_autoescape(["html"]),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["number"] = _number
    environment.filters["tex"] = lambda text: re.sub(r"([_%&#])", r"\\\1", text)
    return environment


def _number(value: float | None, form: str = ".4f", missing: str = "-") -> str:
    return missing if value is None else f"{value:{form}}"


def _rows(table: PaperTable) -> Iterator[tuple[TableRow, list[tuple[Value, int]]]]:
    """Every row with its values and their places in its group: 0 best, 1 second, 2 the rest."""
    places: dict[tuple[int, str], int] = {}
    groups = {row.key[0] for row in table.rows} if table.name == "table2" else {None}
    for metric in table.metrics:
        for group in groups:
            for place, number in enumerate(table.ranked(metric, group)[:2]):
                places[number, metric] = place
    for number, row in enumerate(table.rows):
        yield row, [(row.values[m], places.get((number, m), 2)) for m in table.metrics]


def _csv(table: PaperTable) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    columns = ["ours", "deviation", "seeds", "paper", "difference"]
    writer.writerow([*table.key_columns, "has seen", "metric", *columns])
    for row in table.rows:
        for metric in table.metrics:
            cells = (getattr(row.values[metric], column) for column in columns)
            writer.writerow([*row.key, row.seen, metric, *("" if c is None else c for c in cells)])
    return out.getvalue()
