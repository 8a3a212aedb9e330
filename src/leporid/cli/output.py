"""What commands print: tables, or JSON with `--json`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import typer

_ID_COLUMNS = ("user", "item")
"""Printed as they are typed: a separator of thousands would make two ids of one."""


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))


def print_table(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """A table on stdout with the columns of the first row; numbers are aligned right."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(title))
    for column in rows[0] if rows else ():
        numeric = isinstance(rows[0][column], int | float)
        table.add_column(escape(column), justify="right" if numeric else "left")
    for row in rows:
        cells = (str(v) if column in _ID_COLUMNS else _cell(v) for column, v in row.items())
        table.add_row(*map(escape, cells))
    Console().print(table)


def print_rows(
    title: str, rows: Sequence[Mapping[str, Any]], json_output: bool, value: Any = None
) -> None:
    """The rows as a table, or `value` (the rows themselves by default) as JSON."""
    if json_output:
        print_json(rows if value is None else value)
    else:
        print_table(title, rows)


def print_report(
    json_output: bool, value: Mapping[str, Any], lines: Iterable[str], files: Iterable[Any] = ()
) -> None:
    """`value` with the names of the written files as JSON; else the lines, and one per file."""
    if json_output:
        print_json({**value, "files": [str(file) for file in files]})
        return
    for line in lines:
        typer.echo(line)
    print_files(files)


def print_files(files: Iterable[Any]) -> None:
    """One line per written file."""
    for file in files:
        typer.echo(f"wrote {file}")


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
