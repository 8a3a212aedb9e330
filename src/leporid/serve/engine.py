"""`Engine`: a batch of queries in, a ranked list for each out. Runs in one thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from leporid.data import Sequences
from leporid.errors import LeporidError, UnknownIdError
from leporid.evaluation import masked_top_k
from leporid.models import HistoryUnsupportedError
from leporid.serve.loaded_run import LoadedRun
from leporid.serve.schemas import ServeLimits
from leporid.serve.store import EventStore
from leporid.threads import torch_threads

_NO_ITEMS = np.empty(0, np.int32)


@dataclass(frozen=True, eq=False)
class UserQuery:
    """A user to recommend to: an id, or a history of item indices."""

    run: LoadedRun
    n: int
    asked: int | str | None = None
    """The user's id as it was asked for."""
    user: str | None = None
    history: NDArray[np.int32] | None = None
    unknown: tuple[int | str, ...] = ()
    """Items of the history that the model does not know."""
    excluded: NDArray[np.int32] = field(default_factory=lambda: _NO_ITEMS)
    candidates: NDArray[np.int32] | None = None
    exclude_seen: bool = True
    explain: bool = False
    length: int = 0
    """Items of the history, without those that only the store knows."""

    @property
    def cost(self) -> int:
        """Work, in units of roughly ten microseconds: a score, and what is said of each item."""
        lists = (self.excluded, self.candidates, self.history)
        listed = sum(len(items) for items in lists if items is not None)
        reasons = 3 * self.n + self.length if self.explain else 0
        return 20 + self.n + reasons + listed // 20


@dataclass(frozen=True, eq=False)
class Ranked:
    """Item indices, best first, with scores and, if asked for, the reasons."""

    items: list[int]
    scores: list[float]
    reasons: list[list[tuple[int, float]]] | None
    folded_in: bool
    """Whether the user was embedded from a history rather than read from the user table."""
    n_events: int
    """Stored events of the user that counted."""


@dataclass(eq=False)
class _Row:
    """A query with what the model and the store know of its user."""

    query: UserQuery
    position: int  # in the batch
    known: int | None  # index in the user table
    history: NDArray[np.int32]
    n_events: int

    @property
    def folds_in(self) -> bool:
        return self.known is None or self.n_events > 0

    @property
    def hidden(self) -> NDArray[np.int32]:
        """What must not be recommended."""
        if not self.query.exclude_seen:
            return self.query.excluded
        return np.union1d(self.history, self.query.excluded).astype(np.int32)


class Engine:
    """Scores queries of the same run together; nothing here depends on HTTP."""

    def __init__(self, limits: ServeLimits, store: EventStore | None = None) -> None:
        self._limits, self._store = limits, store

    def rank(self, queries: Sequence[UserQuery]) -> list[Ranked | LeporidError]:
        """One answer per query, in order; an error for a query with an unknown id."""
        answers: list[Ranked | LeporidError | None] = [None] * len(queries)
        users = list({query.user for query in queries if query.user is not None})
        last = self._limits.history_length
        new = self._store.items_of(users, last) if self._store is not None and users else {}
        groups: dict[tuple[int, bool, bool], list[_Row]] = {}
        for position, query in enumerate(queries):
            try:
                row = _row(query, position, new)
            except UnknownIdError as error:
                answers[position] = error
                continue
            # A list of candidates may miss everything a first stage keeps.
            all_items = query.candidates is not None
            groups.setdefault((id(query.run), row.folds_in, all_items), []).append(row)
        for (_, folds_in, all_items), rows in groups.items():
            with torch_threads(rows[0].query.run.threads):
                try:
                    ranked: Sequence[Ranked | LeporidError] = self._group(rows, folds_in, all_items)
                except HistoryUnsupportedError as error:
                    # The model knows only its users: those get their list, less their new items.
                    known = [row for row in rows if row.known is not None]
                    lists = iter(self._group(known, False, all_items) if known else ())
                    ranked = [error if row.known is None else next(lists) for row in rows]
            for row, answer in zip(rows, ranked, strict=True):
                answers[row.position] = answer
        return [answer for answer in answers if answer is not None]

    def _group(self, rows: list[_Row], folds_in: bool, all_items: bool) -> list[Ranked]:
        run, limits = rows[0].query.run, self._limits
        hidden = Sequences.from_rows([row.hidden for row in rows])
        # The newest part of a long history says most, and bounds the work.
        recent = [row.history[-limits.history_length :] for row in rows] if folds_in else []
        users = np.asarray([] if folds_in else [row.known for row in rows], np.int32)
        longest = max(row.query.n for row in rows)
        top = None
        if limits.two_stage and not all_items:
            histories = Sequences.from_rows(recent) if folds_in else None
            kept = max(limits.two_stage, 2 * longest)
            top = run.model.retrieve(
                None if folds_in else users, longest, kept, histories=histories, hidden=hidden
            )
        if top is None:
            scores = run.model.score_histories(recent) if folds_in else run.model.score(users)
            if all_items:
                return [_among(row, own, folds_in) for row, own in zip(rows, scores, strict=True)]
            top = masked_top_k(scores, longest, seen=hidden)
        lists = zip(rows, top.items, top.scores, strict=True)
        return [_ranked(row, items, values, folds_in) for row, items, values in lists]


def _row(query: UserQuery, position: int, new: dict[str, list[str]]) -> _Row:
    run = query.run
    if query.user is None:
        assert query.history is not None
        return _Row(query, position, None, query.history, 0)
    events = run.known_items(list(dict.fromkeys(new.get(query.user, []))))
    known, before = run.user_items(query.user, len(events) > 0)
    events = events[~np.isin(events, before)]
    return _Row(query, position, known, np.concatenate([before, events]), len(events))


def _among(row: _Row, scores: NDArray[np.float32], folds_in: bool) -> Ranked:
    """The best of scores float32[n_items] among the candidates of the query."""
    allowed = np.zeros(len(scores), np.bool_)
    allowed[row.query.candidates] = True
    hidden = Sequences.from_rows([row.hidden])
    top = masked_top_k(scores[None], row.query.n, seen=hidden, allowed=allowed)
    return _ranked(row, top.items[0], top.scores[0], folds_in)


def _ranked(
    row: _Row, items: NDArray[np.int32], scores: NDArray[np.float32], folds_in: bool
) -> Ranked:
    present = items >= 0
    chosen = items[present][: row.query.n]
    reasons = None
    if row.query.explain:
        reasons = row.query.run.neighbours.reasons_for(chosen, row.history)
    values = scores[present][: row.query.n].tolist()
    return Ranked(chosen.tolist(), values, reasons, folds_in, row.n_events)
