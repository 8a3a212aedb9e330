"""`leporid export`: vectors in another format, or a model in another system."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from leporid.cli.options import FormatOptions, Json, Output, VectorSource, load_model
from leporid.cli.printing import show
from leporid.errors import ConfigError

if TYPE_CHECKING:
    from leporid.interop import Parity


@dataclass(frozen=True)
class _Target:
    """The system that a model is exported to."""

    to: Annotated[str | None, "A system: faiss, parquet, pgvector, qdrant."] = None
    address: Annotated[
        str | None, "--to qdrant, pgvector: a server to load as well."
    ] = None
    check: Annotated[int, "--to: compare the lists of this many users; 0: none."] = 1000
    refresh: Annotated[
        Path | None, "--to: write what changed since this export, or run."
    ] = None
    moved: Annotated[
        float | None, "--refresh: median lengths that a row may move [0.1]."
    ] = None


def export(
    source: VectorSource,
    output: Output,
    format: FormatOptions,
    target: _Target,
    json_output: Json = False,
) -> None:
    """Write SOURCE's vectors and ids in another format, or with --to a model into a system."""
    lacks_to = target.to is None and target.refresh is not None
    lacks_refresh = target.refresh is None and target.moved is not None
    if lacks_to or lacks_refresh:
        raise ConfigError("--refresh needs --to, and --moved needs --refresh")
    if target.to is None:
        _write_vectors(source, output, format, json_output)
        return
    if format.format != "safetensors":
        raise ConfigError(
            "--to writes the vectors a model ranks by: leave out --format"
        )
    _write_model(source, output, target.to, target, format.name, json_output)


def _write_vectors(
    source: Path, output: Path, format: FormatOptions, json_output: bool
) -> None:
    """Write vectors and ids in another format."""
    from leporid.interop import read_any, write_embeddings

    vectors = read_any(source)
    n_users = vectors.users.n
    n_items = vectors.items.n
    dim = vectors.users.dim
    files = write_embeddings(vectors, output, format.format, name=format.name)
    report = {
        "users": n_users,
        "items": n_items,
        "dim": dim,
        "format": format.format,
    }
    line = f"{n_users:,} users, {n_items:,} items, {dim} columns"
    show(json_output, report, line, files=files)


def _write_model(
    source: Path,
    output: Path,
    system: str,
    target: _Target,
    name: str | None,
    json_output: bool,
) -> None:
    """Write the vectors of a model into a system."""
    from leporid.foundation import read_object
    from leporid.interop import MOVED, export_model

    parity = export_model(
        load_model(source),
        output,
        system,
        address=target.address,
        name=name or "leporid",
        check=target.check,
        refresh=target.refresh,
        moved=MOVED if target.moved is None else target.moved,
    )
    report = read_object(output / "export.json")
    lines = _lines(report, parity)
    show(json_output, report, *lines, files=sorted(output.iterdir()))


def _lines(report: Mapping[str, Any], parity: Parity | None) -> list[str]:
    """Return what an export did, line by line."""
    lines = [
        f"{report['users']:,} users, {report['items']:,} items, {report['width']} columns"
    ]
    for side, n_written in report.get("written", {}).items():
        n_deleted = report["deleted"][side]
        lines.append(
            f"{side}: {n_written:,} of {report[side]:,} written, {n_deleted:,} deleted"
        )
    if report["product_ranks"] == "first stage":
        lines.append(
            "these vectors retrieve candidates, which the model itself then ranks"
        )
    n_unchecked = report["users_without_history"]
    if n_unchecked:
        lines.append(f"{n_unchecked:,} users have no history and were not checked")
    lines.append(
        "lists not compared with the model's own" if parity is None else str(parity)
    )
    return lines
