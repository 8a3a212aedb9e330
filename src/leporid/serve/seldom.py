"""`Seldom`: a log that anonymous requests cannot fill."""

from __future__ import annotations

import logging
import time

_SECONDS = 60.0
_KINDS = 1000
"""Different messages remembered; their number is that of places in the code, not of requests."""


class Seldom(logging.Filter):
    """Lets a message through once a minute, with the number of those kept back before it."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[object, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to write the record."""
        key: tuple[object, ...] = (record.msg,)
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            trace = error.__traceback__
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            key += (type(error), trace and (trace.tb_frame.f_code, trace.tb_lineno))
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
