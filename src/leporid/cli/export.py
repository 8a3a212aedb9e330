"""`leporid export`: embeddings or a model's tables as files, or a model into another system."""

from __future__ import annotations

from typing import Annotated, Any

from leporid.cli.options import FormatOptions, Json, Output, VectorSource, load_model, print_report
from leporid.errors import ConfigError


def export(
    source: VectorSource,
    output: Output,
    format: FormatOptions,
    to: Annotated[str | None, "A system: faiss, onnx, parquet, pgvector, qdrant."] = None,
    approximate: Annotated[bool, "--to faiss: an HNSW graph, not an exact index."] = False,
    address: Annotated[str | None, "--to qdrant, pgvector: a server to load as well."] = None,
    check: Annotated[int, "--to: compare the lists of this many users; 0: none."] = 1000,
    json_output: Json = False,
) -> None:
    """Write SOURCE's vectors and ids in another format, or with --to a model into a system."""
    from leporid.artifacts import read_json
    from leporid.interop import export_model, read_any, write_embeddings

    if to is None:
        vectors = read_any(source)
        files = write_embeddings(vectors, output, **vars(format))
        about = {"users": vectors.users.n, "items": vectors.items.n, "dim": vectors.users.dim}
        line = "{users:,} users, {items:,} items, {dim} columns".format_map(about)
        print_report(json_output, {**about, "format": format.format}, [line], files)
        return
    if format.format != "safetensors":
        raise ConfigError("--to writes the vectors a model ranks by: leave out --format")
    where: dict[str, Any] = {"address": address, "name": format.name or "leporid"}
    model = load_model(source)
    parity = export_model(model, output, to, approximate=approximate, check=check, **where)
    about = read_json(output / "export.json")
    lines = ["{users:,} users, {items:,} items, {width} columns".format_map(about)]
    if about["product_ranks"] == "first stage":
        lines.append("these vectors retrieve candidates, which the model itself then ranks")
    if blank := about["users_without_history"]:
        lines.append(f"{blank:,} users have no history and were not checked")
    lines.append(str(parity) if parity else "lists not compared with the model's own")
    print_report(json_output, about, lines, sorted(output.iterdir()))
