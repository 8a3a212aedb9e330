"""`leporid serve`: a trained run as a service, and a page to look at it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("serve")(serve)


def serve(
    run: Annotated[Path, typer.Argument(help="Folder that `leporid train -o` wrote.")],
    compare: Annotated[
        Path | None, typer.Option(help="A second run, shown beside the first.")
    ] = None,
    items: Annotated[
        str | None,
        typer.Option(help="File or data set name with titles [items.parquet beside the run]."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 8000,
    store: Annotated[
        str | None,
        typer.Option(help="SQLite file or postgresql:// URL for new events; else none are kept."),
    ] = None,
) -> None:
    """Serve the recommendations of RUN over HTTP, with a page to try them at /.

    LEPORID_TOKEN allows POST /events to who sends it, LEPORID_ADMIN_TOKEN allows POST /reload;
    without them the server is read-only.
    """
    from leporid.serve.server import serve_forever

    serve_forever(run, compare=compare, items=items, host=host, port=port, store=store)
