"""A table as Markdown, CSV, LaTeX (booktabs; best bold, second underlined) or HTML."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator

from leporid.errors import UnknownNameError
from leporid.foundation import fill_template
from reproduction.tables import PaperTable, TableRow, Value

FORMATS = {"markdown": "md", "csv": "csv", "latex": "tex", "html": "html"}
"""The formats of a table, and the suffix of its file."""


def render(table: PaperTable, form: str) -> str:
    """The table as text; `form` is one of `FORMATS`."""
    if form not in FORMATS:
        raise UnknownNameError("format", form, FORMATS)
    if form == "csv":
        return _csv(table)
    name = f"paper_table.{FORMATS[form]}"
    filters = {"number": _number, "tex": lambda text: re.sub(r"([_%&#])", r"\\\1", text)}
    return fill_template("reproduction", name, filters, table=table, rows=_rows(table))


def _number(value: float | None, form: str = ".4f", missing: str = "-") -> str:
    return missing if value is None else f"{value:{form}}"


def _rows(table: PaperTable) -> Iterator[tuple[TableRow, list[tuple[Value, int]]]]:
    """Every row with its values and their ranks in its group: 0 best, 1 second, 2 the rest."""
    ranks: dict[tuple[int, str], int] = {}
    groups = {row.key[0] for row in table.rows} if table.name == "table3" else {None}
    for metric in table.metrics:
        for group in groups:
            numbers = table.ranked(metric, group)
            values = [round(table.rows[number].values[metric].ours or 0, 12) for number in numbers]
            best = list(dict.fromkeys(values))[:2]
            for number, value in zip(numbers, values, strict=True):
                if value in best:
                    ranks[number, metric] = best.index(value)
    for number, row in enumerate(table.rows):
        yield row, [(row.values[m], ranks.get((number, m), 2)) for m in table.metrics]


def _csv(table: PaperTable) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    columns = ["ours", "deviation", "seeds", "paper", "difference"]
    writer.writerow([*table.key_columns, "history", "metric", *columns])
    for row in table.rows:
        for metric in table.metrics:
            cells = (getattr(row.values[metric], column) for column in columns)
            writer.writerow(
                [*row.key, row.history, metric, *("" if c is None else c for c in cells)]
            )
    return out.getvalue()
