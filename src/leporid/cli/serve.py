"""`leporid serve`: the recommendations of a run over HTTP."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument

from leporid.cli.options import parse_list, parse_settings
from leporid.errors import import_extra


@dataclass(frozen=True)
class _Service:
    """What is served, where, and to whom."""

    compare: Annotated[Path | None, "A second run, shown beside the first."] = None
    items: Annotated[
        str | None, "File or data set with titles [items.parquet of the run]."
    ] = None
    host: Annotated[str, "Address to listen on."] = "127.0.0.1"
    port: Annotated[int, "Port to listen on; 0 takes a free one."] = 8000
    store: Annotated[
        str | None, "SQLite file or postgresql:// URL for new events [none]."
    ] = None
    share: Annotated[
        float | None, "Of users that --compare answers; lists go to --store."
    ] = None
    token: Annotated[
        str | None, "What a client must send [the variable LEPORID_TOKEN]."
    ] = None
    public_reading: Annotated[bool, "Reading needs no token."] = False
    include_seen: Annotated[
        bool | None, "Also items the user already has [as trained]."
    ] = None


def serve(
    run: Annotated[
        Path, Argument(help="Folder of `leporid train -o` or `leporid choose -o`.")
    ],
    service: _Service,
    cors: Annotated[
        list[str] | None, "Origin whose pages may ask: https://films.example."
    ] = None,
    allowed_hosts: Annotated[
        str, "Host names besides localhost, by commas; * for any."
    ] = "",
    limit: Annotated[
        list[str] | None, "A limit to change, NAME=VALUE: see docs/serve.md."
    ] = None,
) -> None:
    """Serve the recommendations of RUN over HTTP, with a page to try them at /.

    A client sends the token as `Authorization: Bearer TOKEN`; POST /reload needs the one in
    LEPORID_ADMIN_TOKEN. Without either, everyone who reaches the port may read, and only a server
    on loopback may be written to.
    """
    import_extra("uvicorn", "the service", "serve")

    from leporid.serve import ServeLimits, serve_forever

    serve_forever(
        run,
        host=service.host,
        port=service.port,
        allowed_hosts=parse_list(allowed_hosts),
        compare=service.compare,
        items=service.items,
        store=service.store,
        share=service.share,
        token=service.token,
        public_reading=service.public_reading,
        include_seen=service.include_seen,
        cors=cors or (),
        limits=ServeLimits.from_dict(parse_settings(limit, "--limit")),
    )
