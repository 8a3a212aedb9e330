"""What a fit will take: seconds measured on small shares of the users and items."""

from __future__ import annotations

import contextlib
import math
import time
import warnings
from collections.abc import Callable, Sequence

import numpy as np

from leporid.data import Interactions, Split
from leporid.errors import LeporidError, LeporidWarning
from leporid.initializers import initial_embeddings
from leporid.models import Recommender

_TINY, _SMALL, _LARGER = 1 / 16, 1 / 8, 1 / 4
_PATIENCE = 4.0
"""Seconds: a fit is timed again while all took less."""
_FEW = 100
"""Users of vectors that nobody wants."""
_STEEPEST = 3.0
"""The power of the share that fits grow with at most: a dense inverse of the items, or pairs of
items in histories."""


def predict_seconds(
    fit: Callable[[Split], object],
    stage: Split,
    enough: float,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[float, float]:
    """Seconds that `fit(stage)` is expected to take, and may take at worst.

    Where even those are less than `enough`, or a small share takes a good part of it, nothing more
    is measured.
    """
    fit(share_of(stage, _TINY))  # loads or compiles what the model needs
    tiny = _timed(fit, share_of(stage, _TINY), clock)
    if tiny >= enough / 2:
        return tiny / _TINY, tiny / _TINY**_STEEPEST
    small = _timed(fit, share_of(stage, _SMALL), clock)
    at_worst = small / _SMALL**_STEEPEST
    if at_worst <= enough or small / _SMALL >= enough:
        return small / _SMALL, at_worst
    larger = _timed(fit, share_of(stage, _LARGER), clock)
    power = max(math.log(larger / small) / math.log(_LARGER / _SMALL), 1.0)
    return larger / _LARGER ** min(power, _STEEPEST), larger / _LARGER**_STEEPEST


def prepare_start(split: str | Interactions, name: str) -> None:
    """Vectors of a few users, so that the loops behind them are compiled."""
    train = split if isinstance(split, Interactions) else Split.load(split).train
    with contextlib.suppress(LeporidError):
        initial_embeddings(name, train.select(train.user < _FEW), cache=False, dim=4)


def share_of(split: Split, share: float) -> Split:
    """The training part of a share of the users and of the items, as a log of its own."""
    train, rng = split.train, np.random.default_rng(0)
    users, items = (
        rng.permutation(n) < math.ceil(share * n) for n in (train.n_users, train.n_items)
    )
    few = train.select(users[train.user] & items[train.item])
    if len(few) == 0:  # a log this small is no question of time
        few = train.select(np.arange(1))
    # Users are left out, which is meant.
    with warnings.catch_warnings(action="ignore", category=LeporidWarning):
        few = few.core(1)
    nothing = few.select(np.empty(0, np.int64))
    return Split(few, nothing, nothing, split.protocol)


def _timed(fit: Callable[[Split], object], split: Split, clock: Callable[[], float]) -> float:
    """The best of three, as long as they are quick: a busy machine makes any of them too long."""
    times: list[float] = []
    while len(times) < 3 and sum(times) < _PATIENCE:
        begun = clock()
        fit(split)
        times.append(clock() - begun)
    return max(min(times), 1e-4)


def request_milliseconds(
    models: Sequence[Recommender], clock: Callable[[], float], rounds: int = 5
) -> list[float]:
    """The quickest request (ten items, one user) of each model.

    The models take turns, so that whatever else the machine does slows all of them.
    """
    one, best = np.zeros(1, np.int32), [math.inf] * len(models)
    for _ in range(rounds):
        for place, model in enumerate(models):
            begun = clock()
            model.top_k(one, 10)
            best[place] = min(best[place], 1000 * (clock() - begun))
    return best
