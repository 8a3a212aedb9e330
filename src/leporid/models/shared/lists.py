"""From questions in external ids to ranked lists, similar items and reasons."""

import contextlib
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from leporid.arguments import described, is_table
from leporid.data import IdMap, Interactions, Sequences
from leporid.errors import ConfigError, DataError, LeporidError, UnknownIdError, warn
from leporid.evaluation import BoundRules, TopK, chunk_rows, masked_top_k
from leporid.graph import top_k_neighbours
from leporid.initializers import truncated_svd
from leporid.machine import one_thread_pool
from leporid.progress import make_progress

Indices: TypeAlias = NDArray[np.int32]
"""int32[m]: users or items by their row in an `IdMap`."""
Scores: TypeAlias = NDArray[np.float32]
"""float32[m, n_items]: higher is better."""
Ids: TypeAlias = Iterable[Any] | None
"""External ids, or one of them."""
Lists: TypeAlias = tuple[NDArray[Any], NDArray[np.float32]]
"""Item ids and their scores, best first: [n] for one question, [m, n] for several."""
Allowed: TypeAlias = tuple[NDArray[np.bool_] | None, BoundRules | None] | None
"""bool[n_items], which items may be recommended, and rules for the lists; None: all, and none."""


class HistoryUnsupportedError(LeporidError, TypeError):
    """This model cannot score users who were not in its training data."""

    def __init__(self, model: str) -> None:
        super().__init__(
            f"{model} cannot recommend from a history alone; "
            f"refit it with these users, or choose a model that can (dlr2, sasrec, itemknn)"
        )


class ExtensionUnsupportedError(ConfigError, TypeError):
    """This model has no embedding tables that could get rows for new users and items."""

    def __init__(self, model: str) -> None:
        super().__init__(f"{model} has no embedding tables to extend: train it again instead")


class VectorsUnsupportedError(LeporidError, TypeError):
    """This model does not rank by dot products."""

    def __init__(self, model: str) -> None:
        super().__init__(
            f"{model} does not rank by the dot product of two vectors: serve it with "
            f"`leporid serve`, or choose a model that does (bpr, dgcf, hgn, ials, lightgcn, ngcf, "
            f"sasrec, or dlr2 with a trained G and its squared distance)"
        )


