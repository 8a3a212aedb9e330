"""The weights of closed-form scores beside a network: those with the best validation.

Every combination of weights on a grid is evaluated. That is cheap because each user keeps only the
items that the network or one of the models ranks high: whatever the weights, hardly another item
comes to the top of their sum.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from leporid.data import Sequences, Split
from leporid.evaluation import ndcg
from leporid.models.closed_form.history_window import (
    MAX_SCORES,
    sample_validation_users,
)
from leporid.ranking import Indices, Scores, masked_top_k

_USERS = 10_000
"""Largest number of validation users who choose the weights; fewer beyond 40,000 items."""
_KEPT = 100
"""Items that each user keeps from each component, the highest scores first."""
_RANKS = 10
"""Length of the lists that are evaluated."""


class CandidateScores(NamedTuple):
    """The items that users keep, with the scores of every component and the targets."""

    scores: tuple[Scores, ...]
    """float32[m, n_kept] of each component, the network first; -inf where a row has fewer."""
    is_target: NDArray[np.bool_]
    """bool[m, n_kept]: which of these items validation holds out."""
    n_targets: NDArray[np.int64]
    """int64[m]: how many items validation holds out, kept or not."""

    def ndcg(self, weights: Sequence[float]) -> NDArray[np.float64]:
        """Return NDCG@10 of each user, by the network plus the weighted others."""
        total = self.scores[0].copy()
        for scores, weight in zip(self.scores[1:], weights, strict=True):
            if weight:
                total += np.float32(weight) * scores
        top = masked_top_k(total, _RANKS).items
        hits = np.take_along_axis(self.is_target, top, axis=1) & (top >= 0)
        return ndcg(hits, self.n_targets, _RANKS)


def choose_weights(
    network: Callable[[Indices], Scores],
    models: Sequence[Callable[[Indices], Scores]],
    grids: Sequence[Sequence[float]],
    split: Split,
) -> tuple[float, ...]:
    """Return one weight for each model, of its grid: the highest NDCG@10 on validation.

    Of equal ones the first are taken. Later items want them too: on splits inside train and
    validation no other rule came as close to what the last part wanted (docs/models.md).
    """
    combinations = list(itertools.product(*grids))
    if len(combinations) == 1:
        return combinations[0]
    sums = np.zeros(len(combinations))
    for candidates in candidate_scores([network, *models], split):
        for place, weights in enumerate(combinations):
            sums[place] += candidates.ndcg(weights).sum()
    return combinations[int(sums.argmax())]


def candidate_scores(
    components: Sequence[Callable[[Indices], Scores]], split: Split
) -> Iterator[CandidateScores]:
    """Score validation users with every component, as many at a time as memory allows."""
    most_users = max(1, min(_USERS, 10 * MAX_SCORES // split.n_items))
    sample, _ = sample_validation_users(split, most_users)
    excluded = split.known("valid").excluded_items(split.include_seen)
    targets = split.targets("valid", split.include_seen).sequences()
    everyone = sample[np.diff(targets.indptr)[sample] > 0]
    n_parts = max(1, -(-len(everyone) * split.n_items // MAX_SCORES))
    for users in np.array_split(everyone, n_parts):
        scores = [component(users) for component in components]
        yield _keep_candidates(scores, excluded.take(users), targets.take(users))


def _keep_candidates(
    scores: Sequence[Scores], excluded: Sequences, targets: Sequences
) -> CandidateScores:
    """Keep the items that are not excluded and are among the highest of a component."""
    n_users, n_items = scores[0].shape
    n_kept = min(_KEPT, n_items)
    highest = [masked_top_k(each, n_kept, seen=excluded).items for each in scores]
    items = np.sort(np.concatenate(highest, axis=1), axis=1)
    is_none = items < 0
    is_none[:, 1:] |= items[:, 1:] == items[:, :-1]
    kept = [np.take_along_axis(each, items, axis=1) for each in scores]
    kept[0][is_none] = -np.inf
    n_targets = np.diff(targets.indptr)
    rows = np.repeat(np.arange(n_users), n_targets)
    held_out = rows * n_items + targets.items[targets.indptr[0] : targets.indptr[-1]]
    keys = np.arange(n_users)[:, None] * n_items + items
    return CandidateScores(tuple(kept), np.isin(keys, held_out), n_targets)
