"""A table as Markdown, CSV, LaTeX (booktabs; best bold, second underlined) or HTML."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader

from leporid.errors import UnknownNameError
from leporid.paper.tables import PaperTable, TableRow, Value

__all__ = ["FORMATS", "fill_template", "render"]


def render(table: PaperTable, form: str) -> str:
    """The table as text; `form` is one of `FORMATS`."""
    if form not in FORMATS:
        raise UnknownNameError("format", form, FORMATS)
    return FORMATS[form](table)


def fill_template(name: str, **values: Any) -> str:
    """A page or a part of one from `templates/`; text in `values` is escaped."""
    return _environment().get_template(name).render(**values)


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("leporid.paper"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )


def _cells(table: PaperTable) -> Iterator[tuple[TableRow, list[tuple[Value, int]]]]:
    """Every row with its values and their places in its group: 0 best, 1 second, 2 the rest."""
    places: dict[tuple[int, str], int] = {}
    groups = {row.key[0] for row in table.rows} if table.name == "table2" else {None}
    for metric in table.metrics:
        for group in groups:
            for place, number in enumerate(table.ranked(metric, group)[:2]):
                places[number, metric] = place
    for number, row in enumerate(table.rows):
        yield row, [(row.values[m], places.get((number, m), 2)) for m in table.metrics]


def _header(table: PaperTable, *beside: str) -> list[str]:
    """The names of the columns; `beside` follow each metric where the paper has a value."""
    more = beside if table.compared else ()
    return [*table.key_columns, *(name for metric in table.metrics for name in (metric, *more))]


def _number(value: float | None, form: str = ".4f", missing: str = "-") -> str:
    return missing if value is None else f"{value:{form}}"


def _markdown(table: PaperTable) -> str:
    header = _header(table, "paper", "diff")
    keys = len(table.key_columns)
    lines = [f"### {table.title} ({table.dataset})", "", "| " + " | ".join(header) + " |"]
    lines.append("|" + "---|" * keys + "---:|" * (len(header) - keys))
    for row, values in _cells(table):
        cells = list(row.key)
        for value, place in values:
            spread = f" ± {value.deviation:.4f}" if value.deviation is not None else ""
            mark = ("**", "_", "")[place]
            cells.append(f"{mark}{_number(value.ours)}{spread}{mark}")
            if table.compared:
                cells += [_number(value.paper), _number(value.difference, "+.4f")]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "Best in bold, second in italics; ± is the standard deviation over seeds."]
    return "\n".join([*lines, *table.notes]) + "\n"


def _csv(table: PaperTable) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    columns = ["ours", "deviation", "seeds", "paper", "difference"]
    writer.writerow([*table.key_columns, "metric", *columns])
    for row in table.rows:
        for metric in table.metrics:
            cells = (getattr(row.values[metric], column) for column in columns)
            writer.writerow([*row.key, metric, *("" if c is None else c for c in cells)])
    return out.getvalue()


def _latex(table: PaperTable) -> str:
    columns = "l" * len(table.key_columns) + ("rr" if table.compared else "r") * len(table.metrics)
    lines = [r"\begin{table}", r"\centering", rf"\caption{{{_tex(table.title)}}}"]
    lines += [rf"\begin{{tabular}}{{{columns}}}", r"\toprule"]
    lines += [" & ".join(_tex(name) for name in _header(table, "paper")) + r" \\", r"\midrule"]
    for row, values in _cells(table):
        cells = [_tex(part) for part in row.key]
        for value, place in values:
            text = _number(value.ours, missing="--")
            cells.append((rf"\textbf{{{text}}}", rf"\underline{{{text}}}", text)[place])
            if table.compared:
                cells.append(_number(value.paper, missing="--"))
        lines.append(" & ".join(cells) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def _tex(text: str) -> str:
    return re.sub(r"([_%&#])", r"\\\1", text)


def _html(table: PaperTable) -> str:
    header = _header(table, "paper", "diff")[len(table.key_columns) :]
    return fill_template(
        "paper_table.html", table=table, header=header, rows=_cells(table), number=_number
    )


FORMATS: dict[str, Callable[[PaperTable], str]] = {
    "markdown": _markdown,
    "csv": _csv,
    "latex": _latex,
    "html": _html,
}
