"""How much of a history closed-form models read, and what having an item adds to its score.

Both belong to a data set, not to one model: linear, neighbour and factor models agree on them. So
item neighbours, which take a second, find them, and the window of a training part is kept.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from leporid.data import Interactions, Sequences, Split, temporal_split
from leporid.evaluation import evaluate
from leporid.foundation import OneOf, SearchSpace
from leporid.graph import canonical, top_k_neighbours
from leporid.models.closed_form.products import rows_times
from leporid.ranking import Indices, Scores

Key = TypeVar("Key")
PerUser = NDArray[np.float64]
"""float64[m]: one value for each user."""

WINDOWS = (None, 20, 10, 5)
"""The windows that are tried, the longest first; None reads the whole history."""
WINDOW_SPACE: SearchSpace = {"window": OneOf("auto", *WINDOWS)}
REPEAT_WEIGHTS = (0.0, 0.125, 0.25, 0.5, 1.0, 2.0)
"""The weights of known items that are tried, in units of a user's mean largest score."""
NEIGHBOURS = 100
SHRINK = 20.0
MAX_VALIDATION_USERS = 2000
MAX_SCORES = 40_000_000
"""Scores that a choice on validation users holds in memory."""

_known_windows: WeakKeyDictionary[Interactions, int | None] = WeakKeyDictionary()


def choose_history_window(train: Interactions) -> int | None:
    """Choose how many recent items closed-form models read from a history.

    Item neighbours are fitted on the first 80% of each user's interactions and rank the other
    20%. The longest window whose NDCG@10 lies within one standard error of the best one wins: a
    longer window is the simpler model.

    Returns None, the whole history, if the interactions have no order or too few users to tell.
    """
    if train not in _known_windows:
        _known_windows[train] = _find_history_window(train)
    return _known_windows[train]


def _find_history_window(train: Interactions) -> int | None:
    """Choose a history window without looking whether it is known."""
    if not train.has_order:
        return None
    inner = hold_out_last_fifth(train, include_seen=train.repeats > 0)
    users, part = sample_validation_users(inner)
    if not len(users):
        return None

    score = neighbour_scores(inner, users)
    ndcg_by_window: dict[int | None, PerUser] = {}
    for window in WINDOWS:
        ndcg_by_window[window] = ndcg_per_user(score(window), users, part)
    return first_within_one_standard_error(ndcg_by_window)


def choose_repeat_weight(split: Split, window: int | None) -> float:
    """Choose what having an item once adds to its score, in units of a user's largest score.

    Item neighbours rank the validation part, or the last fifth of each history without one; the
    weight with the highest NDCG@10 wins.
    """
    if not len(split.valid.target_events) and split.train.has_order:
        split = hold_out_last_fifth(split.train, include_seen=True)
    users, part = sample_validation_users(split)
    if not len(users):
        return 1.0

    scores = neighbour_scores(split, users)(window)
    histories = split.train.sequences().take(users)
    unit = float(scores.max(axis=1).mean())
    ndcg_by_weight = {}
    for weight in REPEAT_WEIGHTS:
        with_repeats = add_repeats(scores.copy(), histories, weight * unit)
        ndcg_by_weight[weight] = ndcg_per_user(with_repeats, users, part).mean()
    return max(ndcg_by_weight, key=ndcg_by_weight.__getitem__)


def add_repeats(
    scores: Scores,
    histories: Sequences,
    weight: float,
) -> Scores:
    """Add `weight` for each interaction of a history to the score of its item, in place."""
    if weight:
        counts = histories.decayed_counts(scores.shape[1])
        lengths = np.diff(counts.indptr)
        rows = np.repeat(np.arange(len(histories)), lengths)
        scores[rows, counts.indices] += np.float32(weight) * counts.data
    return scores


def hold_out_last_fifth(train: Interactions, include_seen: bool) -> Split:
    """Split the training part once more: the last fifth of each history validates."""
    split = temporal_split(train, train=0.8, valid=0.2)
    return dataclasses.replace(split, include_seen=include_seen)


def sample_validation_users(
    split: Split,
    most: int | None = None,
) -> tuple[Indices, Split]:
    """Draw users of the validation part, and return them with the split that they validate."""
    users = np.unique(split.valid.target_events.user)
    most = most or most_validation_users(split)
    if len(users) > most:
        drawn = np.random.default_rng(0).choice(users, most, replace=False)
        users = np.sort(drawn)
    valid = split.valid.select(np.isin(split.valid.user, users))
    part = dataclasses.replace(split, valid=valid)
    return users, part


def most_validation_users(split: Split) -> int:
    """Return how many users a choice is made on, at most."""
    affordable = MAX_SCORES // split.n_items
    return max(1, min(MAX_VALIDATION_USERS, affordable))


def neighbour_scores(split: Split, users: Indices) -> Callable[[int | None], Scores]:
    """Fit item neighbours on the training part; return their scores for users by window."""
    k = min(NEIGHBOURS, split.n_items - 1)
    by_item = canonical(split.train.csr().T)
    neighbours = top_k_neighbours(by_item, k, shrink=SHRINK)
    weights = canonical(neighbours.csr().T)
    histories = split.train.sequences().take(users)

    def score(window: int | None) -> Scores:
        recent = histories if window is None else histories.last(window)
        return rows_times(recent.csr(split.n_items), weights)

    return score


def ndcg_per_user(
    scores: Scores,
    users: Indices,
    part: Split,
) -> PerUser:
    """Return NDCG@10 on validation of each of the users, who have a row of the scores each."""

    def score(chunk: Indices, _: Sequences) -> Scores:
        return scores[np.searchsorted(users, chunk)]

    table = evaluate(
        score,
        part,
        at=(10,),
        part="valid",
        metrics=("NDCG",),
    )
    return table.per_user("NDCG@10")


def first_within_one_standard_error(values: Mapping[Key, PerUser]) -> Key:
    """Return the first key whose values are, on average, within one standard error of the best."""
    best = max(values.values(), key=np.mean)
    for key, value in values.items():
        loss = best - value
        standard_error = loss.std() / np.sqrt(len(loss))
        if loss.mean() <= standard_error:
            return key
    raise AssertionError("the best values are within one standard error of themselves")
