"""`leporid embed` and `train`: an interaction log in, vectors or a tested model out."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leporid import embeddings, models
from leporid.cli.options import (
    Dataset,
    Device,
    DeviceName,
    FormatOptions,
    Json,
    Output,
    Seed,
    SplitOptions,
    SplitSource,
    parse_settings,
    show,
)
from leporid.errors import ConfigError, UnknownNameError

if TYPE_CHECKING:
    from leporid.data import Interactions
    from leporid.embeddings import InitialEmbeddings, Initializer
    from leporid.runs import BaselineCheck, RunRecord


_WHOLE_LOG = ("order", "weight", "duplicates", "event", "event_weights", "goal")
"""Options that a log read in pieces cannot have."""


@dataclass(frozen=True)
class _Method:
    """Which vectors."""

    method: Annotated[str, "A name of `leporid initializers`."] = "leporid"
    dim: Annotated[int, "Number of columns."] = 64
    k: Annotated[
        int | None, "Neighbours in the KNN graph (le, leporid, netmf) [1000]."
    ] = None
    alpha: Annotated[float | None, "Popularity regularisation (leporid) [0.5]."] = None
    landmarks: Annotated[
        str | None, "Fit on so many users (or auto), extend to the rest."
    ] = None
    seed: Seed = 0
    device: Annotated[
        str | None, DeviceName("auto, cpu or cuda, for methods that can use a GPU.")
    ] = None
    set: Annotated[list[str] | None, "Another setting of the method, NAME=VALUE."] = (
        None
    )

    def initializer(self) -> Initializer:
        settings = {"dim": self.dim, "seed": self.seed, **parse_settings(self.set)}
        named = {"k": self.k, "alpha": self.alpha, "device": self.device}
        settings |= {name: value for name, value in named.items() if value is not None}
        if self.landmarks is not None:
            settings |= parse_settings([f"landmarks={self.landmarks}"])
        return embeddings.get(self.method)(**settings)


@dataclass(frozen=True)
class _Resources:
    """Where they are computed, and from what."""

    scheduler: Annotated[
        str | None, "Dask cluster to use: tcp://host:port (le, leporid)."
    ] = None
    memory: Annotated[
        str | None, "Stay within it, such as 2GB: DATA streams (le, leporid)."
    ] = None
    cache: Annotated[bool, "Read and keep fitted vectors on disk."] = True


def embed(
    data: SplitSource,
    output: Output,
    method: _Method,
    resources: _Resources,
    format: FormatOptions,
    log: SplitOptions,
    part: Annotated[
        str, "all of DATA, or train: what its split would train on."
    ] = "all",
    json_output: Json = False,
) -> None:
    """Compute initial embeddings for every user and item of DATA.

    Vectors of a whole log are for a model to deploy. For a benchmark give --part train, or a
    folder of `leporid data split`, of which only the training part is read: vectors that have
    seen the test part leak it.
    """
    from leporid.interop import INITIALIZE_LINES, write_embeddings

    initializer = method.initializer()
    train, protocol = _read(data, part, log, resources, json_output)
    began = perf_counter()
    if train is None:
        vectors = _out_of_core(
            initializer, data, output, resources, log, not json_output
        )
    else:
        vectors = _fit(initializer, train, resources, not json_output)
    seconds = perf_counter() - began
    files = write_embeddings(vectors, output, **vars(format))
    rows = []
    for side, embedding, _ in vectors.sides():
        about, residual = embedding.provenance, embedding.provenance.get("residual")
        zero = int((~embedding.vectors.any(axis=1)).sum())
        row = {"side": side, "rows": embedding.n, "dim": embedding.dim}
        row |= {
            "isolated": int(about.get("isolated", zero)),
            "landmarks": about.get("landmarks"),
        }
        rows.append(row | {"largest residual": residual and float(f"{residual:.3g}")})
    # Columns that say something, "-" where a side has nothing to say.
    shown = [key for key in rows[0] if any(row[key] is not None for row in rows)]
    table = [
        {key: "-" if row[key] is None else row[key] for key in shown} for row in rows
    ]
    settings = initializer.config.to_dict()
    report: dict[str, Any] = {"method": method.method, "settings": settings}
    report |= {"seconds": seconds, "sides": rows, "format": format.format}
    report |= {"part": "train" if protocol else "all", "protocol": protocol}
    lines = [f"\n{INITIALIZE_LINES % output}"] if format.format == "recbole" else []
    title = f"{method.method}, {seconds:.2f} s"
    show(json_output, report, (title, table), *lines, files=files)


def _read(
    data: str, part: str, log: SplitOptions, resources: _Resources, quiet: bool
) -> tuple[Interactions | None, str | None]:
    """What is embedded (None: DATA is streamed), and the protocol where it is a training part."""
    from leporid.data import is_split

    if log.weight is not None:
        raise ConfigError(
            "initial embeddings do not depend on weights: leave out --weight"
        )
    if part not in ("all", "train"):
        raise UnknownNameError("part", part, ["all", "train"])
    if part == "train" or is_split(data):
        if resources.memory:
            raise ConfigError(
                "--memory streams a whole log: leave it out to embed a training part"
            )
        split = log.split(data, quiet=quiet)
        if not quiet:
            typer.echo(f"embedding the training part of {split.protocol}", err=True)
        return split.train, split.protocol
    if (log.protocol, log.split_seed) != (
        SplitOptions.protocol,
        SplitOptions.split_seed,
    ):
        raise ConfigError("--protocol and --split-seed go with --part train")
    if not quiet:
        advice = "for a benchmark give --part train"
        typer.echo(f"embedding the whole log, the test part too: {advice}", err=True)
    return None if resources.memory else log.load(data, quiet=quiet), None


def _fit(
    initializer: Initializer, train: Any, resources: _Resources, progress: bool
) -> InitialEmbeddings:
    """The vectors, from the cache or from a cluster where those are asked."""
    from leporid.embeddings import cached_fit

    with ExitStack() as stack:
        if resources.scheduler is not None:
            if not initializer.runs_on_cluster:
                raise ConfigError(
                    f"--scheduler is for le and leporid, not {initializer.name}"
                )

            from leporid.distributed import connect

            initializer.cluster = stack.enter_context(connect(resources.scheduler))
        return cached_fit(
            initializer, train, use_cache=resources.cache, progress=progress
        )


def _out_of_core(
    initializer: Initializer,
    data: str,
    output: Path,
    resources: _Resources,
    log: SplitOptions,
    progress: bool,
) -> InitialEmbeddings:
    """Within a memory limit, with the files it needs meanwhile beside the output."""
    from leporid.embeddings import embed_stored

    options, default = asdict(log), asdict(SplitOptions())
    refused = {key: options.pop(key) for key in _WHOLE_LOG}
    others = {key: value for key, value in refused.items() if value != default[key]}
    others["scheduler"] = resources.scheduler
    for option, value in others.items():
        if value is not None:
            option = option.replace("_", "-")
            raise ConfigError(
                f"--memory and --{option} do not go together: leave one out"
            )
    for key in ("protocol", "split_seed", "include_seen"):  # they are about a split
        del options[key]
    with suppress(OSError):  # what it needs meanwhile cannot be written then either
        output.parent.mkdir(parents=True, exist_ok=True)
    memory, scratch = resources.memory or "", output.parent
    return embed_stored(
        initializer, data, memory, scratch=scratch, progress=progress, **options
    )


@dataclass(frozen=True)
class _Training:
    """Which model, from which initialisation, with which settings, and what else is kept."""

    model: Annotated[str, "Name of the model."] = "dlr2"
    init: Annotated[
        str | None, "Initialiser of the embedding tables, or none [leporid]."
    ] = None
    recipe: Annotated[
        str | None, "Named settings [general; classical models have none]."
    ] = None
    seed: Seed = 123
    steps: Annotated[int | None, "Optimiser steps."] = None
    set: Annotated[
        list[str] | None, "A setting of the model, NAME=VALUE; may be repeated."
    ] = None
    init_set: Annotated[
        list[str] | None, "A setting of the initialiser, NAME=VALUE."
    ] = None
    items: Annotated[
        str | None, "Item table: its columns become features of the items."
    ] = None
    users: Annotated[str | None, "User table: likewise."] = None
    features: Annotated[bool | None, "Use them [validation decides]."] = None
    device: Device = "auto"
    final: Annotated[bool, "Fit once more on everything: the model to deploy."] = False
    resume: Annotated[bool, "Go on from the checkpoint in the output folder."] = False

    def arguments(self) -> dict[str, Any]:
        """Of `train_to_folder`; invalid settings are refused before any data is read."""
        cls, values = models.get(self.model), dict(vars(self))
        takes = cls.takes_initial_vectors
        if self.init not in (None, "none") and not takes:
            raise ConfigError(
                f"{self.model} has no embedding tables to fill: leave --init out"
            )
        init = values["init"] = self.init or ("leporid" if takes else "none")
        settings = values["settings"] = parse_settings(values.pop("set"))
        if (steps := values.pop("steps")) is not None:
            settings["steps"] = steps
        init_settings = parse_settings(values.pop("init_set"), "--init-set")
        if init != "none":
            config = embeddings.get(init).config_class
            if self.items and hasattr(config, "items"):
                init_settings = {"items": self.items, **init_settings}
            config.from_dict(init_settings)
        elif init_settings:
            raise ConfigError("--init-set needs an initialiser: name one with --init")
        values["features"] = "auto" if self.features is None else self.features
        values["recipe"] = models.named_recipe(
            cls, self.recipe or models.DEFAULT_RECIPE
        )
        return {**values, "init_settings": init_settings}


def train(
    data: SplitSource,
    output: Output,
    training: _Training,
    log: SplitOptions,
    no_baselines: Annotated[bool, "Leave out TopPop, ItemKNN and EASE."] = False,
    dataset: Dataset = None,
    json_output: Json = False,
) -> None:
    """Train a model on DATA, test it, and keep model and record in the output folder.

    By default each user's first 70% of interactions in time order train, the next 10% validate,
    the rest test; in a log without times they are drawn at random. With --final the settings and
    steps so tested are then fitted on everything. Ctrl-C leaves a checkpoint; the same command
    with --resume goes on from it.
    """
    arguments = training.arguments()
    from leporid.runs import train_to_folder

    run, check = train_to_folder(
        output,
        split=log.split(data, quiet=json_output),
        dataset=dataset or Path(data).stem,
        baselines=not no_baselines,
        progress=not json_output,
        **arguments,
    )
    parts = _tested(run.record, check, len(run.table))
    said = (f"wrote {output}", models.fit_sentence(run.model))
    show(json_output, run.record.to_dict(), *parts, *said)


def _tested(record: RunRecord, check: BaselineCheck | None, users: int) -> list[Any]:
    """The run and the baselines, a row each, and how they compare."""
    tested: dict[str, Any] = {record.model: record}
    tested |= (
        {f"{other.name} (baseline)": other for other in check.baselines}
        if check
        else {}
    )
    rows: list[dict[str, Any]] = []
    for name, run in tested.items():
        shown = {key: run.metrics[key] for key in ("HR@10", "F1@10", "NDCG@10")}
        rows.append({"model": name, **shown, "seconds": f"{run.seconds:.1f}"})
    parts: list[Any] = [(f"on test, {users:,} users", rows)]
    if tried := record.extra.get("training", {}).get("features"):
        kept = "with" if tried["with"] > tried["without"] else "without"
        values = ", ".join(f"{value:.4f} {name}" for name, value in tried.items())
        parts.append(
            f"features by {record.config['metric']} on validation: {values}; {kept} is kept"
        )
    if cold := record.extra["cold_users"]:
        hits = f"HR@10 {record.extra['cold_metrics']['HR@10']:.4f} for them"
        parts.append(f"{cold:,} of these users have no interaction in train: {hits}")
    if check is not None:
        parts.append(
            "baselines have their default settings and are fitted on the same split"
        )
        parts += filter(None, [check.left_out, check.verdict()])
    return parts
