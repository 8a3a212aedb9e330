"""From questions in external ids to ranked lists, similar items and reasons."""

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leporid.arguments import described, is_table
from leporid.data import IdMap, Sequences
from leporid.errors import ConfigError, DataError, LeporidError, UnknownIdError, warn
from leporid.progress import make_progress
from leporid.ranking.bound_rules import BoundRules
from leporid.ranking.top_k import TopK, chunk_rows, masked_top_k

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
        super().__init__(
            f"{model} has no embedding tables to extend: train it again instead"
        )


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


def history_indices(
    items: IdMap, histories: Iterable[Any], model: str
) -> list[Indices]:
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
    if rules is not None and (
        not isinstance(rules, BoundRules) or rules.items != items
    ):
        raise ConfigError(
            "rules must be bound to this model: rules.bind(model.item_columns(items))"
        )
    if only is None and exclude is None:
        return None if rules is None else (None, rules)
    allowed = np.full(len(items), only is None)
    for ids, may in ((only, True), (exclude, False)):
        if ids is not None:
            allowed[id_indices(items, ids)] = may
    return allowed, rules


def rank_in_chunks(
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

    return joined_lists(map(part, range(0, count, step)), n)


def joined_lists(parts: Iterable[TopK], n: int) -> TopK:
    """Lists of `n` items of some users, then of others."""
    tops = [TopK(np.empty((0, n), np.int32), np.empty((0, n), np.float32)), *parts]
    items, scores = [top.items for top in tops], [top.scores for top in tops]
    return TopK(np.concatenate(items), np.concatenate(scores))


def list_schema(users: IdMap, items: IdMap) -> pa.Schema:
    """The columns of `Recommender.recommend_frame`."""
    types = {"user": users.ids.type, "rank": pa.int32(), "item": items.ids.type}
    return pa.schema({**types, "score": pa.float32()})


def list_frames(
    model: Any,
    users: Any,
    n: int,
    include_seen: bool | None,
    allowed: Allowed,
    progress: Any,
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
        yield pa.table(columns, schema=list_schema(model.users, model.items))
        reporter.advance(len(some))
    reporter.close()


def padded_lists(pairs: list[list[tuple[int, float]]], n: int) -> TopK:
    """Lists of (item index, score) as arrays; -1 and -inf fill the short ones."""
    items = np.full((len(pairs), n), -1, np.int32)
    scores = np.full((len(pairs), n), -np.inf, np.float32)
    for row, found in enumerate(pairs):
        for rank, (item, score) in enumerate(found):
            items[row, rank], scores[row, rank] = item, score
    return TopK(items, scores)
