"""`ABTest`: users are divided between two runs, and what they are shown is kept."""

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from leporid.errors import ConfigError
from leporid.serve.batching import Batcher
from leporid.serve.middleware import LogRateLimit, Metrics
from leporid.serve.store import Impression

_STORE_SECONDS = 0.1
"""The longest an answer waits for its impressions to be on disk: what a stuck store costs users."""
_LOG = logging.getLogger(__name__)
_LOG.addFilter(LogRateLimit())


class ABTest:
    """Divides users between two runs, which are known by their folders."""

    def __init__(
        self,
        main: str | Path,
        compare: str | Path,
        share: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`share` of the users get `compare`."""
        self.main, self.compare, self.share = str(Path(main)), str(Path(compare)), share
        self._clock = clock
        self._late: set[asyncio.Task[int]] = set()
        if not 0 < share < 1:
            raise ConfigError(f"--share must be between 0 and 1, not {share}")
        if self.main == self.compare:
            raise ConfigError(
                f"--share needs two runs, and {main} is compared with itself"
            )

    def impression(self, user: str) -> Impression:
        """The list that a user is about to be shown, by the run that the user always gets.

        The first 8 bytes of SHA-256 of both folders and the user's id, as a fraction of 2^64, are
        below the share for `compare`.
        """
        digest = hashlib.sha256(
            "\n".join([self.main, self.compare, user]).encode()
        ).digest()
        run = "compare" if int.from_bytes(digest[:8]) < self.share * 2**64 else "main"
        return Impression(self.main, self.compare, run, user, (), int(self._clock()))

    async def keep(
        self,
        shown: list[Impression],
        client: str,
        writing: Batcher[Any, int],
        metrics: Metrics,
    ) -> int:
        """How many are on disk now; a slow store writes them after the answer."""

        async def write() -> int:
            try:
                [stored] = await writing.submit([shown], client)
            except Exception as error:  # no answer may fail because of an impression
                metrics.lost_impressions.inc(len(shown))
                _LOG.error("impressions are lost: %s", error)
                return 0
            metrics.impressions.inc(stored)
            return stored

        task = asyncio.create_task(write())
        self._late.add(task)  # or it may be collected before it ends
        task.add_done_callback(self._late.discard)
        await asyncio.wait([task], timeout=_STORE_SECONDS)
        return task.result() if task.done() else 0
