"""`LinearPart`: what a sparse item-to-item matrix says of a user's items, beside a network.

A network reads a few recent items. Where a log has no order, a linear model of the whole profile
says more. The scores are then those of the network plus a gain times those of SLIM, which is fitted
on its own in seconds; the training of the network is the same with and without it.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple, Self

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from leporid.data import Interactions, Sequences, Split
from leporid.errors import DataError, warn
from leporid.graph import canonical
from leporid.models.closed_form.history_window import (
    MAX_SCORES,
    choose_history_window,
    ndcg_per_user,
    sample_validation_users,
)
from leporid.models.closed_form.slim import SLIM, SLIMConfig
from leporid.models.fitted_arrays import Arrays
from leporid.models.neural.settings import TrainingConfig
from leporid.ranking import Indices, Scores

GAINS = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
PENALTIES = ((1.0, 100.0), (3.0, 30.0))
"""L1 and L2 of the SLIMs that are tried: for sparse logs, and for dense ones without order."""
_PAIRS = 5e7
"""Largest number of item pairs that share a user: SLIM holds their counts in memory."""
_USERS = 10_000
"""Largest number of validation users who choose the gain; fewer beyond 40,000 items."""
_PREFIX = "linear."
"""Beginning of the names of the saved arrays."""


class LinearPart(NamedTuple):
    """A fitted SLIM and the weight of its scores."""

    model: SLIM
    gain: float

    def scores(self, histories: Sequences) -> Scores:
        """Return float32[len(histories), n_items], without the gain; zero without a history."""
        return self.model.score_profile(histories)

    def add(self, scores: Tensor, histories: Sequences) -> Tensor:
        """Add the linear scores to the network's scores of the same users, in place."""
        linear = torch.from_numpy(self.scores(histories)).to(scores.device)
        return scores.add_(linear.mul_(self.gain))

    def extended(
        self,
        merged: Interactions,
        shares: sparse.csr_array | None = None,
    ) -> Self:
        """Return the part for interactions with more users and items.

        shares: csr[items, merged.n_items], of which items a new one is the mean; None gives new
        items no weights.
        """
        slim = self.model
        n_items = len(slim.items)
        place = merged.items.encode(slim.items.ids)
        ones = np.ones(n_items, np.float32)
        moved = sparse.csr_array(
            (ones, (np.arange(n_items), place)),
            (n_items, len(merged.items)),
        )
        columns = slim.weights @ (moved if shares is None else moved + shares)
        extended = _empty_slim(merged, slim.config)
        extended._remember(merged)
        extended.weights = canonical(sparse.csr_array(moved.T @ columns))
        return self._replace(model=extended)

    def arrays(self) -> Arrays:
        """Return what a saved model keeps."""
        config = self.model.config
        numbers = [self.gain, config.window or 0, config.repeats]
        settings = np.array(numbers, np.float64)
        arrays = {"settings": settings} | self.model._arrays()
        return {_PREFIX + name: array for name, array in arrays.items()}

    @classmethod
    def taken_from(cls, arrays: Arrays, train: Interactions) -> Self | None:
        """Take out of `arrays` what `arrays()` gave; None if there is nothing."""
        names = [name for name in arrays if name.startswith(_PREFIX)]
        stored = {name.removeprefix(_PREFIX): arrays.pop(name) for name in names}
        if not stored:
            return None
        settings = stored.pop("settings", np.empty(0))
        if (
            settings.shape != (3,)
            or settings.dtype != np.float64
            or not (settings >= 0).all()
        ):
            raise DataError(
                "linear.settings is not a gain, a window and a weight of repeats"
            )
        gain, window, repeats = settings.tolist()
        whole_window = int(min(window, 2**31))
        config = SLIMConfig(window=whole_window or None, repeats=repeats)
        model = _empty_slim(train, config)
        model._restore(stored)
        return cls(model, gain)


def _empty_slim(train: Interactions, config: SLIMConfig) -> SLIM:
    """Return a SLIM for these interactions whose weights are still to be set."""
    model = SLIM(config)
    model._train = train
    model._known = train
    return model


def fit_linear_part(
    network: Callable[[Indices, Sequences], Scores],
    config: TrainingConfig,
    split: Split,
) -> LinearPart | None:
    """Fit SLIM beside a trained network; its gain is a number, or "auto": chosen on validation."""
    gain = config.linear_gain
    validates = len(split.valid.target_events) > 0
    if gain == 0 or (gain == "auto" and not validates):
        return None
    if gain == "auto" and _item_pairs(split) > _PAIRS:
        warn(
            f"{split.n_items:,} items with long histories are too many for a linear part in "
            f"passing: linear_gain is 0, compare with SLIM"
        )
        return None
    slim = _fit_slim(config, split)
    if gain == "auto":
        histories = split.train.sequences()
        gain = choose_gain(
            lambda users: network(users, histories),
            lambda users: slim.score_profile(histories.take(users)),
            split,
        )
    return LinearPart(slim, float(gain)) if gain else None


def _item_pairs(split: Split) -> float:
    """Bound the number of item pairs that share a user."""
    lengths = np.bincount(split.train.user).astype(np.float64)
    by_user = float(np.square(lengths).sum())
    return min(by_user, split.n_items**2)


def _fit_slim(config: TrainingConfig, split: Split) -> SLIM:
    """Fit SLIM with the penalties of the settings, or with those that validation prefers."""
    tried: tuple[tuple[float, float], ...] = PENALTIES
    if config.linear_penalties is not None:
        tried = (config.linear_penalties,)
    elif not len(split.valid.target_events):
        tried = PENALTIES[:1]
    window = choose_history_window(split.train)
    models = []
    for l1, l2 in tried:
        slim_config = SLIMConfig(l1=l1, l2=l2, window=window)
        models.append(SLIM(slim_config).fit(split, progress=False))
    if len(models) == 1:
        return models[0]
    users, part = sample_validation_users(split)
    histories = split.train.sequences().take(users)
    return max(
        models,
        key=lambda slim: ndcg_per_user(
            slim.score_profile(histories), users, part
        ).mean(),
    )


def resolved_config(config: TrainingConfig, part: LinearPart | None) -> TrainingConfig:
    """Return the settings with what was chosen: a refit has no validation to choose by."""
    if part is None:
        return config.replace(linear_gain=0.0)
    slim = part.model.config
    return config.replace(linear_gain=part.gain, linear_penalties=(slim.l1, slim.l2))


def choose_gain(
    network: Callable[[Indices], Scores],
    linear: Callable[[Indices], Scores],
    split: Split,
) -> float:
    """Return the gain with the highest NDCG@10 on validation; of equal ones the smallest.

    Later items want it too: on splits inside train and validation no other rule came as close to
    what the last part wanted (docs/models.md).
    """
    most_users = max(1, min(_USERS, 10 * MAX_SCORES // split.n_items))
    everyone, sample = sample_validation_users(split, most_users)
    n_parts = -(-len(everyone) * split.n_items // MAX_SCORES)
    sums = dict.fromkeys(GAINS, 0.0)
    for users in np.array_split(everyone, n_parts):
        valid = sample.valid.select(np.isin(sample.valid.user, users))
        part = dataclasses.replace(sample, valid=valid)
        network_scores = network(users)
        linear_scores = linear(users)
        for gain in GAINS:
            scores = network_scores + np.float32(gain) * linear_scores
            sums[gain] += ndcg_per_user(scores, users, part).sum()
    return max(sums, key=sums.__getitem__)
