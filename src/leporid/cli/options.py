"""Options that several commands share, and how they are parsed.

A command takes a group of options as one parameter, `log: LogOptions`; `as_command` replaces it
by the fields of the dataclass. So an option added to `LogOptions` is an option of every command
that reads a log, and a default differs in one command by `log: LogOptions = LogOptions(core=20)`.
`SplitOptions.split` also takes a folder that `leporid data split` wrote, in place of a log.
"""

from __future__ import annotations

import functools
import inspect
import os
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_args, get_type_hints

import typer
from typer import Argument, Option

from leporid import models
from leporid.cli.printing import show as show
from leporid.errors import ConfigError, UnknownNameError

if TYPE_CHECKING:
    from leporid.data import Interactions, Split
    from leporid.models import Recommender

SPELLINGS = {
    "output": ["--output", "-o"],
    "include_seen": ["--include-seen/--exclude-seen", " /--no-include-seen"],
}
"""Names of the options that are not spelt as their parameter alone."""

Json = Annotated[bool, Option("--json", help="Print JSON for machines.")]
Source = Annotated[
    str, Argument(help="Log: a file, a quoted pattern, or a data set's name.")
]
SplitSource = Annotated[
    str, Argument(help="Log: a file, pattern or data set, or a `data split` folder.")
]


class DeviceName(str):
    """The help of an option that names a device: it is checked before a command begins."""


class ModelName(str):
    """The help of an option that names a model: it is looked up before a command begins."""


class OutputFolder(str):
    """The help of an option that names a folder: whether it can be written is checked first."""


class OutputFile(str):
    """The help of an option that names a file: whether it can be written is checked first."""


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
    target_events: Annotated[
        str | None, "Kinds of events that are targets; else all."
    ] = None
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
        """Read and filter the log; unless `quiet`, print what was guessed and dropped."""
        from leporid.data import load

        weights = None
        if self.event_weights is not None:
            weights = parse_numbers(parse_list(self.event_weights), "--event-weights")
        is_tab = self.separator in ("tab", "\\t")
        data = load(
            source,
            user=self.user,
            item=self.item,
            time=self.time,
            rating=self.rating,
            min_rating=self.min_rating,
            weight=self.weight,
            event=self.event,
            weights=weights,
            target_events=None
            if self.target_events is None
            else parse_list(self.target_events),
            duplicates=self.duplicates,  # type: ignore[arg-type]  # `load` refuses others
            separator="\t" if is_tab else self.separator,
            header=self.header,
            encoding=self.encoding,
            order=self.order,  # type: ignore[arg-type]
            progress=False,
        )
        guessed = data.source.sentence() if data.source is not None else ""
        if guessed and not quiet:
            typer.echo(guessed, err=True)
        if not self.core:
            return data
        dense = data.core(self.core)
        if len(dense) < len(data) and not quiet:
            typer.echo(
                f"--core {self.core} dropped "
                f"{data.n_users - dense.n_users:,} of {data.n_users:,} users "
                f"and {data.n_items - dense.n_items:,} of {data.n_items:,} items, with "
                f"{1 - len(dense) / len(data):.0%} of the interactions",
                err=True,
            )
        return dense


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
        """Read and filter the log; where lists may show an item again, repeats are kept."""
        log: LogOptions = self
        if self.include_seen and self.duplicates == "first":
            log = replace(self, duplicates="all")
        return LogOptions.load(log, source, quiet=quiet)

    def split(self, source: str, *, quiet: bool = False) -> Split:
        """Read and cut the log, or read a split as it was saved."""
        from leporid.data import Split, is_split, split_by

        if not (os.path.isdir(source) and is_split(source)):
            data = self.load(source, quiet=quiet)
            parts = split_by(data, self.protocol, seed=self.split_seed)
            return parts.including_seen(self.include_seen)

        typed = [
            field.name.replace("_", "-")
            for field in fields(self)
            if vars(self)[field.name] != field.default and field.name != "include_seen"
        ]
        if typed:
            names = ", ".join(f"--{name}" for name in typed)
            raise ConfigError(
                f"{source} is a split, already filtered and cut: leave out {names}"
            )
        split = Split.load(source).including_seen(self.include_seen)
        if not quiet:
            typer.echo(
                f"{source}: a split by {split.protocol}: {len(split.train):,} train, "
                f"{len(split.valid):,} valid, {len(split.test):,} test",
                err=True,
            )
        return split


