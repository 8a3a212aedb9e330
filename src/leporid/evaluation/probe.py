"""`probe`: how well vectors alone, without any training, predict held-out items.

By items: the inner product of an item's vector with the mean of the vectors of a user's last items.
By users: the items of the users whose vectors are nearest, weighted by similarity. Both: the sum of
the two, each z-scored per user.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.arguments import checks_arguments, described
from leporid.data import Part, Sequences, Split, expect
from leporid.errors import ConfigError, DataError
from leporid.evaluation.evaluator import evaluate
from leporid.evaluation.metric_table import MetricTable
from leporid.ranking import chunk_rows

QUARTILES = tuple(f"activity-q{i}" for i in range(1, 5))
Scores = NDArray[np.float32]
Users = NDArray[np.int32]


@dataclass(frozen=True)
class Probe:
    """The outcome of `probe`: a `MetricTable` by items, by users and by both, where asked."""

    tables: dict[str, MetricTable]

    def value(self, metric: str = "NDCG@10") -> dict[str, float]:
        """A metric by 'items', 'users' and 'both'."""
        return {side: table.mean()[metric] for side, table in self.tables.items()}

    def rows(self, metric: str = "NDCG@10") -> list[dict[str, Any]]:
        """One row per side: the metric over all users and in each quartile of activity."""
        found = []
        for side, table in self.tables.items():
            row: dict[str, Any] = {"vectors of": side, metric: table.mean()[metric]}
            quartiles = [name for name in QUARTILES if table.has_users(name)]
            found.append(row | {name: table.mean(name)[metric] for name in quartiles})
        return found


@checks_arguments({"last": 1, "neighbours": 1})
def probe(
    vectors: Any,
    split: Split,
    *,
    part: Part = "valid",
    last: int = 10,
    neighbours: int = 100,
) -> Probe:
    """How well vectors alone predict the held-out items of `split`, in seconds.

    Parameters
    ----------
    vectors : `InitialEmbeddings`, or a pair (users, items) of float arrays, either of them None
    part : 'valid' or 'test'; choices are made on 'valid'
    last : how many of a user's newest items make their profile
    neighbours : how many of the nearest users are asked
    """
    expect(split, Split, "probe(vectors, split)")
    scorers: dict[str, Any] = {}
    users, items = _sides(vectors, split)
    if items is not None:
        scorers["items"] = partial(_by_items, items, last)
    if users is not None:
        scorers["users"] = partial(
            _by_users, users, neighbours, split.known(part).csr()
        )
    if len(scorers) == 2:
        first, second = scorers.values()
        scorers["both"] = lambda users, known: (
            _z_scored(first(users, known)) + _z_scored(second(users, known))
        )
    asked: dict[str, Any] = {"at": (10,), "part": part, "metrics": ["NDCG", "HR"]}
    # Similarities of all users take as much as scores of all items.
    asked["batch_size"] = chunk_rows(max(split.n_users, split.n_items))
    return Probe(
        {side: evaluate(scorer, split, **asked) for side, scorer in scorers.items()}
    )


def _sides(vectors: Any, split: Split) -> list[Scores | None]:
    """float32[n, d] of the users and of the items of the split."""
    if hasattr(vectors, "aligned"):
        vectors = vectors.aligned(split.users, split.items)
        vectors = vectors.users.vectors, vectors.items.vectors
    if not isinstance(vectors, tuple | list) or len(vectors) != 2:
        raise ConfigError(
            f"probe takes InitialEmbeddings or a pair (users, items) of arrays, not "
            f"{described(vectors)}: give None in place of a side that has no vectors"
        )
    sides = []
    for side, rows, expected in zip(
        ("user", "item"), vectors, (split.n_users, split.n_items), strict=True
    ):
        if rows is not None and (np.ndim(rows) != 2 or len(rows) != expected):
            raise DataError(
                f"the {side} vectors have the shape {np.shape(rows)}, the split has {expected:,} "
                f"{side}s: give one row per {side}"
            )
        sides.append(
            None if rows is None else np.ascontiguousarray(rows, dtype=np.float32)
        )
    if sides[0] is None and sides[1] is None:
        raise ConfigError("probe needs the vectors of users or of items")
    return sides


def _by_items(vectors: Scores, last: int, users: Users, known: Sequences) -> Scores:
    recent = known.take(users).last(last)
    length = np.diff(recent.indptr)
    weight = np.repeat(1 / np.maximum(length, 1), length).astype(np.float32)
    parts = weight, recent.items, recent.indptr
    profile = sparse.csr_array(parts, shape=(len(users), len(vectors)))
    return np.asarray((profile @ vectors) @ vectors.T)


def _by_users(
    vectors: Scores,
    neighbours: int,
    matrix: sparse.csr_array,
    users: Users,
    _: Sequences,
) -> Scores:
    similarity = vectors[users] @ vectors.T
    similarity[np.arange(len(users)), users] = -np.inf
    k = min(neighbours, len(vectors) - 1)
    near = np.argpartition(-similarity, k - 1, axis=1)[:, :k]
    weight = np.take_along_axis(similarity, near, axis=1)
    # Above the farthest of them, so that inner products of any sign can be weights.
    weight = weight - weight.min(axis=1, keepdims=True, initial=np.inf)
    weight += np.float32(1e-6) * weight.max(axis=1, keepdims=True, initial=1e-30)
    parts = weight.ravel(), near.ravel(), np.arange(len(users) + 1) * k
    weights = sparse.csr_array(parts, shape=similarity.shape, dtype=np.float32)
    return np.asarray((weights @ matrix).toarray(), dtype=np.float32)


def _z_scored(scores: Scores) -> Scores:
    deviation = np.maximum(scores.std(axis=1, keepdims=True), np.float32(1e-30))
    return np.asarray((scores - scores.mean(axis=1, keepdims=True)) / deviation)
