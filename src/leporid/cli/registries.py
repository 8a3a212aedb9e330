"""`leporid models` and `leporid initializers`: what there is, and its settings."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer
from typer import Argument

from leporid.cli.options import Json
from leporid.cli.printing import show
from leporid.errors import MissingExtraError

_NAME_WIDTH = 17
"""Width of the column of names in a list."""


def models(
    name: Annotated[
        str | None, Argument(help="One model: also its recipes and settings.")
    ] = None,
    json_output: Json = False,
) -> None:
    """List the models: what they are, whether they take initial embeddings and new users."""
    from leporid.models import available, describe

    _print(available() if name is None else [name], describe, json_output)


def initializers(
    name: Annotated[
        str | None, Argument(help="One initialiser: also its settings.")
    ] = None,
    json_output: Json = False,
) -> None:
    """List the initialisers: what they are, and whether models z-score their vectors."""
    from leporid.embeddings import available, describe

    _print(available() if name is None else [name], describe, json_output)


def _print(
    names: Sequence[str],
    describe: Callable[[str], Mapping[str, Any]],
    json_output: bool,
) -> None:
    """Print two lines for each name; for a single one all that is known of it."""
    entries: list[Mapping[str, Any]] = []
    for name in names:
        try:
            entries.append(describe(name))
        except MissingExtraError as error:
            entries.append({"name": name, "what": str(error)})
    if json_output:
        show(True, entries)
    elif len(entries) == 1:
        _print_whole(entries[0])
    else:
        for entry in entries:
            _wrapped(entry["what"], f"{entry['name']:{_NAME_WIDTH}}", " " * _NAME_WIDTH)
            facts = "; ".join(_facts(entry)[2:])  # all but the name and what it is
            _wrapped(facts, " " * _NAME_WIDTH, " " * _NAME_WIDTH)


def _print_whole(entry: Mapping[str, Any]) -> None:
    """Print the facts, recipes and settings of one model or initialiser."""
    for fact in _facts(entry):
        _wrapped(fact, "", "    ")
    _wrapped(f"how: {entry.get('how', '')}", "", "    ")
    for recipe, values in entry.get("recipes", {}).items():
        settings = " ".join(f"{key}={value}" for key, value in values.items())
        _wrapped(f"recipe {recipe}: {settings or 'the defaults'}", "", "    ")
    typer.echo("settings (--set NAME=VALUE):")
    for row in entry.get("settings", []):
        kind = ", ".join(filter(None, [row["type"], row["range"]]))
        typer.echo(f"  {row['setting']} = {row['default']}  ({kind})")
        _wrapped(row["meaning"], " " * 6, " " * 6)


def _facts(entry: Mapping[str, object]) -> list[str]:
    """Return what can be said in a few words, as "fact: value"."""
    return [
        f"{key.replace('_', ' ')}: {_in_words(value)}"
        for key, value in entry.items()
        if key not in ("how", "settings") and value != {}
    ]


def _in_words(value: object) -> str:
    """Return a value as text; of recipes, their names."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(value)
    return str(value)


def _wrapped(text: str, first_indent: str, indent: str) -> None:
    """Print a text in lines of 80 characters, the first with its own indent."""
    lines = textwrap.wrap(
        text, 80, initial_indent=first_indent, subsequent_indent=indent
    )
    typer.echo("\n".join(lines))
