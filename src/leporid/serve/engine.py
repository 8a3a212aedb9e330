"""`Engine`: a batch of queries in, a ranked list for each out. Runs in one thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

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
Result = dict[str, Any]
"""An entry of `results` in the answer of POST /recommend."""


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
        query = self.query
        hidden = np.full(len(query.run.ids), query.candidates is not None)
        hidden[query.candidates if query.candidates is not None else []] = False
        hidden[query.excluded] = True
        if query.exclude_seen:
            hidden[self.history] = True
        return np.flatnonzero(hidden).astype(np.int32)


class Engine:
    """Scores queries of the same run together; nothing here depends on HTTP."""

    def __init__(self, limits: ServeLimits, store: EventStore | None = None) -> None:
        self._limits, self._store = limits, store

    def rank(self, queries: Sequence[UserQuery]) -> list[Result | LeporidError]:
        """One result per query, in order; an error for a query with an unknown id."""
        answers: list[Result | LeporidError | None] = [None] * len(queries)
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
                    ranked: Sequence[Result | LeporidError] = self._group(rows, folds_in, all_items)
                except HistoryUnsupportedError as error:
                    # The model knows only its users: those get their list, less their new items.
                    known = [row for row in rows if row.known is not None]
                    lists = iter(self._group(known, False, all_items) if known else ())
                    ranked = [error if row.known is None else next(lists) for row in rows]
            for row, answer in zip(rows, ranked, strict=True):
                answers[row.position] = answer
        return [answer for answer in answers if answer is not None]

    def _group(self, rows: list[_Row], folds_in: bool, all_items: bool) -> list[Result]:
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
            top = masked_top_k(scores, longest, seen=hidden)
        lists = zip(rows, top.items, top.scores, strict=True)
        return [_result(row, items, values, folds_in) for row, items, values in lists]


def _row(query: UserQuery, position: int, new: dict[str, list[str]]) -> _Row:
    run = query.run
    if query.user is None:
        assert query.history is not None
        return _Row(query, position, None, query.history, 0)
    events = run.known_items(list(dict.fromkeys(new.get(query.user, []))))
    known, before = run.user_items(query.user, len(events) > 0)
    events = events[~np.isin(events, before)]
    return _Row(query, position, known, np.concatenate([before, events]), len(events))


def _result(
    row: _Row, items: NDArray[np.int32], scores: NDArray[np.float32], folds_in: bool
) -> Result:
    run, query = row.query.run, row.query
    chosen = items[items >= 0][: query.n]
    pairs = zip(chosen.tolist(), scores[: len(chosen)].tolist(), strict=True)
    best = [{**run.item(index), "score": score, "because": None} for index, score in pairs]
    if query.explain:
        reasons = run.neighbours.reasons_for(chosen, row.history)
        for item, because in zip(best, reasons, strict=True):
            item["because"] = [
                {"id": run.ids[index], "title": run.titles[index], "similarity": similarity}
                for index, similarity in because
            ]
    about = {"user": query.asked, "folded_in": folds_in, "new_events": row.n_events}
    return {**about, "unknown": query.unknown, "items": best}
