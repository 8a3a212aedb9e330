"""From questions in external ids to ranked lists, similar items and reasons."""

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leporid.data import IdMap, Sequences
from leporid.errors import ConfigError, DataError, UnknownIdError, warn
from leporid.foundation import Progress, chunk_rows, described, is_table, make_progress
from leporid.ranking.bound_rules import BoundRules
from leporid.ranking.top_k import Indices, Mask, TopK, masked_top_k

Scores: TypeAlias = NDArray[np.float32]
"""float32[m, n_items]: higher is better."""
Ids: TypeAlias = Iterable[object] | None
"""External ids, or one of them."""
Lists: TypeAlias = tuple[NDArray[Any], Scores]
"""Item ids and their scores, best first: [n] for one question, [m, n] for several."""
Allowed: TypeAlias = tuple[Mask | None, BoundRules | None] | None
"""bool[n_items], which items may be recommended, and rules for the lists; None: all, and none."""


@runtime_checkable
class UserRanker(Protocol):
    """What ranks the items for users by their index, as every `Recommender` does."""

    def _top_k(
        self,
        users: Indices,
        n: int,
        include_seen: bool | None,
        allowed: Allowed,
    ) -> TopK: ...


class ListModel(UserRanker, Protocol):
    """What `list_frames` needs of a model: its lists, and the ids of its users and items."""

    @property
    def users(self) -> IdMap: ...

    @property
    def items(self) -> IdMap: ...


def check_n(n: int) -> None:
    """Refuse a length of lists that is not a whole number of at least 1."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise ConfigError(f"n must be a whole number of at least 1, not {n!r}")


def is_id(value: object) -> bool:
    """Return whether a value is one external id, not several."""
    return isinstance(value, str | int | np.integer | uuid.UUID | pa.Scalar)


def id_indices(
    ids: IdMap,
    externals: Any,
) -> Indices:
    """Return the indices of one external id or of several."""
    return ids.indices([externals] if is_id(externals) else externals)


def check_list(history: object) -> None:
    """Refuse a history that is not a list of item ids."""
    is_other = isinstance(history, str | bytes | Mapping) or is_table(history)
    if is_other or not isinstance(history, Iterable):
        raise DataError(f"a history is a list of item ids, not {described(history)}")


def history_indices(
    items: IdMap,
    histories: Iterable[Iterable[object]],
    model: str,
) -> list[Indices]:
    """Return the item indices of each history; a warning counts items the model does not know."""
    rows: list[Indices] = []
    unknown: list[object] = []
    for number, history in enumerate(histories):
        check_list(history)
        row, unknown_here = items.split_known(history)
        if len(row) == 0 and unknown_here:
            raise UnknownIdError(
                f"history {number} has no item that {model} knows: {unknown_here[0]!r} is none "
                f"of its {len(items):,} items"
            )
        if len(row) == 0:
            raise DataError(f"history {number} is empty: give at least one item id")
        rows.append(row)
        unknown += unknown_here
    if unknown:
        n_items = len(unknown) + sum(map(len, rows))
        warn(
            f"{len(unknown):,} of {n_items:,} history items are "
            f"unknown to {model} and left out, the first is {unknown[0]!r}",
            4,
        )
    return rows


def allowed_items(
    items: IdMap,
    only: Ids,
    exclude: Ids,
    rules: BoundRules | None = None,
) -> Allowed:
    """Return which items may be recommended, and the rules."""
    if rules is not None:
        is_bound = isinstance(rules, BoundRules) and rules.items == items
        if not is_bound:
            raise ConfigError(
                "rules must be bound to this model: rules.bind(model.item_columns(items))"
            )
    if only is None and exclude is None:
        return None if rules is None else (None, rules)
    allowed = np.full(len(items), only is None)
    if only is not None:
        allowed[id_indices(items, only)] = True
    if exclude is not None:
        allowed[id_indices(items, exclude)] = False
    return allowed, rules


def rank_in_chunks(
    score: Callable[[slice], Scores],
    count: int,
    n: int,
    n_items: int,
    seen: Sequences | None,
    allowed: Allowed,
) -> TopK:
    """Return the best `n` items of `count` users, scored chunk by chunk."""
    check_n(n)
    step = chunk_rows(n_items)
    mask, rules = allowed or (None, None)
    top_k = masked_top_k if rules is None else rules.top_k
    parts: list[TopK] = []
    for first in range(0, count, step):
        rows = np.arange(first, min(first + step, count))
        seen_by_chunk = None if seen is None else seen.take(rows)
        scores = score(slice(first, first + step))
        parts.append(top_k(scores, n, seen=seen_by_chunk, allowed=mask))
    return joined_lists(parts, n)


def joined_lists(
    parts: Iterable[TopK],
    n: int,
) -> TopK:
    """Join lists of `n` items of some users, then of others."""
    tops = [TopK.empty(0, n), *parts]
    return TopK(
        items=np.concatenate([top.items for top in tops]),
        scores=np.concatenate([top.scores for top in tops]),
    )


def list_schema(
    users: IdMap,
    items: IdMap,
) -> pa.Schema:
    """Return the columns of `Recommender.recommend_frame`."""
    return pa.schema(
        {
            "user": users.ids.type,
            "rank": pa.int32(),
            "item": items.ids.type,
            "score": pa.float32(),
        }
    )


def list_frames(
    model: ListModel,
    users: Any,
    n: int,
    include_seen: bool | None,
    allowed: Allowed,
    progress: Progress,
) -> Iterator[pa.Table]:
    """Yield the lists of some users (None: of all) chunk by chunk, a row per recommendation."""
    check_n(n)
    if users is None:
        index = np.arange(len(model.users), dtype=np.int32)
    else:
        index = id_indices(model.users, users)
    schema = list_schema(model.users, model.items)
    reporter = make_progress(progress)
    step = chunk_rows(len(model.items))
    reporter.start("recommending", len(index))
    for first in range(0, len(index), step):
        chunk = index[first : first + step]
        top = model._top_k(chunk, n, include_seen, allowed)
        row, rank = np.nonzero(top.items >= 0)
        columns = [
            model.users.ids.take(pa.array(chunk[row], pa.int32())),
            pa.array(rank + 1, pa.int32()),
            model.items.ids.take(pa.array(top.items[row, rank], pa.int32())),
            pa.array(top.scores[row, rank], pa.float32()),
        ]
        yield pa.table(columns, schema=schema)
        reporter.advance(len(chunk))
    reporter.close()


def padded_lists(
    pairs: list[list[tuple[int, float]]],
    n: int,
) -> TopK:
    """Return lists of (item index, score) as arrays; -1 and -inf fill the short ones."""
    top = TopK.empty(len(pairs), n)
    for row, entries in enumerate(pairs):
        for rank, (item, score) in enumerate(entries):
            top.items[row, rank] = item
            top.scores[row, rank] = score
    return top
