"""`Service`: the runs that are served, and what each endpoint does with them."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leporid.data import Sequences
from leporid.errors import DataError, LeporidError, UnknownIdError
from leporid.evaluation import BoundRules, masked_top_k
from leporid.models import HistoryUnsupportedError
from leporid.serve import schemas as s
from leporid.serve.batching import Batcher, Budget
from leporid.serve.loaded_run import LoadedRun, load_run, to_json
from leporid.serve.middleware import Metrics
from leporid.serve.rules import bind_rules
from leporid.serve.schemas import RequestError
from leporid.serve.store import Event, EventStore
from leporid.threads import torch_threads

_SHOWN = 100
"""Items of a user's history that are listed."""
_LARGE, _PAUSE_SECONDS = 2000, 0.01
"""A request that costs more waits a moment first: its client may have hung up at once."""
_NO_ITEMS = np.empty(0, np.int32)
Result = dict[str, Any]
"""An entry of `results` in the answer of POST /recommend."""


@dataclass(eq=False)
class UserQuery:
    """A user to recommend to: an id, or a history of item indices."""

    run: LoadedRun
    n: int
    asked: int | str | None = None
    """The user's id as it was asked for."""
    user: str | None = None
    history: NDArray[np.int32] = field(default_factory=lambda: _NO_ITEMS)
    unknown: tuple[int | str, ...] = ()
    """Items of the history that the model does not know."""
    others: tuple[LoadedRun, ...] = ()
    """Runs whose items of the user are not recommended either."""
    excluded: NDArray[np.int32] = field(default_factory=lambda: _NO_ITEMS)
    candidates: NDArray[np.int32] | None = None
    exclude_seen: bool = True
    rules: BoundRules | None = None
    explain: bool = False
    length: int = 0
    """Items of the history, without those that only the store knows."""
    known: int | None = None
    """The user's index, and below the number of new items, once the store has been read."""
    n_events: int = 0

    @property
    def cost(self) -> int:
        """Work, in units of roughly ten microseconds: a score, and what is said of each item."""
        given = self.history if self.user is None else _NO_ITEMS
        listed = len(given) + len(self.excluded)
        listed += 0 if self.candidates is None else len(self.candidates)
        reasons = 3 * self.n + self.length if self.explain else 0
        ruled = 0 if self.rules is None else self.rules.work(self.n) // 4000
        return 20 + self.n + reasons + listed // 20 + ruled

    @property
    def folds_in(self) -> bool:
        return self.known is None or self.n_events > 0

    def look_up(self, stored: Sequence[str]) -> None:
        """Set what the model and the store know of the user; an unknown one is an error."""
        if self.user is None:
            return
        repeats = self.run.model.fitting.include_seen
        events = self.run.known_items(stored if repeats else list(dict.fromkeys(stored)))
        self.known, before = self.run.user_items(self.user, len(events) > 0)
        events = events[~np.isin(events, before)]
        self.history, self.n_events = np.concatenate([before, events]), len(events)
        for other in self.others:
            own = [other.ids[index] for index in other.user_items(self.user, True)[1]]
            self.excluded = np.concatenate([self.excluded, self.run.known_items(own)])

    def hidden(self) -> NDArray[np.int32]:
        """What must not be recommended."""
        hidden = np.full(len(self.run.ids), self.candidates is not None)
        if self.candidates is not None:
            hidden[self.candidates] = False
        hidden[self.excluded] = True
        if self.exclude_seen:
            hidden[self.history] = True
        return np.flatnonzero(hidden).astype(np.int32)

    def result(
        self, items: NDArray[np.int32], scores: NDArray[np.float32], folded_in: bool
    ) -> Result:
        """The entry of the answer from a ranked list, int32[n] with -1 as padding."""
        run, chosen = self.run, items[items >= 0][: self.n]
        pairs = zip(chosen.tolist(), scores[: len(chosen)].tolist(), strict=True)
        best = [{**run.item(index), "score": score, "because": None} for index, score in pairs]
        if self.explain:
            known = None if folded_in else self.known
            for item, because in zip(best, run.because(chosen, self.history, known), strict=True):
                item["because"] = because
        asked = self.asked if self.known is None else run.model.users.external(self.known)
        about = {"user": asked, "folded_in": folded_in, "new_events": self.n_events}
        about["reasons"] = run.model.reason_kind if self.explain else None
        return {**about, "unknown": self.unknown, "items": best}


