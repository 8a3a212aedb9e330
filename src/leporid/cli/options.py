"""Options that several commands share, and what they stand for.

A command takes a group of options as one parameter, `log: LogOptions`; `expand_groups` replaces it
by the fields of the dataclass. So an option added to `LogOptions` is an option of every command
that reads a log, and a default differs in one command by `log: LogOptions = LogOptions(core=20)`.
"""

from __future__ import annotations

import functools
import inspect
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer import Argument, Option

from leporid.errors import ConfigError, DataError

if TYPE_CHECKING:
    from leporid.data.interactions import Interactions
    from leporid.data.split import Split
    from leporid.models.shared.base import Recommender

__all__ = [
    "Device",
    "Json",
    "LogOptions",
    "OutputFolder",
    "RecBoleName",
    "Seed",
    "Source",
    "SplitOptions",
    "VectorFormat",
    "VectorSource",
    "expand_groups",
    "load_model",
    "parse_list",
    "parse_settings",
]

Json = Annotated[bool, Option("--json", help="Print JSON for machines.")]
Source = Annotated[
    str,
    Argument(
        help="Interaction log: a file (CSV, TSV, ::, .inter, gzip, parquet) or a data set's name."
    ),
]
OutputFolder = Annotated[Path, Option("--output", "-o", help="Folder to write into.")]
Seed = Annotated[int, Option(help="Seed of every random choice.")]
Device = Annotated[str, Option(help="auto, cpu, cuda or cuda:N.")]
VectorSource = Annotated[Path, Argument(help="Embeddings, a trained model or a run.")]
RecBoleName = Annotated[
    str | None, Option("--name", help="Data set name for RecBole's files [the folder's name].")
]
VectorFormat = Annotated[
    str, Option(help="safetensors, parquet, npy, csv, word2vec, recbole or implicit.")
]


@dataclass(frozen=True)
class LogOptions:
    """How an interaction log is read and filtered."""

    core: Annotated[
        int, Option(help="Keep users and items with at least this many interactions; 0 keeps all.")
    ] = 0
    user: Annotated[str | None, Option(help="User column; else found by name.")] = None
    item: Annotated[str | None, Option(help="Item column; else found by name.")] = None
    time: Annotated[str | None, Option(help="Time column; else found by name.")] = None
    rating: Annotated[str | None, Option(help="Rating column; else found by name.")] = None
    min_rating: Annotated[
        float | None, Option(help="Keep rows with at least this rating; else all.")
    ] = None
    separator: Annotated[
        str | None, Option(help="Between the fields of a text file; else found.")
    ] = None
    header: Annotated[
        bool | None, Option("--header/--no-header", help="First line holds names; else found.")
    ] = None
    encoding: Annotated[str, Option(help="Of a text file.")] = "utf-8"

    def load(self, source: str, *, quiet: bool = False) -> Interactions:
        """Read and filter the log; says on stderr what was guessed, unless `quiet`."""
        from leporid.data.loading import load

        options = {field.name: getattr(self, field.name) for field in fields(LogOptions)}
        core = options.pop("core")
        if self.separator in ("tab", "\\t"):
            options["separator"] = "\t"
        data = load(source, **options)
        if data.source is not None and data.source.guessed and not quiet:
            typer.echo(data.source.sentence(), err=True)
        return data.core(core) if core else data


@dataclass(frozen=True)
class SplitOptions(LogOptions):
    """How a log is read, filtered and cut into train, validation and test."""

    protocol: Annotated[str, Option(help="temporal, leave-last-out or global-time.")] = "temporal"

    def split(self, source: str, *, quiet: bool = False, **shares: float) -> Split:
        """Read and cut the log; `shares` are `train` and `valid`."""
        from leporid.data.splitting import split_by

        return split_by(self.protocol, self.load(source, quiet=quiet), **shares)


def expand_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command with each parameter that is a dataclass replaced by its fields, for typer.

    Every field has a default; that of the parameter, where there is one, comes first.
    """
    hints = get_type_hints(command, include_extras=True)
    parameters: dict[str, inspect.Parameter] = {}
    groups: dict[str, Any] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        group = hints[name]
        if not is_dataclass(group):
            parameters[name] = parameter.replace(annotation=group, kind=parameter.KEYWORD_ONLY)
            continue
        groups[name] = group
        of_group = get_type_hints(group, include_extras=True)
        for field in fields(group):
            parameters[field.name] = inspect.Parameter(
                field.name,
                parameter.KEYWORD_ONLY,
                default=getattr(parameter.default, field.name, field.default),
                annotation=of_group[field.name],
            )

    @functools.wraps(command)
    def run(**values: Any) -> None:
        whole = {
            name: group(**{field.name: values.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**whole, **values)

    run.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
    run.__annotations__ = {name: parameter.annotation for name, parameter in parameters.items()}
    return run


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


def parse_list(text: str, option: str | None = None) -> list[Any]:
    """Parts separated by commas; with the name of an `option` they are whole numbers."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if option is None:
        return parts
    try:
        return [int(part) for part in parts]
    except ValueError:
        raise ConfigError(f"{option} takes whole numbers such as 1,5,10, not {text!r}") from None


def load_model(path: Path) -> Recommender:
    """The model in its own folder, or in that of a run."""
    from leporid.interop.trained import find_model
    from leporid.models.shared.base import Recommender

    folder = find_model(path)
    if folder is None:
        raise DataError(f"{path} holds no saved model: there is no model.json in it")
    return Recommender.load(folder)
