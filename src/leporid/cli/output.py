"""How commands speak: tables for people, JSON for machines (`--json`)."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import typer

from leporid.errors import MissingExtraError

_ID_COLUMNS = ("user", "item")
"""Printed as they are typed: a separator of thousands would make two ids of one."""


def show_progress(json_output: bool = False) -> bool:
    """Whether to report progress (bars on a terminal, lines in a log): never beside JSON."""
    return not json_output


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))


def print_table(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """A table on stdout; the keys of the first row are the columns."""
    from rich.console import Console

    Console().print(make_table(title, rows))


def print_rows(
    title: str, rows: Sequence[Mapping[str, Any]], json_output: bool, value: Any = None
) -> None:
    """The rows as a table, or `value` (the rows themselves by default) as JSON."""
    if json_output:
        print_json(rows if value is None else value)
    else:
        print_table(title, rows)


def print_files(files: Iterable[Any]) -> None:
    """One line per written file."""
    for file in files:
        typer.echo(f"wrote {file}")


def make_table(title: str, rows: Sequence[Mapping[str, Any]]) -> Any:
    """A rich table; columns whose first value is a number are set right."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(title))
    for column in rows[0] if rows else ():
        numeric = isinstance(rows[0][column], int | float)
        table.add_column(escape(column), justify="right" if numeric else "left")
    for row in rows:
        cells = (str(v) if column in _ID_COLUMNS else _cell(v) for column, v in row.items())
        table.add_row(*map(escape, cells))
    return table


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def print_catalogue(
    names: Sequence[str], describe: Callable[[str], Mapping[str, Any]], json_output: bool
) -> None:
    """A row for each name; a single one with all that is known of it."""
    entries: list[Mapping[str, Any]] = []
    for name in names:
        try:
            entries.append(describe(name))
        except MissingExtraError as error:
            entries.append({"name": name, "what": str(error)})
    if json_output:
        print_json(entries)
        return
    if len(entries) > 1:
        width = max(len(entry["name"]) for entry in entries) + 2
        for entry in entries:
            _, (_, what), *rest = _summary(entry).items()
            facts = "; ".join(f"{key}: {value}" for key, value in rest if value)
            typer.echo(f"{entry['name']:{width}}{what}")
            typer.echo(f"{'':{width}}{facts}".rstrip())
        return
    entry = entries[0]
    for key, value in {**_summary(entry), "how": entry.get("how", "")}.items():
        typer.echo(f"{key}: {value}")
    for recipe, values in entry.get("recipes", {}).items():
        words = " ".join(f"{key}={value}" for key, value in values.items())
        typer.echo(f"recipe {recipe}: {words or 'the defaults'}")
    typer.echo("settings (--set NAME=VALUE):")
    for row in entry.get("settings", []):
        kind = ", ".join(filter(None, (row["type"], row["range"])))
        typer.echo(f"  {row['setting']} = {row['default']}  ({kind})")
        if row["meaning"]:
            typer.echo(textwrap.indent(textwrap.fill(row["meaning"], 72), "      "))


def _summary(entry: Mapping[str, Any]) -> dict[str, str]:
    """The short values of a catalogue's entry; of recipes the names."""
    words = {True: "yes", False: "no"}
    return {
        key.replace("_", " "): ", ".join(value)
        if isinstance(value, Mapping)
        else words.get(value, value)
        for key, value in entry.items()
        if key not in ("how", "settings")
    }
