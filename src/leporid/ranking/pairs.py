"""`score_frame`: the scores of pairs of users and items that somebody names."""

from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa

from leporid.data import Frame, IdMap, collected, frame_columns, id_columns, with_column
from leporid.errors import DataError, warn
from leporid.foundation import chunk_rows
from leporid.ranking.asked_users import refuse_unknown
from leporid.ranking.lists import Scores
from leporid.ranking.top_k import Floats, Indices

UnknownPair: TypeAlias = Literal["error", "skip"]
"""What becomes of a pair whose user or item a model does not know."""


def score_frame(
    score: Callable[[Indices], Scores],
    users: IdMap,
    items: IdMap,
    pairs: object,
    roles: dict[str, str | None],
    unknown: UnknownPair,
) -> Frame:
    """Return the frame `pairs` with a column of scores, missing for pairs that are unknown.

    `score` gives a row of scores of all items per user. `roles` may name the columns.
    """
    frame = collected(pairs)
    names = list(frame_columns(frame, "give a frame"))
    if "score" in names:
        raise DataError(
            "the frame has a column 'score', which would be replaced: rename or drop it"
        )
    given = id_columns(frame, roles, "the frame")
    user = given["user"].indices(users)
    item = given["item"].indices(items)
    is_known = (user >= 0) & (item >= 0)
    if unknown == "error":
        refuse_unknown(users, given["user"], user)
        refuse_unknown(items, given["item"], item)
    elif not is_known.all():
        row = int(np.argmin(is_known))
        first = given["user"].value(row), given["item"].value(row)
        warn(
            f"{np.count_nonzero(~is_known):,} of {len(is_known):,} pairs have an unknown user or "
            f"item and get no score, the first is {first!r}",
            4,
        )
    scores = np.zeros(len(user), np.float32)
    scores[is_known] = score_known(score, user[is_known], item[is_known], len(items))
    return with_column(frame, "score", pa.array(scores, mask=~is_known))


def score_known(
    score: Callable[[Indices], Scores],
    user: Indices,
    item: Indices,
    n_items: int,
) -> Floats:
    """Return float32[n]: the score of each pair; each user is scored once."""
    distinct, rows = np.unique(user, return_inverse=True)
    order = np.argsort(rows, kind="stable")
    scores = np.empty(len(user), np.float32)
    step = chunk_rows(n_items)
    for first in range(0, len(distinct), step):
        ends = np.searchsorted(rows[order], [first, first + step])
        pairs = order[ends[0] : ends[1]]
        scored = score(distinct[first : first + step])
        scores[pairs] = scored[rows[pairs] - first, item[pairs]]
    return scores
