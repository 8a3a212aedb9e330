"""`Recommending`: what a fitted model is asked, in external ids; `Recommender` supplies the scores.

Lists for users and for histories, for a few people (`recommend`) or for all (`recommend_frame`),
items that are alike, and the reasons for an item.
"""

from __future__ import annotations

import abc
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leporid.data import IdMap, Interactions, Sequences
from leporid.errors import ConfigError, DataError, LeporidWarning, UnknownIdError
from leporid.evaluation import TopK, chunk_rows, masked_top_k
from leporid.models.shared.item_neighbours import ItemNeighbours
from leporid.progress import ProgressLike, make_progress

Indices: TypeAlias = NDArray[np.int32]
"""int32[m]: users or items by their place in an `IdMap`."""
Scores: TypeAlias = NDArray[np.float32]
"""float32[m, n_items]: higher is better."""
Ids: TypeAlias = Iterable[Any] | None
"""External ids, or one of them."""
Lists: TypeAlias = tuple[NDArray[Any], NDArray[np.float32]]
"""Item ids and their scores, best first: [n] for one question, [m, n] for several."""

Allowed: TypeAlias = NDArray[np.bool_] | None
"""bool[n_items]: which items may be recommended; None where all may."""


class Recommending(abc.ABC):
    """The questions of a `Recommender`.

    In all of them `only` names the items that may be recommended, `exclude` those that may not,
    and `exclude_seen` hides what a person has already. An unknown id is an `UnknownIdError`, but in
    a history it is left out and counted in a `LeporidWarning`.
    """

    name: ClassVar[str]

    @property
    @abc.abstractmethod
    def known(self) -> Interactions:
        """The interactions the model was fitted with."""

    @abc.abstractmethod
    def score(self, users: Indices, history: Sequences | None = None) -> Scores:
        """Scores of every item for user indices."""

    @abc.abstractmethod
    def score_histories(self, histories: Sequence[Indices]) -> Scores:
        """Scores of every item for people never seen, from item indices."""

    @abc.abstractmethod
    def _check_users(self, users: Any) -> Indices:
        """User indices as int32; one that does not exist is an `UnknownIdError`."""

    @property
    def users(self) -> IdMap:
        """External user ids of the fit."""
        return self.known.users

    @property
    def items(self) -> IdMap:
        """External item ids of the fit."""
        return self.known.items

    @property
    def frame_schema(self) -> pa.Schema:
        """The columns of `recommend_frame`."""
        user, item = self.users.ids.type, self.items.ids.type
        types = {"user": user, "rank": pa.int32(), "item": item, "score": pa.float32()}
        return pa.schema(types)

    def recommend(
        self,
        users: Any,
        n: int = 10,
        exclude_seen: bool = True,
        candidates: Ids = None,
        *,
        only: Ids = None,
        exclude: Ids = None,
    ) -> Lists:
        """The best `n` items for known users, by external id.

        `users` is one id or several. Returns `(items, scores)`, of shape [n] for one id and
        [m, n] for several; where fewer than n items remain, None and -inf fill the row.
        `candidates` is another name of `only`.
        """
        single = _is_id(users)
        index = self._user_indices(users)
        allowed = self._allowed(_one_of(only, candidates), exclude)
        return self._external(self._top_k(index, n, exclude_seen, allowed), single)

    def recommend_history(
        self,
        histories: Sequence[Any],
        n: int = 10,
        exclude_seen: bool = True,
        candidates: Ids = None,
        *,
        only: Ids = None,
        exclude: Ids = None,
    ) -> Lists:
        """The best `n` items for people the model has never seen, from their items in time order.

        `histories` is a list of lists of external item ids, or one such list. A history of which
        the model knows no item is an `UnknownIdError`.
        """
        if isinstance(histories, str):
            raise DataError(f"a history is a list of item ids, not the text {histories!r}")
        single = len(histories) > 0 and _is_id(histories[0])
        rows = self._histories([histories] if single else histories)
        allowed = self._allowed(_one_of(only, candidates), exclude)
        seen = Sequences.from_rows(rows) if exclude_seen else None
        top = self._rank(lambda part: self.score_histories(rows[part]), len(rows), n, seen, allowed)
        return self._external(top, single)

    def recommend_frame(
        self,
        users: Any = None,
        n: int = 10,
        exclude_seen: bool = True,
        *,
        only: Ids = None,
        exclude: Ids = None,
        progress: bool | ProgressLike | None = None,
    ) -> pa.Table:
        """The lists of many users (None: of all) as one table, a row per recommendation.

        The columns are `user`, `rank` (from 1), `item` and `score`; users come in the order asked
        for. `.to_pandas()` and `polars.from_arrow` take it on. `write_recommendations` writes
        the same rows into a file, however many there are.
        """
        index = self._all_or(users)
        reporter = make_progress(progress)
        reporter.start("recommending", len(index))
        tables, allowed = [self.frame_schema.empty_table()], self._allowed(only, exclude)
        for count, table in self._tables(index, n, exclude_seen, allowed):
            tables.append(table)
            reporter.advance(count)
        reporter.close()
        return pa.concat_tables(tables)

    def similar_items(self, items: Any, n: int = 10) -> Lists:
        """The `n` items most like an item, or like each of several: those with the same users.

        The similarity is the Jaccard index of the two sets of users, whatever the model. Shaped
        as in `recommend`; items that share no user are never similar.
        """
        check_n(n)
        single = _is_id(items)
        index = self.items.indices([items] if single else items)
        near = ItemNeighbours(self.known, n, index.tolist())
        return self._external(_filled([near.similar(int(item), n) for item in index], n), single)

    def explain(self, person: Any, item: Any, n: int = 3) -> Lists:
        """Why an item: the `n` items a person has that share most users with it.

        `person` is a user's id, or a history as a list of item ids. Returns their ids, nearest
        first, and the Jaccard similarities; there may be fewer than `n`, or none. It says what
        lies near what in the data; it is not how the model computed its score.
        """
        check_n(n)
        if _is_id(person):
            history = self.known.sequences().of(self.users.index(person))
        else:
            [history] = self._histories([person])
        index = self.items.index(item)
        reasons = ItemNeighbours(self.known, items=[index, *history]).reasons(index, history, n)
        return self._external(_filled([reasons], len(reasons)), True)

    def top_k(
        self,
        users: Indices,
        n: int,
        *,
        exclude_seen: bool = True,
        only: Ids = None,
        exclude: Ids = None,
    ) -> TopK:
        """`recommend` on user indices, returning item indices."""
        users, allowed = self._check_users(users), self._allowed(only, exclude)
        return self._top_k(users, n, exclude_seen, allowed)

    def _top_k(
        self, users: Indices, n: int, exclude_seen: bool, allowed: Allowed, batch: int | None = None
    ) -> TopK:
        seen = self.known.sequences().take(users) if exclude_seen else None
        return self._rank(lambda part: self.score(users[part]), len(users), n, seen, allowed, batch)

    def _tables(
        self, users: Indices, n: int, exclude_seen: bool, allowed: Allowed, batch: int | None = None
    ) -> Iterator[tuple[int, pa.Table]]:
        """Number of users and their table, `batch` of them at a time."""
        check_n(n)
        step = chunk_rows(self.known.n_items, batch)
        for start in range(0, len(users), step):
            some = users[start : start + step]
            top = self._top_k(some, n, exclude_seen, allowed, step)
            yield len(some), self._table(some, top)

    def _table(self, users: Indices, top: TopK) -> pa.Table:
        row, place = np.nonzero(top.items >= 0)
        columns = [
            self.users.ids.take(pa.array(users[row], pa.int32())),
            pa.array(place + 1, pa.int32()),
            self.items.ids.take(pa.array(top.items[row, place], pa.int32())),
            pa.array(top.scores[row, place], pa.float32()),
        ]
        return pa.table(columns, schema=self.frame_schema)

    def _rank(
        self,
        score: Callable[[slice], Scores],
        people: int,
        n: int,
        seen: Sequences | None,
        allowed: Allowed,
        batch: int | None = None,
    ) -> TopK:
        """The best `n` items of each person, scored chunk by chunk."""
        check_n(n)
        step = chunk_rows(self.known.n_items, batch)
        items, scores = [np.empty((0, n), np.int32)], [np.empty((0, n), np.float32)]
        for start in range(0, people, step):
            rows = np.arange(start, min(start + step, people))
            hidden = None if seen is None else seen.take(rows)
            best = masked_top_k(score(slice(start, start + step)), n, seen=hidden, allowed=allowed)
            items.append(best.items)
            scores.append(best.scores)
        return TopK(np.concatenate(items), np.concatenate(scores))

    def _user_indices(self, users: Any) -> Indices:
        """Indices of one user id or of several."""
        if _is_id(users):
            users = [users]
        elif not isinstance(users, Iterable):
            raise DataError(f"users must be one id or a list of ids, not {users!r}")
        return self.users.indices(users)

    def _all_or(self, users: Any) -> Indices:
        """`_user_indices`, and for None all users."""
        if users is None:
            return np.arange(len(self.users), dtype=np.int32)
        return self._user_indices(users)

    def _histories(self, histories: Iterable[Any]) -> list[Indices]:
        """Item indices of each history, less the items the model does not know."""
        rows, unknown = [], []
        for number, history in enumerate(histories):
            row, strange = self.items.split_known(history)
            if len(row) == 0 and strange:
                raise UnknownIdError(
                    f"history {number} has no item that {self.name} knows: {strange[0]!r} is none "
                    f"of its {len(self.items):,} items"
                )
            if len(row) == 0:
                raise DataError(f"history {number} is empty: give at least one item id")
            rows.append(row)
            unknown += strange
        if unknown:
            warnings.warn(
                f"{len(unknown):,} of {len(unknown) + sum(map(len, rows)):,} history items are "
                f"unknown to {self.name} and left out, the first is {unknown[0]!r}",
                LeporidWarning,
                stacklevel=3,
            )
        return rows

    def _allowed(self, only: Ids, exclude: Ids) -> Allowed:
        if only is None and exclude is None:
            return None
        allowed = np.full(self.known.n_items, only is None)
        for ids, may in ((only, True), (exclude, False)):
            if ids is not None:
                allowed[self.items.indices([ids] if _is_id(ids) else ids)] = may
        return allowed

    def _external(self, top: TopK, single: bool) -> Lists:
        items = self.items.externals(top.items)
        return (items[0], top.scores[0]) if single else (items, top.scores)


def check_n(n: int) -> None:
    """Refuse a length of lists that is not a whole number of at least 1."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise ConfigError(f"n must be a whole number of at least 1, not {n!r}")


def _is_id(value: Any) -> bool:
    return isinstance(value, str | int | np.integer | uuid.UUID | pa.Scalar)


def _one_of(only: Ids, candidates: Ids) -> Ids:
    if only is not None and candidates is not None:
        raise ConfigError("`only` and `candidates` are two names of one thing: give one of them")
    return candidates if only is None else only


def _filled(pairs: list[list[tuple[int, float]]], n: int) -> TopK:
    """Lists of (item index, score) as arrays; -1 and -inf fill the short ones."""
    items = np.full((len(pairs), n), -1, np.int32)
    scores = np.full((len(pairs), n), -np.inf, np.float32)
    for row, found in enumerate(pairs):
        for place, (item, score) in enumerate(found):
            items[row, place], scores[row, place] = item, score
    return TopK(items, scores)
