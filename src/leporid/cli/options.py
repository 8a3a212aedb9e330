"""Options that several commands share and how they are parsed; tables and JSON that they print.

A command takes a group of options as one parameter, `log: LogOptions`; `as_command` replaces it
by the fields of the dataclass. So an option added to `LogOptions` is an option of every command
that reads a log, and a default differs in one command by `log: LogOptions = LogOptions(core=20)`.
`SplitOptions.split` also takes a folder that `leporid data split` wrote, in place of a log.
"""

from __future__ import annotations

import functools
import inspect
import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer import Argument, Option

from leporid.errors import ConfigError, UnknownNameError

if TYPE_CHECKING:
    from leporid.data import Interactions, Split
    from leporid.models import Recommender

_ID_COLUMNS = ("user", "item")
"""Printed as they are typed: a separator of thousands would make two ids of one."""

SPELLINGS = {
    "output": ["--output", "-o"],
    "include_seen": ["--include-seen/--exclude-seen", " /--no-include-seen"],
}
"""Options that are not spelt as their parameter alone."""

Json = Annotated[bool, Option("--json", help="Print JSON for machines.")]
Source = Annotated[str, Argument(help="Interaction log: a file, or a data set's name.")]
SplitSource = Annotated[
    str, Argument(help="Log: a file, a data set, or a `data split` folder.")
]


class DeviceName(str):
    """The help of an option that names a device: it is checked before a command begins."""


class OutputFolder(str):
    """The help of an option that names a folder to write: likewise."""


class OutputFile(str):
    """The help of an option that names a file to write: likewise."""


Output = Annotated[Path, OutputFolder("Folder to write into.")]
Seed = Annotated[int, "Seed of every random choice."]
Device = Annotated[str, DeviceName("auto, cpu, cuda or cuda:N.")]
Dataset = Annotated[str | None, "Name of the data in the record [the file's name]."]
Name = Annotated[str | None, "Data set name for RecBole's files [the folder's name]."]
VectorSource = Annotated[Path, Argument(help="Embeddings, a trained model or a run.")]


@dataclass(frozen=True)
class FormatOptions:
    """The format vectors are written in."""

    format: Annotated[str, "safetensors, parquet, csv or recbole."] = "safetensors"
    name: Name = None

    def __post_init__(self) -> None:
        """Refuse an unknown format, before anything is computed."""
        from leporid.interop import FORMATS

        if self.format not in FORMATS:
            raise UnknownNameError("format", self.format, FORMATS)


@dataclass(frozen=True)
class LogOptions:
    """How an interaction log is read and filtered."""

    core: Annotated[
        int, "Keep users and items with at least this many interactions; 0: all."
    ] = 0
    user: Annotated[str | None, "User column; else found by name."] = None
    item: Annotated[str | None, "Item column; else found by name."] = None
    time: Annotated[str | None, "Time column; else found by name."] = None
    rating: Annotated[str | None, "Rating column; else found by name."] = None
    min_rating: Annotated[
        float | None, "Keep rows with at least this rating; else all."
    ] = None
    weight: Annotated[str | None, "Column of row weights; else all the same."] = None
    event: Annotated[str | None, "Column of the kinds of events."] = None
    event_weights: Annotated[str | None, "view=1,purchase=5; below 0: a dislike."] = (
        None
    )
    goal: Annotated[str | None, "Kinds of events that are targets; else all."] = None
    duplicates: Annotated[
        str, "Of a pair that occurs again keep the first, sum or all."
    ] = "first"
    separator: Annotated[
        str | None, "Between the fields of a text file; else found."
    ] = None
    header: Annotated[bool | None, "First line holds names; else found."] = None
    encoding: Annotated[str, "Of a text file."] = "utf-8"
    order: Annotated[
        str | None, "file: the rows are in time order, whatever their times."
    ] = None

    def load(self, source: str, *, quiet: bool = False) -> Interactions:
        """Read and filter the log; says on stderr what was guessed and dropped, unless `quiet`."""
        from leporid.data import load

        options = {
            field.name: getattr(self, field.name) for field in fields(LogOptions)
        }
        core, weights = options.pop("core"), options.pop("event_weights")
        if weights is not None:
            options["weights"] = parse_numbers(parse_list(weights), "--event-weights")
        if self.goal is not None:
            options["goal"] = parse_list(self.goal)
        if self.separator in ("tab", "\\t"):
            options["separator"] = "\t"
        data = load(source, progress=False, **options)
        if data.source is not None and not quiet and (found := data.source.sentence()):
            typer.echo(found, err=True)
        inner = data.core(core) if core else data
        if len(inner) < len(data) and not quiet:
            typer.echo(
                f"--core {core} dropped {data.n_users - inner.n_users:,} of {data.n_users:,} users "
                f"and {data.n_items - inner.n_items:,} of {data.n_items:,} items, with "
                f"{1 - len(inner) / len(data):.0%} of the interactions",
                err=True,
            )
        return inner


