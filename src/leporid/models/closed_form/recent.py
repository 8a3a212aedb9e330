"""Recent: the same list for everyone, the items with the most interactions of the last days."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from leporid.data import Split
from leporid.errors import warn
from leporid.foundation import Config, Float, SearchSpace, setting
from leporid.models.closed_form.toppop import TopPop
from leporid.models.context import FitContext

_LAST_SHARE = 0.1
"""Interactions that are the newest where the unit of the times is not known."""


@dataclass(frozen=True, kw_only=True)
class RecentConfig(Config):
    days: float = setting(7.0, above=0)
    """How far back from the newest training interaction. Where the times are no seconds, milli- or
    microseconds since 1970, the newest tenth of the interactions counts instead."""


class Recent(TopPop):
    """Score of an item: its training interactions of the last `days`.

    Those of all time decide between equals. A log without times is ranked as by TopPop, with a
    `LeporidWarning`.
    """

    name = "recent"
    config_class = RecentConfig
    config: RecentConfig
    search_space: ClassVar[SearchSpace] = {"days": Float(1.0, 365.0, log=True)}

    def _fit(
        self,
        split: Split,
        seed: int,
        context: FitContext,
    ) -> None:
        train = split.train.target_events
        newest = np.zeros(split.n_items, np.int64)
        if train.time is None:
            warn(
                "the training part has no times: recent ranks by the interactions of all time",
                4,
            )
        else:
            oldest = np.quantile(train.time, 1 - _LAST_SHARE, method="higher")
            if train.ticks_per_day is not None:
                oldest = train.time.max() - self.config.days * train.ticks_per_day
            recent_items = train.item[train.time >= oldest]
            newest = np.bincount(recent_items, minlength=split.n_items)
        popularity = train.popularity
        ties = popularity / (1 + popularity.max())
        self.popularity = (newest + ties).astype(np.float32)
