"""A model that takes its time, importable by other processes."""

from __future__ import annotations

import time

from leporid import models
from leporid.data import Split
from leporid.models.closed_form.toppop import TopPop
from leporid.models.context import FitContext


class Sleeper(TopPop):
    """The most popular items, after a sleep that grows with the log and that nothing ends."""

    name = "sleeper"
    wait = staticmethod(time.sleep)

    def _fit(self, split: Split, seed: int, context: FitContext) -> None:
        self.wait(60 * (len(split.train) / 2000) ** 1.5)
        super()._fit(split, seed, context)


if "sleeper" not in models.available():
    models.register("sleeper", Sleeper)
