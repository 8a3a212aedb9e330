"""From questions in external ids to ranked lists, similar items and reasons."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leporid.data import IdMap, Interactions, Sequences
from leporid.errors import ConfigError
from leporid.foundation import Progress, chunk_rows, make_progress
from leporid.ranking.allowed import Allowed
from leporid.ranking.asked_users import AskedUsers
from leporid.ranking.top_k import Indices, Ints, TopK, masked_top_k

Scores: TypeAlias = NDArray[np.float32]
"""float32[m, n_items]: higher is better."""
Lists: TypeAlias = tuple[NDArray[Any], Scores]
"""Item ids and their scores, best first: [n] for one question, [m, n] for several."""


@runtime_checkable
class UserRanker(Protocol):
    """What ranks the items for users by their index, as every `Recommender` does."""

    def _top_k(
        self,
        users: Indices,
        n: int,
        include_seen: bool | None,
        allowed: Allowed | None,
    ) -> TopK: ...


class ListModel(UserRanker, Protocol):
    """What `list_frames` needs of a model: its lists, its ids, and what it was fitted on."""

    name: ClassVar[str]

    @property
    def known(self) -> Interactions: ...

    @property
    def users(self) -> IdMap: ...

    @property
    def items(self) -> IdMap: ...


def check_n(n: int) -> None:
    """Refuse a length of lists that is not a whole number of at least 1."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise ConfigError(f"n must be a whole number of at least 1, not {n!r}")


def rank_in_chunks(
    score: Callable[[slice], Scores],
    count: int,
    n: int,
    n_items: int,
    seen: Sequences | None,
    allowed: Allowed | None,
) -> TopK:
    """Return the best `n` items of `count` users, scored chunk by chunk."""
    check_n(n)
    step = chunk_rows(n_items)
    allowed = allowed or Allowed()
    top_k = masked_top_k if allowed.rules is None else allowed.rules.top_k
    parts: list[TopK] = []
    for first in range(0, count, step):
        rows = np.arange(first, min(first + step, count))
        seen_by_chunk = None if seen is None else seen.take(rows)
        scores = allowed.take(rows).masked(score(slice(first, first + step)))
        parts.append(top_k(scores, n, seen=seen_by_chunk, allowed=allowed.items))
    return joined_lists(parts, n)


def rank_asked(
    asked: AskedUsers,
    rank: Callable[[Ints], TopK],
    n: int,
    known: Interactions,
    allowed: Allowed | None,
) -> TopK:
    """Return the lists of those whom a model knows, which `rank` gives for their positions.

    The others get the items with most interactions in `known`, whose number is the score, or
    nothing but padding.
    """
    check_n(n)
    if asked.is_known.all():
        return rank(np.arange(len(asked)))
    top = TopK.empty(len(asked), n)
    parts = [(np.flatnonzero(asked.is_known), rank)]
    if asked.unknown == "popular":
        popularity = known.target_events.popularity.astype(np.float32)

        def most_popular(rows: Ints) -> TopK:
            return rank_in_chunks(
                lambda part: np.repeat(popularity[None], len(rows[part]), axis=0),
                count=len(rows),
                n=n,
                n_items=known.n_items,
                seen=None,
                allowed=None if allowed is None else allowed.take(rows),
            )

        parts.append((np.flatnonzero(~asked.is_known), most_popular))
    for rows, rank_rows in parts:
        if len(rows):
            lists = rank_rows(rows)
            top.items[rows] = lists.items
            top.scores[rows] = lists.scores
    return top


def rank_users(
    model: ListModel,
    asked: AskedUsers,
    n: int,
    include_seen: bool | None,
    allowed: Allowed | None,
) -> TopK:
    """Return the lists of the users who were asked for, known to the model or not."""

    def rank(rows: Ints) -> TopK:
        allowed_here = None if allowed is None else allowed.take(rows)
        return model._top_k(asked.index[rows], n, include_seen, allowed_here)

    return rank_asked(asked, rank, n, model.known, allowed)


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
    users: pa.Array,
    items: IdMap,
) -> pa.Schema:
    """Return the columns of `Recommender.recommend_frame`; `users` are ids as it shows them."""
    return pa.schema(
        {
            "user": users.type,
            "rank": pa.int32(),
            "item": items.ids.type,
            "score": pa.float32(),
        }
    )


def list_frames(
    model: ListModel,
    asked: AskedUsers,
    names: pa.Array,
    n: int,
    include_seen: bool | None,
    allowed: Allowed | None,
    progress: Progress,
) -> Iterator[pa.Table]:
    """Yield the lists of some users chunk by chunk, a row per recommendation; none is padding."""
    check_n(n)
    schema = list_schema(names, model.items)
    reporter = make_progress(progress)
    step = chunk_rows(len(model.items))
    reporter.start("recommending", len(asked))
    for first in range(0, len(asked), step):
        rows = np.arange(first, min(first + step, len(asked)))
        allowed_here = None if allowed is None else allowed.take(rows)
        top = rank_users(model, asked.take(rows), n, include_seen, allowed_here)
        row, rank = np.nonzero(top.items >= 0)
        columns = [
            names.take(pa.array(rows[row])),
            pa.array(rank + 1, pa.int32()),
            model.items.ids.take(pa.array(top.items[row, rank], pa.int32())),
            pa.array(top.scores[row, rank], pa.float32()),
        ]
        yield pa.table(columns, schema=schema)
        reporter.advance(len(rows))
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