@dataclass(frozen=True)
class SplitOptions(LogOptions):
    """How a log is read, filtered and cut into train, validation and test."""

    protocol: Annotated[str, "temporal, leave-last-out, global-time or random."] = (
        "temporal"
    )
    split_seed: Annotated[
        int, "Seed of a random split (also of a log without times)."
    ] = 0
    include_seen: Annotated[bool | None, "Lists may show what a user already has."] = (
        None
    )

    def load(self, source: str, *, quiet: bool = False) -> Interactions:
        """As above; where lists may show an item again, repeats are kept."""
        repeats = (
            "all"
            if self.include_seen and self.duplicates == "first"
            else self.duplicates
        )
        return super(SplitOptions, replace(self, duplicates=repeats)).load(
            source, quiet=quiet
        )

    def split(self, source: str, *, quiet: bool = False) -> Split:
        """Read and cut the log, or read a split as it was saved."""
        from leporid.data import Split, is_split, split_by

        if not is_split(source):
            parts = split_by(
                self.load(source, quiet=quiet), self.protocol, seed=self.split_seed
            )
            return parts.including_seen(self.include_seen)
        changed = [
            field.name
            for field in fields(self)
            if field.name != "include_seen"
            and getattr(self, field.name) != field.default
        ]
        if changed:
            names = ", ".join(f"--{name.replace('_', '-')}" for name in changed)
            raise ConfigError(
                f"{source} is a split, already filtered and cut: leave out {names}"
            )
        split = Split.load(source).including_seen(self.include_seen)
        if not quiet:
            sizes = ", ".join(
                f"{len(getattr(split, p)):,} {p}" for p in ("train", "valid", "test")
            )
            typer.echo(f"{source}: a split by {split.protocol}: {sizes}", err=True)
        return split


def as_command(function: Callable[..., None]) -> Callable[..., None]:
    """The function as typer takes it.

    A parameter that is a dataclass is replaced by its fields (with the values of the parameter's
    own default, where it has one), a text in `Annotated` is the help of an option, and a switch
    that is off by default has no opposite.
    """
    parameters: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    helps: dict[str, str] = {}

    def add(name: str, hint: Any, default: Any) -> None:
        kind, about = hint.__origin__, hint.__metadata__[0]
        if isinstance(about, str):
            helps[name] = about
            long = f"--{name.replace('_', '-')}"
            names = [long] if default is False else SPELLINGS.get(name, [])
            hint = Annotated[kind, Option(*names, help=about)]
        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters.append(
            inspect.Parameter(name, keyword, default=default, annotation=hint)
        )

    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        if not is_dataclass(hints[name]):
            add(name, hints[name], parameter.default)
            continue
        groups[name] = group = hints[name]
        of_group = get_type_hints(group, include_extras=True)
        for field in fields(group):
            default = getattr(parameter.default, field.name, field.default)
            add(field.name, of_group[field.name], default)

    @functools.wraps(function)
    def run(**values: Any) -> None:
        for name, about in helps.items():
            if values[name] is not None:
                _check_value(about, values[name])
        whole = {
            name: group(
                **{field.name: values.pop(field.name) for field in fields(group)}
            )
            for name, group in groups.items()
        }
        function(**whole, **values)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {
        parameter.name: parameter.annotation for parameter in parameters
    }
    return run


def _check_value(about: str, value: str | Path) -> None:
    """Refuse a device that is not there, and what cannot be written."""
    from leporid.artifacts import check_output_file, check_output_folder
    from leporid.machine import check_device

    if isinstance(about, DeviceName):
        check_device(value)
    elif isinstance(about, OutputFolder) and Path(value).suffix != ".safetensors":
        check_output_folder(value)
    elif isinstance(about, OutputFolder | OutputFile):  # vectors can be one file
        check_output_file(value)


def parse_settings(pairs: list[str] | None, option: str = "--set") -> dict[str, Any]:
    """NAME=VALUE with TOML values; a bare word is a string."""
    parsed: dict[str, Any] = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise ConfigError(f"{option} takes NAME=VALUE, not {pair!r}")
        try:
            parsed[key] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            parsed[key] = value
    return parsed


def parse_numbers(pairs: list[str], option: str) -> dict[str, float]:
    """NAME=NUMBER of each pair."""
    try:
        return {
            key: float(value)
            for key, _, value in (pair.rpartition("=") for pair in pairs)
        }
    except ValueError:
        raise ConfigError(
            f"{option} takes view=1,purchase=5, not {','.join(pairs)!r}"
        ) from None


def parse_list(text: str, option: str | None = None) -> list[Any]:
    """Parts separated by commas; with the name of an `option` they are whole numbers."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if option is None:
        return parts
    try:
        return [int(part) for part in parts]
    except ValueError:
        raise ConfigError(
            f"{option} takes whole numbers such as 1,5,10, not {text!r}"
        ) from None


def load_model(path: Path, *, validated: bool = False) -> Recommender:
    """The model in its own folder, or in that of a run: the one to deploy, or to evaluate."""
    from leporid.models import Recommender, model_folder

    return Recommender.load(model_folder(path, validated=validated))


def _print_table(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """A table on stdout with the columns of the first row; numbers are aligned right."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(title))
    for column in rows[0]:
        numeric = isinstance(rows[0][column], int | float)
        table.add_column(escape(column), justify="right" if numeric else "left")
    for row in rows:
        cells = (
            str(v) if column in _ID_COLUMNS else _cell(v) for column, v in row.items()
        )
        table.add_row(*map(escape, cells))
    Console().print(table)


def show(
    json_output: bool,
    value: Any,
    *parts: str | tuple[str, Any],
    files: Sequence[Any] | None = None,
) -> None:
    """`value`, with the written files if any, as JSON; else lines, and tables as (title, rows).

    A table without rows is not shown.
    """
    if json_output:
        document = (
            value
            if files is None
            else {**value, "files": [str(file) for file in files]}
        )
        typer.echo(json.dumps(document, ensure_ascii=False, indent=2))
        return
    for part in (*parts, *(f"wrote {file}" for file in files or ())):
        if isinstance(part, str):
            typer.echo(part)
        elif part[1]:
            _print_table(*part)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4f}"
    return (
        f"{value:,}"
        if isinstance(value, int) and not isinstance(value, bool)
        else str(value)
    )
