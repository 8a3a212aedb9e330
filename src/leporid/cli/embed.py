"""`leporid embed`: an interaction log in, initial embeddings out."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

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
    show,
)
from leporid.errors import ConfigError, UnknownNameError

if TYPE_CHECKING:
    from leporid.data import Interactions
    from leporid.embeddings import InitialEmbeddings


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

    def initializer(self) -> Any:
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
    report = {"method": method.method, "settings": initializer.config.to_dict()}
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
    initializer: Any, train: Any, resources: _Resources, progress: bool
) -> InitialEmbeddings:
    """The vectors, from the cache or from a cluster where those are asked."""
    from leporid.embeddings import cached_fit

    with ExitStack() as stack:
        if resources.scheduler is not None:
            if not hasattr(initializer, "client"):
                raise ConfigError(
                    f"--scheduler is for le and leporid, not {initializer.name}"
                )

            from leporid.distributed import connect

            initializer.client = stack.enter_context(connect(resources.scheduler))
            stack.callback(setattr, initializer, "client", None)
        return cached_fit(
            initializer, train, use_cache=resources.cache, progress=progress
        )


def _out_of_core(
    initializer: Any,
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
