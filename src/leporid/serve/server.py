"""One uvicorn process for one application."""

from __future__ import annotations

import gc
import logging
import socket
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from leporid.errors import ConfigError, MissingExtraError


def serve_forever(
    run: str | Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    access_log: str | None = None,
    allowed_hosts: Iterable[str] = (),
    **options: Any,
) -> None:
    """Serve until interrupted; prints the address once it accepts connections.

    A request must name `host`, localhost, the address it came to or one of `allowed_hosts` as its
    host; '*' among those lets every name pass. `access_log` is a file, or `-` for standard output.
    `options` are those of `create_app`.
    """
    try:
        import uvicorn

        from leporid.serve.app import create_app
        from leporid.serve.timing import BoundedConnection, TimedServer
    except ImportError as error:
        raise MissingExtraError("the service", "serve") from error
    from leporid.serve.access import is_loopback
    from leporid.serve.monitoring import LogRateLimit, write_access_log

    with _listen(host, port) as listening:
        hosts = {host, "localhost", *allowed_hosts}
        if access_log is not None:
            write_access_log(access_log)
        local = is_loopback(listening.getsockname()[0])
        names = None if "*" in hosts else hosts
        app = create_app(run, allowed_hosts=names, local=local, **options)
        service = app.state.service
        service.after_load = _settle
        _settle()
        # From here on a connection waits instead of being refused, so the line below is true.
        listening.listen(2048)
        address = listening.getsockname()
        for served in service.run_infos():
            print(f"{served['label']}: {served['fitted']}", file=sys.stderr, flush=True)
        print(app.state.access.sentence(), file=sys.stderr, flush=True)
        shown = f"[{address[0]}]" if ":" in address[0] else address[0]
        print(f"serving {run} on http://{shown}:{address[1]} (Ctrl-C stops)", flush=True)
        settings = uvicorn.Config(
            app,
            http=BoundedConnection,
            ws="none",
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_keep_alive=service.limits.keep_alive_seconds,
            timeout_graceful_shutdown=service.limits.shutdown_seconds,
        )
        logging.getLogger("uvicorn.error").addFilter(LogRateLimit())
        TimedServer(settings, service.limits, service.metrics).run(sockets=[listening])


def _settle() -> None:
    """Take what is loaded out of garbage collection.

    Torch and numba leave a million objects behind; looking through all of them now and then would
    stop every request for a quarter of a second. What a reload has replaced is collected first.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _listen(host: str, port: int) -> socket.socket:
    """Taken before the model is loaded: a port in use is known at once."""
    if not 0 <= port <= 65535:
        raise ConfigError(f"--port must be in 0 .. 65535, not {port}")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # asyncio turns Nagle's algorithm off only where the protocol is named: without it every
        # answer, sent as head and body, would wait 40 ms for the client's acknowledgement.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except OSError as error:
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    return listening
