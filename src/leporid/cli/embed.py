"""`leporid embed`: an interaction log in, initial embeddings out."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from leporid import embeddings
from leporid.cli.options import (
    DeviceName,
    FormatOptions,
    Json,
    Output,
    Seed,
    SplitOptions,
    SplitSource,
    parse_settings,
)
from leporid.cli.printing import Part, Row, show
from leporid.errors import ConfigError, UnknownNameError

if TYPE_CHECKING:
    from leporid.data import Interactions
    from leporid.embeddings import Embedding, InitialEmbeddings, Initializer


@dataclass(frozen=True)
class _Method:
    """Method and settings of the vectors."""

    method: Annotated[str, "A name of `leporid initializers`."] = "leporid"
    dim: Annotated[int, "Number of columns."] = 64
    k: Annotated[
        int | None, "Neighbours in the KNN graph (le, leporid, netmf) [1000]."
    ] = None
    alpha: Annotated[
        float | None, "Popularity regularisation (leporid) [chosen by a probe]."
    ] = None
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

    def initializer(self, adapt: bool) -> Initializer:
        """Make the initialiser with the settings that were typed; with `adapt` others fit the data.

        Data that streams from disk cannot be fitted several times.
        """
        settings = {"dim": self.dim, "seed": self.seed, **parse_settings(self.set)}
        if adapt:
            settings = {
                **embeddings.OWN_MODEL_SETTINGS.get(self.method, {}),
                **settings,
            }
        if self.k is not None:
            settings["k"] = self.k
        if self.alpha is not None:
            settings["alpha"] = self.alpha
        if self.device is not None:
            settings["device"] = self.device
        if self.landmarks is not None:
            settings |= parse_settings([f"landmarks={self.landmarks}"])
        initializer: Initializer = embeddings.get(self.method)(**settings)
        return initializer


@dataclass(frozen=True)
class _Resources:
    """Where the vectors are computed, and with how much memory."""

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

    initializer = method.initializer(adapt=resources.memory is None)
    train, protocol = _read(data, part, log, resources, json_output)
    began = perf_counter()
    if train is None:
        vectors = _fit_out_of_core(
            initializer, data, output, resources, log, not json_output
        )
    else:
        vectors = _fit(initializer, train, resources, not json_output)
    seconds = perf_counter() - began
    files = write_embeddings(vectors, output, format.format, name=format.name)

    rows = [_facts(side, embedding) for side, embedding, _ in vectors.sides()]
    chosen = vectors.items.provenance.get("chosen")
    report = {
        "method": method.method,
        "settings": initializer.config.to_dict(),
        "seconds": seconds,
        "sides": rows,
        "chosen": chosen,
        "format": format.format,
        "part": "all" if protocol is None else "train",
        "protocol": protocol,
    }
    parts: list[Part] = [(f"{method.method}, {seconds:.2f} s", _without_blanks(rows))]
    if chosen is not None:
        settings = ", ".join(f"{name} {value}" for name, value in chosen.items())
        parts.append(f"\nchosen by a probe inside the data: {settings}")
    if format.format == "recbole":
        parts.append(f"\n{INITIALIZE_LINES % output}")
    show(json_output, report, *parts, files=files)


def _facts(side: str, embedding: Embedding) -> Row:
    """Return what is known of the vectors of one side."""
    provenance = embedding.provenance
    isolated = provenance.get("isolated", embedding.isolated.sum())
    residual = provenance.get("residual")
    return {
        "side": side,
        "rows": embedding.n,
        "dim": embedding.dim,
        "isolated": int(isolated),
        "landmarks": provenance.get("landmarks"),
        "largest residual": residual and float(f"{residual:.3g}"),
    }


def _without_blanks(rows: Sequence[Row]) -> list[Row]:
    """Leave out columns that are None in every row, and show "-" for None in others."""
    columns = [
        column for column in rows[0] if any(row[column] is not None for row in rows)
    ]
    return [
        {column: "-" if row[column] is None else row[column] for column in columns}
        for row in rows
    ]


def _read(
    data: str, part: str, log: SplitOptions, resources: _Resources, quiet: bool
) -> tuple[Interactions | None, str | None]:
    """Read what is embedded, and the protocol of the split if that is a training part.

    The interactions are None where DATA is streamed.
    """
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

    default = SplitOptions()
    if log.protocol != default.protocol or log.split_seed != default.split_seed:
        raise ConfigError("--protocol and --split-seed go with --part train")
    if not quiet:
        typer.echo(
            "embedding the whole log, the test part too: "
            "for a benchmark give --part train",
            err=True,
        )
    if resources.memory:
        return None, None
    return log.load(data, quiet=quiet), None


def _fit(
    initializer: Initializer,
    train: Interactions,
    resources: _Resources,
    progress: bool,
) -> InitialEmbeddings:
    """Fit the vectors, or read them from the cache; on a cluster if one was named."""
    from leporid.embeddings import cached_fit

    if resources.scheduler is None:
        return cached_fit(
            initializer, train, use_cache=resources.cache, progress=progress
        )
    if not initializer.runs_on_cluster:
        raise ConfigError(f"--scheduler is for le and leporid, not {initializer.name}")

    from leporid.distributed import connect

    with connect(resources.scheduler) as client:
        initializer.cluster = client
        try:
            return cached_fit(
                initializer, train, use_cache=resources.cache, progress=progress
            )
        finally:
            initializer.cluster = None


def _fit_out_of_core(
    initializer: Initializer,
    data: str,
    output: Path,
    resources: _Resources,
    log: SplitOptions,
    progress: bool,
) -> InitialEmbeddings:
    """Fit the vectors within a memory limit, with temporary files beside the output."""
    from leporid.embeddings import embed_stored

    if progress and initializer.name in embeddings.OWN_MODEL_SETTINGS:
        typer.echo(
            "--memory fits once: the vectors have the settings of the paper and do not adapt",
            err=True,
        )
    default = SplitOptions()
    whole_log_only = {
        "order": log.order,
        "weight": log.weight,
        "duplicates": None if log.duplicates == default.duplicates else log.duplicates,
        "event": log.event,
        "event-weights": log.event_weights,
        "target-events": log.target_events,
        "scheduler": resources.scheduler,
    }
    for option, value in whole_log_only.items():
        if value is not None:
            raise ConfigError(
                f"--memory and --{option} do not go together: leave one out"
            )
    with suppress(OSError):  # what it needs meanwhile cannot be written then either
        output.parent.mkdir(parents=True, exist_ok=True)
    return embed_stored(
        initializer,
        data,
        resources.memory or "",
        scratch=output.parent,
        progress=progress,
        core=log.core,
        user=log.user,
        item=log.item,
        time=log.time,
        rating=log.rating,
        min_rating=log.min_rating,
        separator=log.separator,
        header=log.header,
        encoding=log.encoding,
    )
