"""What commands print: lines and tables for people, JSON for machines."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

Row = Mapping[str, object]
"""Cells of one row of a table, by column."""
Part = str | tuple[str, Sequence[Row]]
"""A line, or a table as its title and rows."""
_ID_COLUMNS = ("user", "item")
"""Columns of ids: a separator of thousands would make two ids of one."""


def show(
    json_output: bool,
    value: Any,
    *parts: Part,
    files: Sequence[Path] | None = None,
) -> None:
    """Print `value` as JSON, with the written files if any; or print lines and tables.

    A table without rows is not shown.
    """
    if json_output:
        if files is not None:
            value = {**value, "files": [str(file) for file in files]}
        typer.echo(json.dumps(value, ensure_ascii=False, indent=2))
        return
    for part in parts:
        if isinstance(part, str):
            typer.echo(part)
            continue
        title, rows = part
        if rows:
            _print_table(title, rows)
    for file in files or ():
        typer.echo(f"wrote {file}")


def _print_table(title: str, rows: Sequence[Row]) -> None:
    """Print a table with the columns of the first row; numbers are aligned right."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(title))
    for column, value in rows[0].items():
        is_number = isinstance(value, int | float)
        table.add_column(escape(column), justify="right" if is_number else "left")
    for row in rows:
        cells = [_cell(column, value) for column, value in row.items()]
        table.add_row(*map(escape, cells))
    Console().print(table)


def _cell(column: str, value: object) -> str:
    """Return a value as text."""
    if column in _ID_COLUMNS:
        return str(value)
    if isinstance(value, float):
        return f"{value:.4f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)
