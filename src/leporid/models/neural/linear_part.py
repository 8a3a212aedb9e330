"""`LinearPart`: what a sparse item-to-item matrix says of a user's items, beside a network.

A network reads a few recent items. Where a log has no order, a linear model of the whole profile
says more. The scores are then those of the network plus a gain times those of SLIM, which is fitted
on its own in seconds; the training of the network is the same with and without it.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from leporid.data import Interactions, Sequences, Split
from leporid.errors import DataError, warn
from leporid.graph import canonical
from leporid.models import registry as catalogue
from leporid.models.closed_form.history_window import (
    MAX_SCORES,
    choose_history_window,
    ndcg_per_user,
    sample_validation_users,
)
from leporid.models.neural.settings import TrainingConfig
from leporid.ranking import Indices, Scores

GAINS = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
PENALTIES = ((1.0, 100.0), (3.0, 30.0))
"""L1 and L2 of the SLIMs that are tried: for sparse logs, and for dense ones without order."""
_PAIRS = 5e7
"""Pairs of items that share a user, at most: SLIM holds their counts in memory."""
_USERS = 10_000
"""Validation users who choose the gain, at most; fewer beyond 40,000 items."""
_PREFIX = "linear."


class LinearPart(NamedTuple):
    """A fitted SLIM and the weight of its scores."""

    model: Any
    gain: float

    def scores(self, histories: Sequences) -> Scores:
        """float32[len(histories), n_items], without the gain; zero without a history."""
        return cast(Scores, self.model.score_profile(histories))

    def add(self, scores: Tensor, histories: Sequences) -> Tensor:
        """To the network's scores of the same users, in place."""
        linear = torch.from_numpy(self.scores(histories)).to(scores.device)
        return scores.add_(linear.mul_(self.gain))

    def extended(
        self, merged: Interactions, like: sparse.csr_array | None = None
    ) -> Self:
        """The same for a log with more users and items.

        like: csr[items, merged.n_items], of which items a new one is the mean; None has no weights.
        """
        old = self.model
        n, place = len(old.items), merged.items.encode(old.items.ids)
        moved = sparse.csr_array(
            (np.ones(n, np.float32), (np.arange(n), place)), (n, len(merged.items))
        )
        new = _empty(merged, **old.config.to_dict())
        new._remember(merged)
        columns = old.weights @ (moved if like is None else moved + like)
        new.weights = canonical(sparse.csr_array(moved.T @ columns))
        return type(self)(new, self.gain)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a saved model keeps of it."""
        config = self.model.config
        settings = np.array([self.gain, config.window or 0, config.repeats], np.float64)
        arrays = {"settings": settings, **self.model._arrays()}
        return {_PREFIX + name: array for name, array in arrays.items()}

    @classmethod
    def taken_from(
        cls, arrays: dict[str, NDArray[Any]], train: Interactions
    ) -> Self | None:
        """Of the arrays of a saved model, out of which its own are taken."""
        names = [name for name in arrays if name.startswith(_PREFIX)]
        own = {name.removeprefix(_PREFIX): arrays.pop(name) for name in names}
        if not own:
            return None
        settings = own.pop("settings", np.empty(0))
        if (
            settings.shape != (3,)
            or settings.dtype != np.float64
            or not (settings >= 0).all()
        ):
            raise DataError(
                "linear.settings is not a gain, a window and a weight of repeats"
            )
        window = int(min(settings[1], 2**31)) or None
        model = _empty(train, window=window, repeats=float(settings[2]))
        model._restore(own)
        return cls(model, float(settings[0]))


def _slim(**settings: Any) -> Any:
    """By its name: models import what they share, not the other way round."""
    return catalogue.get("slim")(**settings)


def _empty(train: Interactions, **settings: Any) -> Any:
    model = _slim(**settings)
    model._train = model._known = train
    return model


def fit_linear_part(
    network: Callable[[Indices, Sequences], Scores],
    config: TrainingConfig,
    split: Split,
) -> LinearPart | None:
    """SLIM beside a trained network; its gain is a number, or "auto": chosen on validation."""
    gain, penalties = config.linear_gain, config.linear_penalties
    if gain == 0 or (gain == "auto" and not len(split.valid.goals)):
        return None
    lengths = np.bincount(split.train.user).astype(np.float64)
    if gain == "auto" and min(np.square(lengths).sum(), split.n_items**2) > _PAIRS:
        text = f"{split.n_items:,} items with long histories are too many for a linear part in "
        warn(f"{text}passing: linear_gain is 0, compare with SLIM")
        return None
    choice = penalties is None and len(split.valid.goals)
    pairs = PENALTIES if choice else [penalties or PENALTIES[0]]
    window = choose_history_window(split.train)
    models = [
        _slim(l1=l1, l2=l2, window=window).fit(split, progress=False)
        for l1, l2 in pairs
    ]
    fitted = [LinearPart(model, 1.0) for model in models]
    best, known = fitted[0], split.train.sequences()
    if len(fitted) > 1:
        users, part = sample_validation_users(split)
        histories = known.take(users)
        best = max(
            fitted,
            key=lambda one: ndcg_per_user(one.scores(histories), users, part).mean(),
        )
    if gain == "auto":
        gain = choose_gain(
            lambda some: network(some, known),
            lambda some: best.scores(known.take(some)),
            split,
        )
    return best._replace(gain=float(gain)) if gain else None


def resolved_config(config: TrainingConfig, part: LinearPart | None) -> TrainingConfig:
    """With what was chosen: a refit on everything has no validation to choose by."""
    if part is None:
        return config.replace(linear_gain=0.0)
    slim = part.model.config
    return config.replace(linear_gain=part.gain, linear_penalties=(slim.l1, slim.l2))


def choose_gain(
    network: Callable[[Indices], Scores],
    linear: Callable[[Indices], Scores],
    split: Split,
) -> float:
    """The gain with the highest NDCG@10 on validation; of equal ones the smallest.

    Later items want it too: on splits inside train and validation no other rule came as close to
    what the last part wanted (docs/models.md).
    """
    users, part = sample_validation_users(
        split, max(1, min(_USERS, 10 * MAX_SCORES // split.n_items))
    )
    sums = dict.fromkeys(GAINS, 0.0)
    for some in np.array_split(users, -(-len(users) * split.n_items // MAX_SCORES)):
        own = dataclasses.replace(
            part, valid=part.valid.select(np.isin(part.valid.user, some))
        )
        ours, theirs = network(some), linear(some)
        for gain in GAINS:
            sums[gain] += ndcg_per_user(
                ours + np.float32(gain) * theirs, some, own
            ).sum()
    return max(sums, key=sums.__getitem__)
