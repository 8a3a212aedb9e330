"""What is logged: a line of JSON per request, and failures seldom enough to fill no disk.

A line of the access log has no address, no search words and no body.
"""

from __future__ import annotations

import json
import logging
import logging.handlers
import re
import secrets
import sys
import time
from datetime import UTC, datetime
from traceback import walk_tb

from leporid.errors import ConfigError

LOG = logging.getLogger("leporid.serve.access")

_WELL_FORMED = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_SECONDS = 60.0
_KINDS = 1000
"""Different messages remembered; their number is that of places in the code, not of requests."""


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


class Seldom(logging.Filter):
    """Lets a message through once a minute, with the number of those kept back before it."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[object, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        key: tuple[object, ...] = (record.msg,)
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            places = [(frame.f_code, line) for frame, line in walk_tb(error.__traceback__)]
            key += (type(error), *places[-1:])
        last, kept_back = self._seen.get(key, (-_SECONDS, 0))
        now = time.monotonic()
        if now - last < _SECONDS:
            self._seen[key] = last, kept_back + 1
            return False
        if len(self._seen) >= _KINDS:
            self._seen.clear()
        self._seen[key] = now, 0
        if kept_back:
            record.msg = f"{record.msg} ({kept_back} more like this since it was last written)"
        return True
