"""`probe`: how well vectors alone, without any training, predict held-out items.

By items: the inner product of an item's vector with the mean of the vectors of a user's last items.
By users: the items of the users whose vectors are nearest, weighted by similarity. Both: the sum of
the two, each z-scored per user.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.data import IdMap, Part, Sequences, Split
from leporid.errors import ConfigError, DataError
from leporid.evaluation.evaluator import evaluate
from leporid.evaluation.metric_table import MetricTable
from leporid.evaluation.scorers import ScoreFunction
from leporid.foundation import checks_arguments, chunk_rows, described
from leporid.ranking import Indices

QUARTILES = tuple(f"activity-q{i}" for i in range(1, 5))
Floats: TypeAlias = NDArray[np.floating]
Rows: TypeAlias = NDArray[np.float32]
"""float32[m, n_items] scores, or float32[n, d] vectors."""


class VectorTable(Protocol):
    """A table of vectors, one row per user or item, as `Embedding` is."""

    @property
    def vectors(self) -> Floats: ...


@runtime_checkable
class VectorTables(Protocol):
    """Vectors of users and items with their ids, as `InitialEmbeddings` are."""

    @property
    def users(self) -> VectorTable: ...

    @property
    def items(self) -> VectorTable: ...

    def aligned(
        self,
        users: IdMap,
        items: IdMap,
    ) -> Self: ...


ProbeVectors: TypeAlias = VectorTables | Sequence[Floats | None] | None
"""What `probe` is given; it refuses None, which stands for a start from random numbers."""


@dataclass(frozen=True)
class Probe:
    """The outcome of `probe`: a `MetricTable` by items, by users and by both, where asked."""

    tables: dict[str, MetricTable]

    def value(self, metric: str = "NDCG@10") -> dict[str, float]:
        """Return a metric by 'items', 'users' and 'both'."""
        return {side: table.mean()[metric] for side, table in self.tables.items()}

    def rows(self, metric: str = "NDCG@10") -> list[dict[str, str | float]]:
        """Return one row per side: the metric over all users and in each quartile of activity."""
        rows: list[dict[str, str | float]] = []
        for side, table in self.tables.items():
            row: dict[str, str | float] = {
                "vectors of": side,
                metric: table.mean()[metric],
            }
            for quartile in QUARTILES:
                if table.has_users(quartile):
                    row[quartile] = table.mean(quartile)[metric]
            rows.append(row)
        return rows


@checks_arguments({"last": 1, "neighbours": 1})
def probe(
    vectors: ProbeVectors,
    split: Split,
    *,
    part: Part = "valid",
    last: int = 10,
    neighbours: int = 100,
) -> Probe:
    """Measure how well vectors alone predict the held-out items of `split`, in seconds.

    Parameters
    ----------
    vectors : `InitialEmbeddings`, or a pair (users, items) of float arrays, either of them None
    part : 'valid' or 'test'; choices are made on 'valid'
    last : how many of a user's newest items make their profile
    neighbours : how many of the nearest users are asked
    """
    users, items = _vectors_of_split(vectors, split)
    scorers: dict[str, ScoreFunction] = {}
    if items is not None:
        scorers["items"] = partial(_score_by_items, items, last)
    if users is not None:
        matrix = split.known(part).csr()
        scorers["users"] = partial(_score_by_users, users, neighbours, matrix)
    if len(scorers) == 2:
        scorers["both"] = partial(_score_by_both, scorers["items"], scorers["users"])
    # Similarities of all users take as much as scores of all items.
    batch_size = chunk_rows(max(split.n_users, split.n_items))
    tables: dict[str, MetricTable] = {}
    for side, scorer in scorers.items():
        tables[side] = evaluate(
            scorer,
            split,
            at=(10,),
            part=part,
            batch_size=batch_size,
            metrics=["NDCG", "HR"],
        )
    return Probe(tables)


def _vectors_of_split(
    vectors: ProbeVectors,
    split: Split,
) -> tuple[Rows | None, Rows | None]:
    """Return float32[n, d] of the users and of the items of the split."""
    if isinstance(vectors, VectorTables):
        tables = vectors.aligned(split.users, split.items)
        vectors = (tables.users.vectors, tables.items.vectors)
    if not isinstance(vectors, tuple | list) or len(vectors) != 2:
        raise ConfigError(
            f"probe takes InitialEmbeddings or a pair (users, items) of arrays, not "
            f"{described(vectors)}: give None in place of a side that has no vectors"
        )
    users = _checked_vectors("user", vectors[0], split.n_users)
    items = _checked_vectors("item", vectors[1], split.n_items)
    if users is None and items is None:
        raise ConfigError("probe needs the vectors of users or of items")
    return users, items


def _checked_vectors(
    side: str,
    rows: Floats | None,
    n_rows: int,
) -> Rows | None:
    """Return float32[n_rows, d]; an array of another shape is refused."""
    if rows is None:
        return None
    if np.ndim(rows) != 2 or len(rows) != n_rows:
        raise DataError(
            f"the {side} vectors have the shape {np.shape(rows)}, the split has {n_rows:,} "
            f"{side}s: give one row per {side}"
        )
    return np.ascontiguousarray(rows, dtype=np.float32)


def _score_by_items(
    vectors: Rows,
    last: int,
    users: Indices,
    known: Sequences,
) -> Rows:
    """Return the products of the items with the mean vector of a user's last items."""
    recent = known.take(users).last(last)
    length = np.diff(recent.indptr)
    weight = np.repeat(1 / np.maximum(length, 1), length).astype(np.float32)
    profile = sparse.csr_array(
        (weight, recent.items, recent.indptr),
        shape=(len(users), len(vectors)),
    )
    return np.asarray((profile @ vectors) @ vectors.T)


def _score_by_users(
    vectors: Rows,
    neighbours: int,
    matrix: sparse.csr_array,
    users: Indices,
    _: Sequences,
) -> Rows:
    """Return the sum of the rows of the nearest users, weighted by similarity."""
    similarity = vectors[users] @ vectors.T
    similarity[np.arange(len(users)), users] = -np.inf
    k = min(neighbours, len(vectors) - 1)
    near = np.argpartition(-similarity, k - 1, axis=1)[:, :k]
    weight = np.take_along_axis(similarity, near, axis=1)
    # Above the farthest of them, so that inner products of any sign can be weights.
    weight = weight - weight.min(axis=1, keepdims=True, initial=np.inf)
    weight += np.float32(1e-6) * weight.max(axis=1, keepdims=True, initial=1e-30)
    weights = sparse.csr_array(
        (weight.ravel(), near.ravel(), np.arange(len(users) + 1) * k),
        shape=similarity.shape,
        dtype=np.float32,
    )
    return np.asarray((weights @ matrix).toarray(), dtype=np.float32)


def _score_by_both(
    by_items: ScoreFunction,
    by_users: ScoreFunction,
    users: Indices,
    known: Sequences,
) -> Rows:
    """Return the sum of two scores, each z-scored per user."""
    return _z_scored(by_items(users, known)) + _z_scored(by_users(users, known))


def _z_scored(scores: Floats) -> Rows:
    """Scale each user's scores to mean 0 and standard deviation 1."""
    deviation = np.maximum(scores.std(axis=1, keepdims=True), np.float32(1e-30))
    return np.asarray((scores - scores.mean(axis=1, keepdims=True)) / deviation)