def check_n(n: int) -> None:
    """Refuse a length of lists that is not a whole number of at least 1."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise ConfigError(f"n must be a whole number of at least 1, not {n!r}")


def is_id(value: Any) -> bool:
    """Whether a value is one external id, not several."""
    return isinstance(value, str | int | np.integer | uuid.UUID | pa.Scalar)


def id_indices(ids: IdMap, asked: Any) -> Indices:
    """Indices of one external id or of several."""
    return ids.indices([asked] if is_id(asked) else asked)


def check_list(history: Any) -> None:
    is_other = isinstance(history, str | bytes | Mapping) or is_table(history)
    if is_other or not isinstance(history, Iterable):
        raise DataError(f"a history is a list of item ids, not {described(history)}")


def history_indices(items: IdMap, histories: Iterable[Any], model: str) -> list[Indices]:
    """Item indices of each history; items the model does not know are counted in a warning."""
    rows, unknown = [], []
    for number, history in enumerate(histories):
        check_list(history)
        row, strange = items.split_known(history)
        if len(row) == 0 and strange:
            raise UnknownIdError(
                f"history {number} has no item that {model} knows: {strange[0]!r} is none "
                f"of its {len(items):,} items"
            )
        if len(row) == 0:
            raise DataError(f"history {number} is empty: give at least one item id")
        rows.append(row)
        unknown += strange
    if unknown:
        warn(
            f"{len(unknown):,} of {len(unknown) + sum(map(len, rows)):,} history items are "
            f"unknown to {model} and left out, the first is {unknown[0]!r}",
            4,
        )
    return rows


def allowed_items(
    items: IdMap, only: Ids, exclude: Ids, rules: BoundRules | None = None
) -> Allowed:
    """Which items may be recommended, and the rules."""
    if rules is not None and (not isinstance(rules, BoundRules) or rules.items != items):
        raise ConfigError("rules must be bound to this model: rules.bind(model.catalogue(items))")
    if only is None and exclude is None:
        return None if rules is None else (None, rules)
    allowed = np.full(len(items), only is None)
    for ids, may in ((only, True), (exclude, False)):
        if ids is not None:
            allowed[id_indices(items, ids)] = may
    return allowed, rules


def rank(
    score: Callable[[slice], Scores],
    count: int,
    n: int,
    n_items: int,
    seen: Sequences | None,
    allowed: Allowed,
) -> TopK:
    """The best `n` items of `count` users, scored chunk by chunk."""
    check_n(n)
    step = chunk_rows(n_items)
    mask, rules = allowed or (None, None)
    top_k = masked_top_k if rules is None else rules.top_k

    def part(first: int) -> TopK:
        rows = np.arange(first, min(first + step, count))
        hidden = None if seen is None else seen.take(rows)
        return top_k(score(slice(first, first + step)), n, seen=hidden, allowed=mask)

    return joined(map(part, range(0, count, step)), n)


def joined(parts: Iterable[TopK], n: int) -> TopK:
    """Lists of `n` items of some users, then of others."""
    tops = [TopK(np.empty((0, n), np.int32), np.empty((0, n), np.float32)), *parts]
    items, scores = [top.items for top in tops], [top.scores for top in tops]
    return TopK(np.concatenate(items), np.concatenate(scores))


def frame_schema(users: IdMap, items: IdMap) -> pa.Schema:
    """The columns of `Recommender.recommend_frame`."""
    types = {"user": users.ids.type, "rank": pa.int32(), "item": items.ids.type}
    return pa.schema({**types, "score": pa.float32()})


def frames(
    model: Any, users: Any, n: int, include_seen: bool | None, allowed: Allowed, progress: Any
) -> Iterator[pa.Table]:
    """The lists of some users (None: of all) a part at a time, a row per recommendation."""
    check_n(n)
    everyone = np.arange(len(model.users), dtype=np.int32)
    index = everyone if users is None else id_indices(model.users, users)
    reporter, step = make_progress(progress), chunk_rows(len(model.items))
    reporter.start("recommending", len(index))
    for first in range(0, len(index), step):
        some = index[first : first + step]
        top = model._top_k(some, n, include_seen, allowed)
        row, rank = np.nonzero(top.items >= 0)
        columns = [
            model.users.ids.take(pa.array(some[row], pa.int32())),
            pa.array(rank + 1, pa.int32()),
            model.items.ids.take(pa.array(top.items[row, rank], pa.int32())),
            pa.array(top.scores[row, rank], pa.float32()),
        ]
        yield pa.table(columns, schema=frame_schema(model.users, model.items))
        reporter.advance(len(some))
    reporter.close()


def padded(pairs: list[list[tuple[int, float]]], n: int) -> TopK:
    """Lists of (item index, score) as arrays; -1 and -inf fill the short ones."""
    items = np.full((len(pairs), n), -1, np.int32)
    scores = np.full((len(pairs), n), -np.inf, np.float32)
    for row, found in enumerate(pairs):
        for rank, (item, score) in enumerate(found):
            items[row, rank], scores[row, rank] = item, score
    return TopK(items, scores)


def vectors_of(model: Any) -> Scores:
    """float32[n_items, d] whose cosines say how alike items are: a model's own, or from its log.

    Those of an SVD of the log follow how often two items share a user.
    """
    with contextlib.suppress(VectorsUnsupportedError):
        return np.asarray(model.item_vectors(), np.float32)
    matrix = model.known.csr()
    popularity = np.maximum(np.asarray(matrix.sum(axis=0)).ravel(), 1)
    scaled = matrix @ sparse.diags_array(1 / np.sqrt(popularity))
    with one_thread_pool(1):  # many would fight with those that answer requests
        _, value, items = truncated_svd(scaled, 32)
    return (items * value).astype(np.float32)


class ItemNeighbours:
    """The `k` items nearest to each item, or to `items`, by the Jaccard index of their users."""

    def __init__(
        self, known: Interactions, k: int = 100, items: Sequence[int] | None = None
    ) -> None:
        rows = known.csr().T.tocsr()
        if items is None:
            self._items = np.arange(known.n_items)
            lists = top_k_neighbours(rows, k)
        else:
            self._items = np.unique(np.asarray(items, np.int64))
            lists = top_k_neighbours(rows[self._items], k, against=rows, own=self._items)
        self._near, self._weight = lists.indices, lists.weights

    def similar(self, item: int, n: int) -> list[tuple[int, float]]:
        """At most `n` nearest items with their similarity, nearest first."""
        near, weight = self._lists(np.asarray([item]))
        pairs = zip(near[0].tolist(), weight[0].tolist(), strict=True)
        return [(index, value) for index, value in pairs if index >= 0][:n]

    def reasons_for(
        self, items: NDArray[np.integer], history: NDArray[np.int32], n: int = 3
    ) -> list[list[tuple[int, float]]]:
        """Of distinct items, the `n` of a history nearest to each: one is on the other's list."""
        history = np.unique(history)
        # float32[items, history]: the weight of each joined pair, -1 where two are not joined
        joined = np.full((len(items), len(history)), -1, np.float32)
        near, weight = self._lists(items)
        row, column = np.nonzero(np.isin(near, history))
        joined[row, np.searchsorted(history, near[row, column])] = weight[row, column]
        near, weight = self._lists(history)
        row, column = np.nonzero(np.isin(near, items))
        order = np.argsort(items)
        rank = order[np.searchsorted(items, near[row, column], sorter=order)]
        joined[rank, row] = weight[row, column]
        best = np.argsort(-joined, axis=1, kind="stable")[:, :n]  # of equals the smallest id
        return [
            [(int(history[c]), float(row[c])) for c in columns if row[c] >= 0]
            for row, columns in zip(joined, best, strict=True)
        ]

    def _lists(self, items: NDArray[np.integer]) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        rows = np.searchsorted(self._items, items)
        return self._near[rows], self._weight[rows]
