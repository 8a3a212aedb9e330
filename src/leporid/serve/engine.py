"""`Engine`: a batch of people in, a ranked list for each of them out. Runs in one thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from leporid.data.interactions import Sequences
from leporid.errors import LeporidError, UnknownIdError
from leporid.models.shared.base import HistoryUnsupportedError
from leporid.ranking.masked import masked_top_k
from leporid.serve.limits import ServeLimits
from leporid.serve.loaded_run import LoadedRun
from leporid.serve.store import EventStore
from leporid.serve.threads import use_threads

if TYPE_CHECKING:
    from leporid.models.dlr2.model import DLR2
    from leporid.models.shared.base import Recommender

__all__ = ["Engine", "Person", "Ranked", "wants_two_stages"]

_NO_ITEMS = np.empty(0, np.int32)


@dataclass(frozen=True, eq=False)
class Person:
    """Someone to recommend to: a user id, or a history of item indices."""

    run: LoadedRun
    n: int
    user: str | None = None
    history: NDArray[np.int32] | None = None
    excluded: NDArray[np.int32] = field(default_factory=lambda: _NO_ITEMS)
    candidates: NDArray[np.int32] | None = None
    exclude_seen: bool = True
    explain: bool = False


@dataclass(frozen=True, eq=False)
class Ranked:
    """Item indices, best first, with scores and, if asked for, the reasons."""

    items: list[int]
    scores: list[float]
    reasons: list[list[tuple[int, float]]] | None
    folded_in: bool
    """Whether the person was placed from a history rather than read from the user table."""
    n_events: int
    """Stored events of the user that counted."""


@dataclass(eq=False)
class _Row:
    """A person with everything that is known of them."""

    person: Person
    place: int
    """Position in the batch."""
    known: int | None
    """Index in the user table."""
    history: NDArray[np.int32]
    n_events: int

    @property
    def folds_in(self) -> bool:
        return self.known is None or self.n_events > 0

    @property
    def hidden(self) -> NDArray[np.int32]:
        """What must not be recommended."""
        if not self.person.exclude_seen:
            return self.person.excluded
        return np.union1d(self.history, self.person.excluded).astype(np.int32)


class Engine:
    """Scores people together who share a run; nothing here depends on HTTP."""

    def __init__(self, limits: ServeLimits, store: EventStore | None = None) -> None:
        self._limits = limits
        self._store = store

    def rank(self, people: Sequence[Person]) -> list[Ranked | LeporidError]:
        """One answer a person, in order; a person's own mistake is an error in their place."""
        answers: list[Ranked | LeporidError | None] = [None] * len(people)
        users = list({person.user for person in people if person.user is not None})
        new = {}
        if self._store is not None and users:
            new = self._store.items_of(users, self._limits.history_length)
        groups: dict[tuple[int, bool, bool], list[_Row]] = {}
        for place, person in enumerate(people):
            try:
                row = self._row(person, place, new)
            except UnknownIdError as error:
                answers[place] = error
                continue
            # A list of candidates may miss everything the first stage keeps.
            all_items = person.candidates is not None
            groups.setdefault((id(person.run), row.folds_in, all_items), []).append(row)
        for (_, folds_in, all_items), rows in groups.items():
            try:
                ranked: Sequence[Ranked | LeporidError] = self._group(rows, folds_in, all_items)
            except HistoryUnsupportedError as error:
                ranked = self._without_fold_in(rows, all_items, error)
            for row, answer in zip(rows, ranked, strict=True):
                answers[row.place] = answer
        return [answer for answer in answers if answer is not None]

    def _row(self, person: Person, place: int, new: dict[str, list[str]]) -> _Row:
        model = person.run.model
        if person.user is None:
            assert person.history is not None
            return _Row(person, place, None, person.history, 0)
        stored = new.get(person.user, [])
        indices = [_index(person.run, item) for item in dict.fromkeys(stored)]
        events = np.asarray([index for index in indices if index >= 0], np.int32)
        try:
            known: int | None = model.users.index(person.user)
        except UnknownIdError:
            if len(events) == 0:
                raise
            known = None
        before = _NO_ITEMS if known is None else model.known.sequences().of(known)
        events = events[~np.isin(events, before)]
        return _Row(person, place, known, np.concatenate([before, events]), len(events))

    def _without_fold_in(
        self, rows: list[_Row], all_items: bool, error: LeporidError
    ) -> list[Ranked | LeporidError]:
        """The model knows only its users: known ones get their list, less their new items."""
        known = [row for row in rows if row.known is not None]
        ranked = iter(self._group(known, False, all_items)) if known else iter(())
        return [next(ranked) if row.known is not None else error for row in rows]

    def _group(self, rows: list[_Row], folds_in: bool, all_items: bool) -> list[Ranked]:
        run, hidden = rows[0].person.run, _sequences([row.hidden for row in rows])
        # The newest part of a long history says most, and bounds the work.
        recent = [row.history[-self._limits.history_length :] for row in rows] if folds_in else []
        users = np.asarray([] if folds_in else [row.known for row in rows], np.int32)
        longest = max(row.person.n for row in rows)
        use_threads(run.threads)
        kept = max(self._limits.two_stage, 2 * longest)
        if not all_items and self._limits.two_stage and wants_two_stages(run.model, kept):
            dlr2 = cast("DLR2", run.model)
            if folds_in:
                top = dlr2.two_stage_histories(_sequences(recent), longest, kept, hidden=hidden)
            else:
                top = dlr2.two_stage(users, longest, kept, hidden=hidden)
            lists = list(zip(top.items, top.scores, strict=True))
        else:
            scores = run.model.score_histories(recent) if folds_in else run.model.score(users)
            lists = _all_items(scores, rows, hidden, longest, all_items)
        return [_ranked(row, *found, folds_in) for row, found in zip(rows, lists, strict=True)]


