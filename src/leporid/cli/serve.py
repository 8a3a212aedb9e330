"""`leporid serve`: a trained run as a service with a page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument

from leporid.cli.options import parse_list, parse_settings
from leporid.errors import import_extra


@dataclass(frozen=True)
class _Service:
    """What `serve_forever` takes as it is."""

    compare: Annotated[Path | None, "A second run, shown beside the first."] = None
    items: Annotated[
        str | None, "File or data set name with titles [items.parquet beside the run]."
    ] = None
    host: Annotated[str, "Address to listen on."] = "127.0.0.1"
    port: Annotated[int, "Port to listen on; 0 takes a free one."] = 8000
    store: Annotated[
        str | None, "SQLite file or postgresql:// URL for new events; else none are kept."
    ] = None
    token: Annotated[
        str | None,
        "What a client must send to read or write [LEPORID_TOKEN, which other users of this "
        "machine cannot see in its list of processes].",
    ] = None
    public_reading: Annotated[bool, "Reading needs no token."] = False


def serve(
    run: Annotated[Path, Argument(help="Folder of `leporid train -o` or `leporid choose -o`.")],
    service: _Service,
    cors: Annotated[
        list[str] | None,
        "An origin whose pages may send requests, as https://films.example; repeatable.",
    ] = None,
    allowed_hosts: Annotated[
        str,
        "Host names of the server, separated by commas, besides localhost and its address; * for "
        "any.",
    ] = "",
    limit: Annotated[
        list[str] | None, "A limit to change, as NAME=VALUE: docs/serve.md lists them."
    ] = None,
) -> None:
    """Serve the recommendations of RUN over HTTP, with a page to try them at /.

    A client sends the token as `Authorization: Bearer TOKEN`; POST /reload needs the one in
    LEPORID_ADMIN_TOKEN. Without either, everyone who reaches the port may read, and only a server
    on loopback may be written to.
    """
    import_extra("uvicorn", "the service", "serve")

    from leporid.serve import ServeLimits, serve_forever

    limits = ServeLimits.from_dict(parse_settings(limit, "--limit"))
    hosts = parse_list(allowed_hosts)
    serve_forever(run, cors=cors or (), allowed_hosts=hosts, limits=limits, **vars(service))