class Service:
    """Owns the loaded runs; replaces them as a whole, so a request sees one state or the other."""

    def __init__(
        self,
        run_dir: str | Path,
        *,
        items: str | Path | None = None,
        compare: str | Path | None = None,
        store: EventStore | None = None,
        limits: s.ServeLimits | None = None,
        include_seen: bool | None = None,
    ) -> None:
        self.limits = limits or s.ServeLimits()
        self._include_seen = include_seen
        self.store = store
        self._folders: dict[s.RunName, str | Path] = {"main": run_dir}
        if compare is not None:
            self._folders["compare"] = compare
        self._items = items
        self._reloading = asyncio.Lock()
        self.budget = Budget(self.limits.client_rate, self.limits.client_burst)
        most = {"waiting": self.limits.waiting, "per_client": self.limits.waiting_per_client}
        self._scoring: Batcher[UserQuery, bytes] = Batcher(
            self._answers,
            cost=lambda query: query.cost,
            batch=self.limits.batch,
            name="scoring",
            **most,
        )
        self._writing: Batcher[list[Event], int] = Batcher(
            self._add, cost=len, batch=256, name="events", **most
        )
        self.after_load: Callable[[], None] = lambda: None
        self.runs = self._load()
        self.metrics = Metrics(
            waiting=lambda: self._scoring.waiting,
            model_loaded_timestamp_seconds=lambda: self.runs["main"].loaded_at,
            items=lambda: len(self.runs["main"].model.items),
        )
        self.rank([_first_query(run) for run in self.runs.values()])

    def _load(self) -> dict[s.RunName, LoadedRun]:
        runs: dict[s.RunName, LoadedRun] = {}
        for name, path in self._folders.items():
            runs[name] = run = load_run(path, self._items, like=runs.get("main"))
            if self._include_seen is not None:
                run.model.fitting = run.model.fitting.replace(include_seen=self._include_seen)
        return runs

    async def reload(self) -> None:
        """Load the folders again and swap; requests meanwhile are answered by the old runs."""
        async with self._reloading:
            try:
                fresh = await asyncio.to_thread(self._load)
                # The first score of a model prepares what it keeps: before the swap, not after.
                await self._scoring.submit([_first_query(run) for run in fresh.values()])
            except LeporidError:
                raise
            except Exception as error:
                raise DataError(f"the folder is broken: {type(error).__name__}") from error
            self.runs = fresh
            del fresh
            self.after_load()
            self.metrics.reloads.inc()

    def run(self, name: s.RunName) -> LoadedRun:
        """A served run by its name."""
        if name not in self.runs:
            raise RequestError("there is no run to compare with: start with --compare RUN2")
        return self.runs[name]

    def run_infos(self) -> list[dict[str, Any]]:
        """The served runs, for GET /health and the log."""
        return [{"name": name, **run.about()} for name, run in self.runs.items()]

    async def recommend(
        self,
        request: s.RecommendRequest,
        client: str = "",
        hung_up: Callable[[], Awaitable[Any]] | None = None,
    ) -> bytes:
        """The answer of POST /recommend; nothing is computed once `hung_up()` has returned."""
        run = self.run(request.run)
        self._bound_request(request)
        names = run.model.items
        rules = await bind_rules(request.rules, run, request.n, partial(self._charge, client))
        shared: dict[str, Any] = {
            **{"n": request.n, "explain": request.explain, "rules": rules},
            "exclude_seen": run.model.hides(request.exclude_seen),
            "candidates": None if request.candidates is None else names.indices(request.candidates),
            "excluded": names.indices(request.exclude),
        }
        queries = []
        served = self.runs.values() if request.exclude_seen_by_other else ()
        others = tuple(other for other in served if other is not run)
        for user in request.users:
            key, length = _known_user(run, user)
            about: dict[str, Any] = {"asked": user, "user": key, "length": length}
            queries.append(UserQuery(run, others=others, **about, **shared))
        for history in request.histories:
            known, unknown = names.split_known(history)
            if len(known) == 0:
                names.index(unknown[0])  # raises: nothing to go by
            if not run.model.fitting.include_seen:  # each item once, in order
                known = known[np.sort(np.unique(known, return_index=True)[1])]
            about = {"unknown": tuple(unknown), "length": len(history)}
            queries.append(UserQuery(run, history=known, **about, **shared))
        cost = sum(query.cost for query in queries)
        self._charge(client, cost)
        gone = None if hung_up is None else asyncio.ensure_future(hung_up())
        try:
            if gone is not None and cost > _LARGE:
                await asyncio.wait([gone], timeout=_PAUSE_SECONDS)
            rows = await self._scoring.submit(queries, client, gone)
        finally:
            if gone is not None:
                gone.cancel()
        return b'{"run":%s,"results":[%s]}' % (to_json(run.label), b",".join(rows))

    def _charge(self, client: str, cost: int) -> None:
        self.bound("work (20 + n per user, more with explain or rules)", cost, self.limits.cost)
        self.budget.charge(client, cost)

    def _bound_request(self, request: s.RecommendRequest) -> None:
        limits, asked = self.limits, len(request.users) + len(request.histories)
        if asked == 0:
            raise RequestError("give at least one user or one history")
        self.bound("users and histories", asked, limits.users)
        self.bound("n", request.n, limits.n)
        named = len(request.exclude) + len(request.candidates or ())
        for number, history in enumerate(request.histories):
            if not history:
                raise RequestError(f"history {number} is empty: give at least one item id")
            self.bound(f"items in history {number}", len(history), limits.history_length)
            named += len(history)
        self.bound("items named in the request", named, limits.item_list)

    def _answers(self, queries: list[UserQuery]) -> list[bytes | LeporidError]:
        """JSON is made in the scoring thread, off the event loop."""
        return [
            ranked if isinstance(ranked, LeporidError) else to_json(ranked)
            for ranked in self.rank(queries)
        ]

    def rank(self, queries: Sequence[UserQuery]) -> list[Result | LeporidError]:
        """One result per query, in order; an error for a query with an unknown id.

        Queries of the same run are scored together. Runs in the scoring thread.
        """
        answers: dict[UserQuery, Result | LeporidError] = {}
        users = list({query.user for query in queries if query.user is not None})
        last = self.limits.history_length
        new = self.store.items_of(users, last) if self.store is not None and users else {}
        groups: dict[Any, list[UserQuery]] = defaultdict(list)
        for query in queries:
            try:
                query.look_up(new.get(query.user or "", []))
            except UnknownIdError as error:
                answers[query] = error
            else:
                ruled = query.rules, query.rules and query.n  # the pool depends on n
                groups[query.run, query.folds_in, query.candidates is None, *ruled].append(query)
        for (run, folds_in, *_), group in groups.items():
            with torch_threads(run.threads):
                try:
                    answers |= self._group(run, group, folds_in)
                except HistoryUnsupportedError as error:
                    # The model knows only its users: those get their list, less their new items.
                    known = [query for query in group if query.known is not None]
                    answers |= dict.fromkeys(group, error)
                    answers |= self._group(run, known, False) if known else {}
        return [answers[query] for query in queries]

    def _group(
        self, run: LoadedRun, queries: list[UserQuery], folds_in: bool
    ) -> dict[UserQuery, Result]:
        hidden = Sequences.from_rows([query.hidden() for query in queries])
        # The newest part of a long history says most, and bounds the work.
        last = self.limits.history_length
        recent = [query.history[-last:] for query in queries] if folds_in else []
        users = None if folds_in else np.asarray([query.known for query in queries], np.int32)
        longest, top = max(query.n for query in queries), None
        # A list of candidates may miss everything a first stage keeps.
        rules = queries[0].rules
        if self.limits.two_stage and queries[0].candidates is None and rules is None:
            histories = Sequences.from_rows(recent) if folds_in else None
            kept = max(self.limits.two_stage, 2 * longest)
            top = run.model.retrieve(users, longest, kept, histories=histories, hidden=hidden)
        if top is None:
            model = run.model
            scores = model.score_histories(recent) if users is None else model.score(users)
            top = (rules.top_k if rules else masked_top_k)(scores, longest, seen=hidden)
        lists = zip(queries, top.items, top.scores, strict=True)
        return {query: query.result(items, found, folds_in) for query, items, found in lists}

    async def store_events(self, request: s.EventsRequest, client: str = "") -> int:
        """Keep events; when this returns they are on disk."""
        run, now = self.runs["main"], int(time.time())
        self.bound("events", len(request.events), self.limits.events)
        events = []
        for event in request.events:
            if not 0 < len(str(event.user)) <= s.ID_LENGTH:
                raise RequestError(f"a user id has 1 to {s.ID_LENGTH} characters")
            if "\0" in str(event.user):
                raise RequestError("a user id must not contain NUL: no database would keep it")
            item = run.model.items.external(run.model.items.index(event.item))
            when = now if event.time is None else event.time
            events.append(Event(_known_user(run, event.user)[0], str(item), when))
        if self.store is None:
            raise RequestError("this server keeps no events: start it with --store FILE")
        [stored] = await self._writing.submit([events], client)
        self.metrics.events.inc(stored)
        return stored

    def _add(self, requests: list[list[Event]]) -> list[int | LeporidError]:
        """Several requests in one transaction: they share the wait for the disk."""
        assert self.store is not None
        self.store.add([event for events in requests for event in events])
        return [len(events) for events in requests]

    async def search(self, run: LoadedRun, query: str, n: int, client: str) -> list[int]:
        """The answer of GET /items; each word is looked for in every title."""
        self.budget.charge(client, n + (1 + len(set(query.split()))) * len(run.ids) // 200)
        return await asyncio.to_thread(run.search, query, n)

    def draw(self, number: int) -> str:
        """The id of a user with a history, drawn by a number; where possible all runs know it."""
        model = self.runs["main"].model
        able = np.flatnonzero(np.diff(model.known.sequences().indptr))
        drawn = np.random.default_rng(number).choice(able, 20)
        names = [str(model.users.external(int(index))) for index in drawn]
        users = [run.model.users for run in self.runs.values()]
        common = (n for n in names if all(len(known.split_known([n])[0]) for known in users))
        return next(common, names[0])

    async def user(self, name: str) -> dict[str, Any]:
        """The answer of GET /users/{id}."""
        run = self.runs["main"]
        key, stored = _known_user(run, name)[0], list[str]()
        if self.store is not None:
            last = self.limits.history_length
            stored = (await asyncio.to_thread(self.store.items_of, [key], last)).get(key, [])
        index, before = run.user_items(name, bool(stored))
        recent = np.concatenate([before, run.known_items(stored)])[-_SHOWN:]
        return {
            "id": name if index is None else run.model.users.external(index),
            "known": index is not None,
            "interactions": len(before),
            "new_events": len(stored),
            "recent": [run.item(i) for i in recent],
        }

    def bound(self, what: str, value: int, limit: int) -> None:
        """Refuse what is too much."""
        if value > limit:
            raise RequestError(f"{what}: {value} is more than this server allows ({limit})")

    def close(self) -> None:
        """Finish, and let go of the store."""
        self._scoring.close()
        self._writing.close()
        if self.store is not None:
            self.store.close()


def _first_query(run: LoadedRun) -> UserQuery:
    """A query that every run can answer, to score once before it is served."""
    if len(run.model.users) == 0 or len(run.model.items) == 0:
        raise DataError(f"the model of {run.path} has no users or no items: nothing to serve")
    return UserQuery(run, n=1, user=str(run.model.users.external(0)))


def _known_user(run: LoadedRun, user: int | str) -> tuple[str, int]:
    """A user's id as the store spells it ('042' is not 42, 42 is '42'), and the items known."""
    try:
        index = run.model.users.index(user)
    except UnknownIdError:
        return str(user), 0
    return str(run.model.users.external(index)), len(run.model.known.sequences().of(index))
