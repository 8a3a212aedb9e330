"""The access log: one line of JSON per request, without addresses, search words or bodies."""

from __future__ import annotations

import json
import logging
import logging.handlers
import re
import secrets
import sys
from datetime import UTC, datetime

from leporid.errors import ConfigError

LOG = logging.getLogger("leporid.serve.access")

_WELL_FORMED = re.compile(rb"[A-Za-z0-9._-]{1,64}")


def request_id(sent: bytes | None) -> str:
    """The client's own id where it is one, else a new one."""
    if sent is not None and _WELL_FORMED.fullmatch(sent):
        return sent.decode()
    return secrets.token_hex(8)


def log_request(identity: str, method: str, route: str, status: int, seconds: float) -> None:
    """Write one line; `route` is the pattern, in which no id occurs."""
    if LOG.isEnabledFor(logging.INFO):
        line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "id": identity}
        about = {"method": method, "route": route, "status": status, "ms": round(seconds * 1e3, 3)}
        LOG.info(json.dumps(line | about))


def write_access_log(where: str) -> None:
    """Append to a file, which may be rotated by renaming it; `-` is standard output."""
    try:
        # Opened again where another file has its name, on systems that can tell.
        handler = (
            logging.StreamHandler(sys.stdout)
            if where == "-"
            else logging.handlers.WatchedFileHandler(where, encoding="utf-8")
        )
    except OSError as error:
        raise ConfigError(f"cannot write the access log {where}: {error.strerror}") from error
    LOG.handlers, LOG.propagate = [handler], False
    LOG.setLevel(logging.INFO)
