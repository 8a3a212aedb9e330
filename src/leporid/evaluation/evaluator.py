"""`evaluate`: one full ranking of every candidate, for a model or for lists from elsewhere.

Lists come as a `TopK` (indices) or as `Recommendations` (external ids, from a file).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numba import prange
from numpy.typing import NDArray

from leporid.data import Part, Sequences, Split
from leporid.errors import ConfigError, DataError, UnknownNameError
from leporid.evaluation.metric_table import MetricTable
from leporid.evaluation.metrics import FAMILIES
from leporid.evaluation.recommendations import Recommendations
from leporid.evaluation.scorers import (
    Evaluable,
    FittedModel,
    Scores,
    score_function,
)
from leporid.evaluation.strata import popularity_class
from leporid.foundation import (
    Progress,
    checks_arguments,
    chunk_rows,
    described,
    kernel,
    make_progress,
)
from leporid.ranking import (
    BoundRules,
    Indices,
    NanScoreError,
    TopK,
    masked_top_k,
    masked_top_k_torch,
)

if TYPE_CHECKING:
    import torch

Counts: TypeAlias = NDArray[np.int32]


@checks_arguments({"batch_size": 1})
def evaluate(  # noqa: PLR0913 (options are spelled out)
    model: Evaluable,
    split: Split,
    at: Sequence[int] = (1, 5, 10),
    part: Part = "test",
    *,
    batch_size: int | None = None,
    progress: Progress = None,
    metrics: Sequence[str] | None = None,
    include_seen: bool | None = None,
    rules: BoundRules | None = None,
) -> MetricTable:
    """Rank every candidate for every user with items in `part`, and compare.

    Candidates are the items that the user neither has in a target event of `split.known(part)` nor
    dislikes; a held-out item that is none is left out, counted in `.repeated`. Nothing is sampled,
    ties go to the smaller item index. Indices are scored in chunks that fit the free memory, which
    never changes the result. Indices without items in `part` are left out and counted in
    `.skipped`; those without a training interaction are ranked, and a stratum ('cold-users').

    Parameters
    ----------
    model : one of
        a `Recommender`, or any object with `score(users, history)`; one with
        `score_tensor(users, history)` is ranked on the device its tensor is on;
        a callable `(users int32[m], history Sequences) -> float32[m, n_items]`;
        float32[n_users, n_items] scores; a `TopK` with one list for each user of the split;
        `Recommendations`. Lists are evaluated as given, scores are masked first.
    at, part, metrics : cut-offs N; 'test' or 'valid'; names without cut-off ('HR') [all]
    batch_size, progress : users scored at once [found]; True for a bar on the terminal
    include_seen : True makes every item a candidate, and lets all held-out items count; None does
        so where the split (`Split.include_seen`) or the model was made for it
    rules : what the lists must and should contain, `Rules.bind(model.item_columns(items))`
    """
    cuts = _cut_offs(at)
    families = _families(metrics)
    if rules is not None:
        _check_rules(rules, model)
    score = None
    if not isinstance(model, TopK | Recommendations):
        score = score_function(model, split, part)
    if include_seen is None:
        include_seen = split.include_seen
        if isinstance(model, FittedModel):
            include_seen = include_seen or model.fitting.include_seen

    held_out = split.held_out(part, include_seen)
    users = held_out.users
    n = cuts[-1]
    if isinstance(model, Recommendations):
        top = model.lists(split, users, n).items
    elif isinstance(model, TopK):
        top = _given_lists(model, split, users, n)
    elif score is not None:
        reporter = make_progress(progress)
        step = chunk_rows(split.n_items, batch_size)
        reporter.start("evaluate", total=len(users))
        top = np.empty((len(users), n), dtype=np.int32)
        for start in range(0, len(users), step):
            chunk = users[start : start + step]
            seen = held_out.excluded.take(np.arange(start, start + len(chunk)))
            top[start : start + step] = _best_items(
                score(chunk, held_out.known), chunk, split, n, seen, rules
            )
            reporter.advance(len(chunk))
        reporter.close()

    popularity = held_out.popularity
    hits, relevant, cold_relevant = _find_hits(
        top,
        users,
        (held_out.to_find.indptr, held_out.to_find.items),
        popularity_class(popularity),
        popularity,
    )
    return MetricTable(
        user=users,
        users=split.train.users,
        top=top,
        hits=np.asfortranarray(hits),  # metrics add up ranks over all users at once
        relevant=relevant,
        cold_relevant=cold_relevant,
        activity=held_out.activity,
        popularity=popularity,
        at=cuts,
        families=families,
        part=part,
        protocol=split.protocol,
        include_seen=include_seen,
        repeated=held_out.repeated,
    )


def _cut_offs(at: Sequence[int]) -> tuple[int, ...]:
    """Return the cut-offs in order, each once."""
    for n in at:
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
            raise ConfigError(f"at must list whole numbers of at least 1, not {n!r}")
    if len(at) == 0:
        raise ConfigError("at must list at least one cut-off, for example (1, 5, 10)")
    return tuple(sorted({int(n) for n in at}))


def _families(metrics: Sequence[str] | None) -> tuple[str, ...]:
    """Return the metrics without their cut-off, in the order of the tables; None: all of them."""
    if metrics is None:
        return FAMILIES
    for name in metrics:
        if name not in FAMILIES:
            raise UnknownNameError("metric", name, FAMILIES)
    return tuple(family for family in FAMILIES if family in metrics)


def _check_rules(
    rules: BoundRules,
    model: Evaluable,
) -> None:
    """Refuse rules that are not bound, and rules for lists that exist already."""
    if not isinstance(rules, BoundRules):
        raise ConfigError(
            f"rules must be bound to the items of the model, "
            f"Rules.bind(model.item_columns(items)), and these are {described(rules)}"
        )
    if isinstance(model, Recommendations | TopK):
        raise ConfigError(
            "lists are evaluated as given: rules need a model or its scores"
        )


def _best_items(
    scores: Scores | torch.Tensor,
    users: Indices,
    split: Split,
    n: int,
    seen: Sequences,
    rules: BoundRules | None,
) -> Indices:
    """Return int32[m, n]: the best items for some users, from their scores."""
    if tuple(scores.shape) != (len(users), split.n_items):
        raise DataError(
            f"the model gave scores of shape {tuple(scores.shape)} for {len(users)} users and "
            f"{split.n_items} items: it must give one row per user and one column per item"
        )
    try:
        if rules is not None:
            if not isinstance(scores, np.ndarray):
                scores = np.asarray(scores.cpu())
            return rules.top_k(scores, n, seen=seen).items
        if isinstance(scores, np.ndarray):
            return masked_top_k(scores, n, seen=seen).items
        return masked_top_k_torch(scores, n, seen=seen).items
    except NanScoreError as error:
        user = split.users.external(int(users[error.row]))
        raise DataError(f"the model scored an item for user {user!r} as NaN") from error


def _given_lists(
    lists: TopK,
    split: Split,
    users: Indices,
    n: int,
) -> Indices:
    """Return int32[m, n]: the first items of given lists, one for each user of the split."""
    n_lists, length = lists.items.shape
    if n_lists != split.n_users:
        raise DataError(
            f"there are {n_lists} lists for the {split.n_users} users of the split"
        )
    if length < n:
        raise ConfigError(
            f"the lists have {length} items, the largest cut-off needs {n}"
        )
    if lists.items.max(initial=-1) >= split.n_items:
        raise DataError(f"the lists name items beyond the {split.n_items} of the split")
    return np.ascontiguousarray(lists.items[users, :n], dtype=np.int32)


@kernel(parallel=True)
def _find_hits(
    top: Indices,
    users: Indices,
    held_out: tuple[NDArray[np.int64], Indices],
    classes: NDArray[np.int8],
    popularity: Counts,
) -> tuple[NDArray[np.bool_], Counts, Counts]:
    """Find the hits bool[m, k]; count each user's held-out items.

    They are counted by class of popularity, int32[m, 3], and those without a training interaction,
    int32[m].
    """
    indptr, items = held_out
    hits = np.zeros(top.shape, np.bool_)
    relevant = np.zeros((len(users), 3), np.int32)
    cold_relevant = np.zeros(len(users), np.int32)
    for row in prange(len(users)):
        for item in items[indptr[users[row]] : indptr[users[row] + 1]]:
            relevant[row, classes[item]] += 1
            cold_relevant[row] += popularity[item] == 0
            for rank in range(top.shape[1]):
                hits[row, rank] |= top[row, rank] == item
    return hits, relevant, cold_relevant
