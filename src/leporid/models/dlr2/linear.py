"""The linear part of DLR2: what a sparse item-to-item matrix says of a user's items.

The network reads a few recent items. Where a log has no order, a linear model of the whole profile
says more. The scores are then those of the network plus `linear_gain` times those of SLIM, which is
fitted on its own in seconds; the training of the network is the same with and without it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.data import Interactions, Sequences, Split
from leporid.errors import DataError
from leporid.evaluation import evaluate
from leporid.models.shared.lists import Indices, Scores
from leporid.models.shared.sparse import canonical
from leporid.models.slim import SLIM

GAINS = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
_USERS, _SCORES = 2000, 40_000_000
"""Users of the validation part that choose the gain, and the scores they may have in all."""
_PREFIX = "linear."


def linear_scores(model: SLIM, histories: Sequences) -> Scores:
    """float32[len(histories), n_items]; zero for a user without history."""
    return model._score_profiles(model._profiles(histories), None)


def choose_gain(
    network: Callable[[Indices, Sequences], Scores], linear: SLIM, split: Split
) -> float:
    """The smallest gain that is within one standard error of the best, by NDCG@10 on validation.

    The smallest, since the first items after the training part are those a linear model knows best:
    a gain that is best there is too large for later ones.
    """
    users = np.unique(split.valid.user)
    most = min(_USERS, _SCORES // split.n_items)
    if len(users) > most:
        users = np.sort(np.random.default_rng(0).choice(users, most, replace=False))
    if not len(users):
        return 0.0
    keep = np.isin(split.valid.user, users)
    part = dataclasses.replace(split, valid=split.valid.select(keep))
    known = split.train.sequences()
    parts = network(users, known), linear_scores(linear, known.take(users))

    def quality(gain: float) -> NDArray[np.float64]:
        def score(some: Indices, _: Sequences) -> Scores:
            rows = np.searchsorted(users, some)
            return parts[0][rows] + np.float32(gain) * parts[1][rows]

        table = evaluate(score, part, at=(10,), part="valid", metrics=("NDCG",))
        return table.per_user("NDCG@10")

    values = {gain: quality(gain) for gain in GAINS}
    best = max(values.values(), key=np.mean)
    lost = {gain: best - value for gain, value in values.items()}
    return min(g for g, x in lost.items() if x.mean() <= x.std() / np.sqrt(len(x)))


def extended(model: SLIM, merged: Interactions) -> SLIM:
    """The linear part of a log with more items, which have no weights."""
    weights = model.weights.tocoo()
    place = merged.items.encode(model.items.ids)
    shape = (merged.n_items, merged.n_items)
    new = SLIM(model.config)
    new._train = new._known = merged
    new._remember(merged)
    new.weights = canonical(
        sparse.csr_array((weights.data, (place[weights.row], place[weights.col])), shape=shape)
    )
    return new


def to_arrays(model: SLIM | None) -> dict[str, NDArray[Any]]:
    """What a saved DLR2 keeps of its linear part."""
    if model is None:
        return {}
    window = np.array([model.config.window or 0], dtype=np.int64)
    arrays = {"window": window, **model._arrays()}
    return {_PREFIX + name: array for name, array in arrays.items()}


def taken_from(arrays: dict[str, NDArray[Any]], train: Interactions) -> SLIM | None:
    """The linear part among the arrays of a saved DLR2, which are taken out of them."""
    names = [name for name in arrays if name.startswith(_PREFIX)]
    own = {name.removeprefix(_PREFIX): arrays.pop(name) for name in names}
    if not own:
        return None
    window = own.pop("window", np.empty(0))
    if window.shape != (1,) or window.dtype != np.int64:
        raise DataError("linear.window is not one whole number")
    model = SLIM(window=int(window[0]) or None)
    model._train = model._known = train
    model._restore(own)
    return model
