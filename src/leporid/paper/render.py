"""A table as Markdown, CSV, LaTeX (booktabs; best bold, second underlined) or HTML."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Callable

from leporid.errors import UnknownNameError
from leporid.paper.tables import PaperTable, TableRow, Value

__all__ = ["FORMATS", "render"]


def render(table: PaperTable, form: str) -> str:
    """The table as text; `form` is one of `FORMATS`."""
    if form not in FORMATS:
        raise UnknownNameError("format", form, FORMATS)
    return FORMATS[form](table)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.4f}"


def _ours(value: Value) -> str:
    if value.ours is None:
        return "-"
    spread = f" ± {value.deviation:.4f}" if value.deviation is not None else ""
    return f"{value.ours:.4f}{spread}"


def _places(table: PaperTable) -> dict[tuple[int, str], int]:
    """(row, metric) -> 0 for the best and 1 for the second of its group."""
    found = {}
    groups = {row.key[0] for row in table.rows} if table.name == "table2" else {None}
    for metric in table.metrics:
        for group in groups:
            for place, row in enumerate(table.ranked(metric, group)[:2]):
                found[row, metric] = place
    return found


def _markdown(table: PaperTable) -> str:
    places = _places(table)
    header = [*table.key_columns]
    for metric in table.metrics:
        header += [metric, "paper", "diff"] if table.compared else [metric]
    lines = [f"### {table.title} ({table.dataset})", ""]
    lines += ["| " + " | ".join(header) + " |"]
    lines += [
        "|" + "---|" * len(table.key_columns) + "---:|" * (len(header) - len(table.key_columns))
    ]
    for number, row in enumerate(table.rows):
        cells = list(row.key)
        for metric in table.metrics:
            value = row.values[metric]
            mark = {0: "**", 1: "_"}.get(places.get((number, metric), 2), "")
            text = f"{mark}{_ours(value)}{mark}" if value.ours is not None else "-"
            cells.append(text)
            if table.compared:
                cells += [_number(value.paper), _signed(value.difference)]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "Best in bold, second in italics; ± is the standard deviation over seeds."]
    lines += [f"{note}" for note in table.notes]
    return "\n".join(lines) + "\n"


def _csv(table: PaperTable) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    header = [*table.key_columns, "metric", "ours", "deviation", "seeds", "paper", "difference"]
    writer.writerow(header)
    for row in table.rows:
        for metric in table.metrics:
            value = row.values[metric]
            cells = [value.ours, value.deviation, value.seeds, value.paper, value.difference]
            writer.writerow([*row.key, metric, *("" if c is None else c for c in cells)])
    return out.getvalue()


def _latex(table: PaperTable) -> str:
    places = _places(table)
    columns = "l" * len(table.key_columns) + ("rr" if table.compared else "r") * len(table.metrics)
    lines = [r"\begin{table}", r"\centering", rf"\caption{{{_tex(table.title)}}}"]
    lines += [rf"\begin{{tabular}}{{{columns}}}", r"\toprule"]
    header = [_tex(c) for c in table.key_columns]
    for metric in table.metrics:
        header += [_tex(metric), "paper"] if table.compared else [_tex(metric)]
    lines += [" & ".join(header) + r" \\", r"\midrule"]
    for number, row in enumerate(table.rows):
        cells = [_tex(part) for part in row.key]
        for metric in table.metrics:
            value = row.values[metric]
            text = "--" if value.ours is None else f"{value.ours:.4f}"
            place = places.get((number, metric))
            if place == 0:
                text = rf"\textbf{{{text}}}"
            elif place == 1:
                text = rf"\underline{{{text}}}"
            cells.append(text)
            if table.compared:
                cells.append("--" if value.paper is None else f"{value.paper:.4f}")
        lines.append(" & ".join(cells) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}", r"\end{table}"]
    return "\n".join(lines) + "\n"


def _html(table: PaperTable) -> str:
    places = _places(table)
    head = "".join(
        f"<th scope='col' class='words'>{html.escape(c)}</th>" for c in table.key_columns
    )
    for metric in table.metrics:
        head += f"<th scope='col'>{metric}</th>"
        if table.compared:
            head += "<th scope='col'>paper</th><th scope='col'>diff</th>"
    body = "".join(_html_row(table, number, row, places) for number, row in enumerate(table.rows))
    notes = "".join(f"<p class='note'>{html.escape(note)}</p>" for note in table.notes)
    return (
        "<div class='scroll'><table class='sortable paper-table'>"
        f"<caption>{html.escape(table.title)}, {html.escape(table.dataset)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{notes}\n"
    )


def _html_row(
    table: PaperTable, number: int, row: TableRow, places: dict[tuple[int, str], int]
) -> str:
    cells = "".join(f"<th scope='row'>{html.escape(part)}</th>" for part in row.key)
    for metric in table.metrics:
        value = row.values[metric]
        style = {0: " class='best'", 1: " class='second'"}.get(places.get((number, metric), 2), "")
        sort = "" if value.ours is None else f" data-sort='{value.ours:.6f}'"
        text = _ours(value).replace(" ± ", " <span class='spread'>± ")
        cells += f"<td{style}{sort}>{text}{'</span>' if '<span' in text else ''}</td>"
        if table.compared:
            cells += f"<td class='paper'>{_number(value.paper)}</td>"
            cells += f"<td class='paper'>{_signed(value.difference)}</td>"
    return f"<tr>{cells}</tr>"


def _tex(text: str) -> str:
    for character in "_%&#":
        text = text.replace(character, "\\" + character)
    return text


FORMATS: dict[str, Callable[[PaperTable], str]] = {
    "markdown": _markdown,
    "csv": _csv,
    "latex": _latex,
    "html": _html,
}
