"""What a fit will take, measured on small shares of the users and items."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable

import numpy as np

from leporid.data import Split
from leporid.errors import LeporidWarning

_TINY, _SMALL, _LARGER = 1 / 16, 1 / 8, 1 / 4
_STEEPEST = 3.0
"""No fit grows faster than this power of the share: a dense inverse by its items, pairs of items in
histories by the users and twice by the items."""


def predict_seconds(fit: Callable[[Split], object], stage: Split, enough: float) -> float:
    """Seconds of `fit(stage)`; where they are surely less than `enough`, what they are less than.

    The first fit is not timed: it loads or compiles what the model needs.
    """
    fit(share_of(stage, _TINY))
    small = _timed(fit, share_of(stage, _SMALL))
    most: float = small / _SMALL**_STEEPEST
    if most <= enough:
        return most
    larger = _timed(fit, share_of(stage, _LARGER))
    power = math.log(larger / small) / math.log(_LARGER / _SMALL)
    return float(larger / _LARGER ** min(max(power, 1.0), _STEEPEST))


def share_of(split: Split, share: float) -> Split:
    """The training part of a share of the users and of the items, as a log of its own."""
    train, rng = split.train, np.random.default_rng(0)
    users, items = (rng.random(n) < share for n in (train.n_users, train.n_items))
    few = train.select(users[train.user] & items[train.item])
    if len(few) == 0:  # a log this small is no question of time
        few = train.select(np.arange(1))
    with warnings.catch_warnings():  # of users left out, which is meant
        warnings.simplefilter("ignore", LeporidWarning)
        few = few.core(1)
    nothing = few.select(np.empty(0, np.int64))
    return Split(few, nothing, nothing, split.protocol)


def _timed(fit: Callable[[Split], object], split: Split) -> float:
    begun = time.perf_counter()
    fit(split)
    return max(time.perf_counter() - begun, 1e-4)