class _Declared(NamedTuple):
    """One option or argument, as a command or a group of options declares it."""

    name: str
    """Name of the parameter."""
    hint: object
    """The type, `Annotated` with a help text or with what typer takes."""
    default: object
    """Default value, or `inspect.Parameter.empty`."""

    @property
    def help(self) -> str | None:
        """Help text of an option; None for what typer gets as it is."""
        annotation = get_args(self.hint)[1]
        return annotation if isinstance(annotation, str) else None

    def parameter(self) -> inspect.Parameter:
        """Return the parameter as typer reads it."""
        hint = self.hint
        if self.help is not None:
            names = SPELLINGS.get(self.name, [])
            if self.default is False:
                # By this name alone, a switch has no opposite.
                names = [f"--{self.name.replace('_', '-')}"]
            hint = Annotated[get_args(hint)[0], Option(*names, help=self.help)]
        return inspect.Parameter(
            self.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=self.default,
            annotation=hint,
        )


def as_command(function: Callable[..., None]) -> Callable[..., None]:
    """Return the function as typer takes it.

    A parameter that is a dataclass is replaced by its fields (with the values of the parameter's
    own default, where it has one), a text in `Annotated` is the help of an option, and a switch
    that is off by default has no opposite.
    """
    declared: list[_Declared] = []
    groups: dict[str, type[Any]] = {}
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        if not is_dataclass(hints[name]):
            declared.append(_Declared(name, hints[name], parameter.default))
            continue
        groups[name] = hints[name]
        has_default = parameter.default is not inspect.Parameter.empty
        defaults = vars(parameter.default) if has_default else {}
        field_hints = get_type_hints(hints[name], include_extras=True)
        for field in fields(hints[name]):
            default = defaults.get(field.name, field.default)
            declared.append(_Declared(field.name, field_hints[field.name], default))

    @functools.wraps(function)
    def run(**values: object) -> None:
        for option in declared:
            _check_value(option.help, values[option.name])
        arguments: dict[str, object] = {}
        for name, group in groups.items():
            names = [field.name for field in fields(group)]
            arguments[name] = group(**{key: values.pop(key) for key in names})
        function(**arguments, **values)

    parameters = [option.parameter() for option in declared]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {
        parameter.name: parameter.annotation for parameter in parameters
    }
    return run


def _check_value(help: str | None, value: object) -> None:
    """Refuse a device or a model that is not there, and a path that cannot be written."""
    from leporid.foundation import check_device, check_output_file, check_output_folder

    if not isinstance(value, str | Path):
        return
    if isinstance(help, DeviceName):
        check_device(str(value))
    elif isinstance(help, ModelName):
        models.get(str(value))
    elif isinstance(help, OutputFolder) and Path(value).suffix != ".safetensors":
        check_output_folder(value)
    elif isinstance(help, OutputFolder | OutputFile):  # vectors can be one file
        check_output_file(value)


def parse_settings(pairs: list[str] | None, option: str = "--set") -> dict[str, Any]:
    """Read NAME=VALUE pairs with TOML values; a bare word is a string."""
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
    """Read NAME=NUMBER pairs."""
    numbers: dict[str, float] = {}
    for pair in pairs:
        name, _, number = pair.rpartition("=")
        try:
            numbers[name] = float(number)
        except ValueError:
            raise ConfigError(
                f"{option} takes view=1,purchase=5, not {','.join(pairs)!r}"
            ) from None
    return numbers


def parse_list(text: str) -> list[str]:
    """Return the parts of a text, separated by commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def parse_whole_numbers(text: str, option: str) -> list[int]:
    """Return whole numbers, separated by commas."""
    try:
        return [int(part) for part in parse_list(text)]
    except ValueError:
        raise ConfigError(
            f"{option} takes whole numbers such as 1,5,10, not {text!r}"
        ) from None


def load_model(path: Path, *, validated: bool = False) -> Recommender:
    """Load the model in its own folder, or in that of a run: the one to deploy, or to evaluate."""
    from leporid.models import Recommender, model_folder

    return Recommender.load(model_folder(path, validated=validated))
