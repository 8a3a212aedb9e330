"""`Service`: the runs that are served, and what each endpoint does with them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np

from leporid.errors import DataError, LeporidError, UnknownIdError
from leporid.serve import schemas as s
from leporid.serve.batching import Batcher, Budget
from leporid.serve.engine import Engine, UserQuery
from leporid.serve.loaded_run import LoadedRun, load_run, to_json
from leporid.serve.monitoring import Metrics
from leporid.serve.store import Event, EventStore

_SHOWN = 100
"""Items of a user's history that are listed."""
_LARGE, _PAUSE_SECONDS = 2000, 0.01
"""A request that costs more waits a moment first: its client may have hung up at once."""


class RequestError(LeporidError):
    """The request is readable, but asks for too much or for nothing."""


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
    ) -> None:
        self.limits = limits or s.ServeLimits()
        self.store = store
        self._folders: dict[s.RunName, str | Path] = {"main": run_dir}
        if compare is not None:
            self._folders["compare"] = compare
        self._items = items
        self._engine = Engine(self.limits, store)
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
        self._engine.rank([_first_query(run) for run in self.runs.values()])

    def _load(self) -> dict[s.RunName, LoadedRun]:
        runs: dict[s.RunName, LoadedRun] = {}
        for name, path in self._folders.items():
            runs[name] = load_run(path, self._items, like=runs.get("main"))
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
        candidates = None if request.candidates is None else names.indices(request.candidates)
        shared: dict[str, Any] = {"run": run, "n": request.n, "candidates": candidates}
        shared["excluded"] = names.indices(request.exclude)
        shared |= {"exclude_seen": request.exclude_seen, "explain": request.explain}
        queries = []
        for user in request.users:
            key, length = _known_user(run, user)
            queries.append(UserQuery(asked=user, user=key, length=length, **shared))
        for history in request.histories:
            known, unknown = names.split_known(history)
            if len(known) == 0:
                names.index(unknown[0])  # raises: nothing to go by
            distinct = known[np.sort(np.unique(known, return_index=True)[1])]  # in order
            length = len(history)
            queries.append(
                UserQuery(history=distinct, unknown=tuple(unknown), length=length, **shared)
            )
        cost = sum(query.cost for query in queries)
        self.bound("work (20 + n per user, and more with explain)", cost, self.limits.cost)
        self.budget.charge(client, cost)
        gone = None if hung_up is None else asyncio.ensure_future(hung_up())
        try:
            if gone is not None and cost > _LARGE:
                await asyncio.wait([gone], timeout=_PAUSE_SECONDS)
            rows = await self._scoring.submit(queries, client, gone)
        finally:
            if gone is not None:
                gone.cancel()
        return b'{"run":%s,"results":[%s]}' % (to_json(run.label), b",".join(rows))

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
            for ranked in self._engine.rank(queries)
        ]

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
