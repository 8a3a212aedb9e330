"""`ABTest`: users are divided between two runs, and what they are shown is stored."""

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable
from pathlib import Path

from leporid.errors import ConfigError
from leporid.serve.batching import Batcher
from leporid.serve.middleware import LogRateLimit, Metrics
from leporid.serve.store import Impression, StoreRows

_STORE_SECONDS = 0.1
"""Longest time that an answer waits until its impressions are on disk."""
_LOG = logging.getLogger(__name__)
_LOG.addFilter(LogRateLimit())


class ABTest:
    """A test of two runs, which are known by their folders: each user always gets the same one."""

    def __init__(
        self,
        main: str | Path,
        compare: str | Path,
        share: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Give `compare` to a `share` of the users, and `main` to the others."""
        self.main = str(Path(main))
        self.compare = str(Path(compare))
        self.share = share
        self._clock = clock
        self._unfinished: set[asyncio.Task[int]] = set()
        if not 0 < share < 1:
            raise ConfigError(f"--share must be between 0 and 1, not {share}")
        if self.main == self.compare:
            raise ConfigError(
                f"--share needs two runs, and {main} is compared with itself"
            )

    def impression(self, user: str) -> Impression:
        """Return an impression, still without items, of the run that this user always gets.

        A user gets `compare` if the first 8 bytes of SHA-256 of both folders and the user's id, as
        a fraction of 2^64, are below the share.
        """
        text = "\n".join([self.main, self.compare, user])
        digest = hashlib.sha256(text.encode()).digest()
        number = int.from_bytes(digest[:8])
        return Impression(
            main=self.main,
            compare=self.compare,
            run="compare" if number < self.share * 2**64 else "main",
            user=user,
            items=(),
            time=int(self._clock()),
        )

    async def store(
        self,
        impressions: list[Impression],
        client: str,
        writer: Batcher[StoreRows, int],
        metrics: Metrics,
    ) -> int:
        """Store impressions, and return how many are on disk when the answer is sent.

        A slow store writes them after the answer, which does not wait for it.
        """

        async def write() -> int:
            try:
                [stored] = await writer.submit([impressions], client)
            except Exception as error:
                # No answer may fail because of an impression.
                metrics.lost_impressions.inc(len(impressions))
                _LOG.error("impressions are lost: %s", error)
                return 0
            metrics.impressions.inc(stored)
            return stored

        task = asyncio.create_task(write())
        # asyncio holds only a weak reference: the task may be collected before it ends.
        self._unfinished.add(task)
        task.add_done_callback(self._unfinished.discard)
        await asyncio.wait([task], timeout=_STORE_SECONDS)
        return task.result() if task.done() else 0