def wants_two_stages(model: Recommender, candidates: int) -> bool:
    """Whether the model is a DLR2 that ranks by S and has more items than G would retrieve."""
    if model.name != "dlr2" or not 0 < candidates < len(model.items):
        return False
    config = cast("DLR2", model).config
    return config.losses == "both" and config.inference != "generative"


def _all_items(
    scores: NDArray[np.float32], rows: list[_Row], hidden: Sequences, n: int, all_items: bool
) -> list[tuple[NDArray[np.int32], NDArray[np.float32]]]:
    """The best of scores float32[len(rows), n_items], for each among their own candidates."""
    if not all_items:
        top = masked_top_k(scores, n, seen=hidden)
        return list(zip(top.items, top.scores, strict=True))
    lists = []
    for row, own in zip(rows, scores, strict=True):
        allowed = np.zeros(len(own), np.bool_)
        allowed[row.person.candidates] = True
        top = masked_top_k(own[None], row.person.n, seen=_sequences([row.hidden]), allowed=allowed)
        lists.append((top.items[0], top.scores[0]))
    return lists


def _index(run: LoadedRun, item: str) -> int:
    """-1 for an item the model has never met: a later training may."""
    try:
        return run.model.items.index(item)
    except UnknownIdError:
        return -1


def _ranked(
    row: _Row, items: NDArray[np.int32], scores: NDArray[np.float32], folds_in: bool
) -> Ranked:
    found = items >= 0
    chosen = items[found][: row.person.n].tolist()
    reasons = None
    if row.person.explain:
        reasons = [row.person.run.reasons(item, row.history) for item in chosen]
    return Ranked(
        items=chosen,
        scores=scores[found][: row.person.n].tolist(),
        reasons=reasons,
        folded_in=folds_in,
        n_events=row.n_events,
    )


def _sequences(rows: Sequence[NDArray[np.int32]]) -> Sequences:
    indptr = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(row) for row in rows], out=indptr[1:])
    items = np.concatenate(rows) if rows else _NO_ITEMS
    return Sequences(indptr, items.astype(np.int32, copy=False))
