"""The choice of `alpha` and `row_norm` of `leporid` by a probe inside the training data.

The probe never sees validation or test: the newest tenth of each user's training interactions is
held out, every candidate is fitted on the rest, and its item vectors predict what was held out.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from leporid import evaluation
from leporid.data import Interactions, Split, random_split, temporal_split
from leporid.embeddings.row_norm import RowNorm, with_row_norm
from leporid.embeddings.vectors import InitialEmbeddings
from leporid.foundation import JsonValue

MOST_USERS = 25_000
"""Users whose held-out interactions are predicted, drawn where there are more of them."""


class ProbedSettings(NamedTuple):
    """Settings of `leporid` that the probe can choose, and how well they predict."""

    alpha: float
    row_norm: RowNorm
    popularity_power: float
    ndcg: float
    """NDCG@10 on the held-out training interactions."""

    def settings(self) -> dict[str, JsonValue]:
        """Return the settings alone."""
        return {
            "alpha": self.alpha,
            "row_norm": self.row_norm,
            "popularity_power": self.popularity_power,
        }


def try_settings(
    fit: Callable[[Interactions, float], InitialEmbeddings],
    train: Interactions,
    alphas: Sequence[float],
    shapes: Sequence[tuple[RowNorm, float]],
) -> list[ProbedSettings]:
    """Probe every combination of an alpha and a shape: `row_norm` and `popularity_power`.

    `fit(part, alpha)` gives embeddings whose rows have their own lengths.
    """
    split = with_fewer_users(inner_split(train))
    matrix = split.train.csr()
    candidates = []
    for alpha in alphas:
        embeddings = fit(split.train, alpha)
        for row_norm, power in shapes:
            shaped = with_row_norm(embeddings, matrix, row_norm, power)
            quality = evaluation.probe((None, shaped.items.vectors), split).value()
            candidates.append(ProbedSettings(alpha, row_norm, power, quality["items"]))
    return candidates


def with_fewer_users(split: Split, most: int = MOST_USERS) -> Split:
    """Keep the validation part of at most so many users; fits still have all the users."""
    users = np.unique(split.valid.user)
    if len(users) <= most:
        return split
    kept = np.random.default_rng(0).choice(users, most, replace=False)
    return replace(split, valid=split.valid.select(np.isin(split.valid.user, kept)))


def inner_split(train: Interactions) -> Split:
    """Hold out the newest tenth of each user's training data for validation; no test part."""
    if train.has_order:
        return temporal_split(train, 0.9, 0.1)
    return random_split(train, 0.9, 0.1)
