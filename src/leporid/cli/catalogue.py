"""`leporid models`, `initializers`, `doctor`: what there is, and what is installed."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer
from typer import Argument

from leporid.cli.options import Json, show
from leporid.errors import MissingExtraError, install_command


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


def doctor(json_output: Json = False) -> None:
    """Versions, devices, threads, extras, and a small self-test of the kernels.

    Exit code 0 when every self-test passed; a missing extra is not a failure.
    """
    from leporid.diagnostics import examine

    report = examine()
    parts: list[Any] = [
        (
            title,
            [
                {"what": key, "value": str(value)}
                for key, value in report[title].items()
            ],
        )
        for title in ("versions", "machine")
    ]
    for row in report["extras"]:
        advice = f"missing {', '.join(row['missing'])}: {install_command(row['extra'])}"
        parts.append(f"extra {row['extra']}: {advice if row['missing'] else 'present'}")
    for test in report["self_tests"]:
        result = "ok" if test["ok"] else f"FAILED: {test['detail']}"
        parts.append(f"self-test {test['name']}: {result}")
    show(json_output, report, *parts)
    if not all(row["ok"] for row in report["self_tests"]):
        raise typer.Exit(1)


def _print(
    names: Sequence[str],
    describe: Callable[[str], Mapping[str, Any]],
    json_output: bool,
) -> None:
    """Two lines for each name; a single one with all that is known of it."""
    entries: list[Mapping[str, Any]] = []
    for name in names:
        try:
            entries.append(describe(name))
        except MissingExtraError as error:
            entries.append({"name": name, "what": str(error)})
    if json_output:
        show(True, entries)
        return
    for entry in entries:
        facts = [
            f"{key.replace('_', ' ')}: {_short(value)}"
            for key, value in entry.items()
            if key not in ("how", "settings") and value != {}
        ]
        if len(entries) > 1:
            for first, text in (
                (entry["name"], entry["what"]),
                ("", "; ".join(facts[2:])),
            ):
                _wrapped(text, f"{first:17}", " " * 17)
            continue
        for fact in (*facts, f"how: {entry.get('how', '')}"):
            _wrapped(fact, "", "    ")
        for recipe, values in entry.get("recipes", {}).items():
            settings = " ".join(f"{key}={value}" for key, value in values.items())
            _wrapped(f"recipe {recipe}: {settings or 'the defaults'}", "", "    ")
        typer.echo("settings (--set NAME=VALUE):")
        for row in entry.get("settings", []):
            kind = ", ".join(filter(None, (row["type"], row["range"])))
            typer.echo(f"  {row['setting']} = {row['default']}  ({kind})")
            _wrapped(row["meaning"], *[" " * 6] * 2)


def _short(value: Any) -> Any:
    """Of recipes the names."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, Mapping) else value


def _wrapped(text: str, first: str, then: str) -> None:
    """A text in lines of 80 characters; the first begins with `first`, the others with `then`."""
    lines = textwrap.wrap(text, 80, initial_indent=first, subsequent_indent=then)
    typer.echo("\n".join(lines))
