"""`Service`: the runs that are served, and what each endpoint does with them."""

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
from leporid.machine import torch_threads
from leporid.ranking import BoundRules, HistoryUnsupportedError, masked_top_k
from leporid.serve import schemas as s
from leporid.serve.ab_test import ABTest
from leporid.serve.batching import Batcher, Budget
from leporid.serve.loaded_run import LoadedRun, load_run, to_json
from leporid.serve.middleware import Metrics
from leporid.serve.rules import bind_rules
from leporid.serve.store import Event, EventStore, Impression

_LARGE, _PAUSE_SECONDS = 2000, 0.01
"""A request that costs more waits a moment first: its client may have hung up at once."""
_NO_ITEMS = np.empty(0, np.int32)
Ranked = dict["UserQuery", bytes | LeporidError]
"""Of each query its entry of `results` in the answer of POST /recommend."""


@dataclass(eq=False)
class UserQuery:
    """A user to recommend to: an id, or a history of item indices."""

    run: LoadedRun
    n: int
    name: s.RunName = "main"
    """Of the run."""
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
    include_seen: bool = False
    rules: BoundRules | None = None
    explain: bool = False
    length: int = 0
    """Items of the history, without those that only the store knows."""
    known: int | None = None
    """The user's index, and below the number of new items, once the store has been read."""
    n_events: int = 0
    impression: Impression | None = None
    """Of a user in a test of two runs; its items are set with the result."""
    stored: NDArray[np.int32] = field(default_factory=lambda: _NO_ITEMS)
    """Items that the store knows of the user."""

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
        events = self.run.known_items(
            stored if repeats else list(dict.fromkeys(stored))
        )
        self.stored = events
        _, self.known, before = self.run.find_user(self.user, required=len(events) == 0)
        events = events[~np.isin(events, before)]
        self.history, self.n_events = np.concatenate([before, events]), len(events)
        for other in self.others:
            _, index, had = other.find_user(self.user)
            had = had if index is None else other.model.known.hidden().of(index)
            own = [other.ids[item] for item in had]
            self.excluded = np.concatenate([self.excluded, self.run.known_items(own)])

    def hidden(self) -> NDArray[np.int32]:
        """What must not be recommended."""
        hidden = np.full(len(self.run.ids), self.candidates is not None)
        if self.candidates is not None:
            hidden[self.candidates] = False
        hidden[self.excluded] = True
        if not self.include_seen:
            hidden[self.history if self.user is None else self.stored] = True
        if self.known is not None:
            hidden[self.run.model.known.hidden(self.include_seen).of(self.known)] = True
        return np.flatnonzero(hidden).astype(np.int32)

    def result(
        self, items: NDArray[np.int32], scores: NDArray[np.float32], folded_in: bool
    ) -> bytes:
        """The JSON of a ranked list, int32[n] with -1 as padding; made off the event loop."""
        run, chosen = self.run, items[items >= 0][: self.n]
        pairs = zip(chosen.tolist(), scores[: len(chosen)].tolist(), strict=True)
        best = [
            {**run.item(index), "score": score, "because": None}
            for index, score in pairs
        ]
        if self.impression is not None:
            self.impression = self.impression._replace(
                items=tuple(str(i["id"]) for i in best)
            )
        if self.explain:
            known = None if folded_in else self.known
            for item, because in zip(
                best, run.because(chosen, self.history, known), strict=True
            ):
                item["because"] = because
        asked = (
            self.asked if self.known is None else run.model.users.external(self.known)
        )
        about: dict[str, Any] = {
            "user": asked,
            "run": self.name,
            "folded_in": folded_in,
        }
        about |= {"new_events": self.n_events, "unknown": self.unknown, "items": best}
        about["reasons"] = run.model.reason_kind if self.explain else None
        return to_json(about)


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
        test: ABTest | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.limits = limits or s.ServeLimits()
        self._include_seen = include_seen
        self.store, self._test, self._clock = store, test, clock
        self._folders: dict[s.RunName, str | Path] = {"main": run_dir}
        if compare is not None:
            self._folders["compare"] = compare
        self._items = items
        self._reloading = asyncio.Lock()
        self.budget = Budget(self.limits.client_rate, self.limits.client_burst)
        most = {
            "waiting": self.limits.waiting,
            "per_client": self.limits.waiting_per_client,
        }
        self._scoring: Batcher[UserQuery, bytes] = Batcher(
            lambda queries: self.rank(queries),
            cost=lambda query: query.cost,
            batch=self.limits.batch,
            name="scoring",
            **most,
        )
        self._writing: Batcher[list[Event] | list[Impression], int] = Batcher(
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
                run.model.fitting = run.model.fitting.replace(
                    include_seen=self._include_seen
                )
        return runs

    async def reload(self) -> None:
        """Load the folders again and swap; requests meanwhile are answered by the old runs."""
        async with self._reloading:
            try:
                fresh = await asyncio.to_thread(self._load)
                # The first score of a model prepares what it keeps: before the swap, not after.
                await self._scoring.submit(
                    [_first_query(run) for run in fresh.values()]
                )
                await asyncio.gather(*(run.graph.ready() for run in fresh.values()))
            except LeporidError:
                raise
            except Exception as error:
                raise DataError(
                    f"the folder is broken: {type(error).__name__}"
                ) from error
            self.runs = fresh
            del fresh
            self.after_load()
            self.metrics.reloads.inc()

    def run(self, name: s.RunName) -> LoadedRun:
        """A served run by its name."""
        if name not in self.runs:
            raise s.RequestError(
                "there is no run to compare with: start with --compare RUN2"
            )
        return self.runs[name]

    def run_infos(self) -> list[dict[str, Any]]:
        """The served runs, for GET /health and the log."""
        return [{"name": name, **run.about()} for name, run in self.runs.items()]

    async def recommend(
        self,
        request: s.RecommendRequest,
        client: str = "",
        hung_up: Callable[[], Awaitable[Any]] | None = None,
        *,
        writes: bool = False,
    ) -> bytes:
        """The answer of POST /recommend; nothing is computed once `hung_up()` has returned.

        Under a test, impressions are kept where the client `writes`.
        """
        named: s.RunName = request.run or "main"
        run = self.run(named)
        request.check(self.limits)
        names = run.model.items
        shared = {named: await self._shared(request, named, client)}
        if self._test is not None and request.rules and not request.run:
            try:
                shared["compare"] = await self._shared(request, "compare", client)
            except (
                s.RequestError
            ):  # rules of items that this run does not have: no test
                request = request.model_copy(update={"run": "main"})
        queries = []
        for user in request.users:
            impression = self._impression(user, request)
            name: Any = named if impression is None else impression.run
            if name not in shared:
                shared[name] = await self._shared(request, name, client)
            key, _, items = shared[name]["run"].find_user(user)
            about: dict[str, Any] = {"asked": user, "user": key, "length": len(items)}
            about["impression"] = impression if writes else None
            queries.append(UserQuery(**about, **shared[name]))
        for history in request.histories:
            known, unknown = names.split_known(history)
            if len(known) == 0:
                names.index(unknown[0])  # raises: nothing to go by
            if not run.model.fitting.include_seen:  # each item once, in order
                known = known[np.sort(np.unique(known, return_index=True)[1])]
            about = {"unknown": tuple(unknown), "length": len(history)}
            queries.append(UserQuery(history=known, **about, **shared[named]))
        cost = sum(query.cost for query in queries)
        self._charge(client, cost)
        gone = None if hung_up is None else asyncio.ensure_future(hung_up())
        try:
            if gone is not None and cost > _LARGE:
                await asyncio.wait([gone], timeout=_PAUSE_SECONDS)
            for served in {query.run for query in queries if query.explain}:
                await (
                    served.graph.ready()
                )  # here: the scoring thread answers others meanwhile
            rows = await self._scoring.submit(queries, client, gone)
        finally:
            if gone is not None:
                gone.cancel()
        shown, stored = (
            [query.impression for query in queries if query.impression is not None],
            0,
        )
        if shown and self._test is not None:
            stored = await self._test.keep(shown, client, self._writing, self.metrics)
        label = to_json(
            " and ".join(dict.fromkeys(query.run.label for query in queries))
        )
        return b'{"run":%s,"impressions":%d,"results":[%s]}' % (
            label,
            stored,
            b",".join(rows),
        )

    def _charge(self, client: str, cost: int) -> None:
        s.bound(
            "work (20 + n per user, more with explain or rules)", cost, self.limits.cost
        )
        self.budget.charge(client, cost)

    async def _shared(
        self, request: s.RecommendRequest, name: s.RunName, client: str
    ) -> dict[str, Any]:
        """What the queries of a request to one run have in common."""
        run = self.runs[name]
        rules = await bind_rules(
            request.rules, run, request.n, partial(self._charge, client)
        )

        def indices(ids: Sequence[int | str]) -> NDArray[np.int32]:
            # The client did not ask for a test's other run: what that does not know is left out.
            asked, items = name == (request.run or "main"), run.model.items
            return items.indices(ids) if asked else items.split_known(ids)[0]

        served = self.runs.values() if request.exclude_seen_by_other else ()
        return {
            **{"run": run, "name": name, "n": request.n, "explain": request.explain},
            "others": tuple(other for other in served if other is not run),
            "include_seen": run.model.shows(request.shows_seen()),
            "candidates": None
            if request.candidates is None
            else indices(request.candidates),
            "excluded": indices(request.exclude),
            "rules": rules,
        }

    def _impression(
        self, user: int | str, request: s.RecommendRequest
    ) -> Impression | None:
        """The list of a user who takes part in a test: one whom all runs were trained with."""
        # No database keeps a NUL.
        if (
            self._test is None
            or request.run
            or "\0" in str(user)
            or not self._all_know(user)
        ):
            return None
        return self._test.impression(self.runs["main"].find_user(user)[0])

    def _all_know(self, user: int | str) -> bool:
        """Whether every served run was trained with this user."""
        return all(run.find_user(user)[1] is not None for run in self.runs.values())

    def rank(self, queries: Sequence[UserQuery]) -> list[bytes | LeporidError]:
        """One result per query, in order; an error for a query with an unknown id.

        Queries of the same run are scored together. Runs in the scoring thread.
        """
        answers: Ranked = {}
        users = list({query.user for query in queries if query.user is not None})
        last = self.limits.history_length
        new = (
            self.store.items_of(users, last) if self.store is not None and users else {}
        )
        groups: dict[Any, list[UserQuery]] = defaultdict(list)
        for query in queries:
            try:
                query.look_up(new.get(query.user or "", []))
            except UnknownIdError as error:
                answers[query] = error
            else:
                ruled = query.rules, query.rules and query.n  # the pool depends on n
                groups[
                    query.run, query.folds_in, query.candidates is None, *ruled
                ].append(query)
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
    ) -> Ranked:
        hidden = Sequences.from_rows([query.hidden() for query in queries])
        # The newest part of a long history says most, and bounds the work.
        last = self.limits.history_length
        recent = [query.history[-last:] for query in queries] if folds_in else []
        users = (
            None
            if folds_in
            else np.asarray([query.known for query in queries], np.int32)
        )
        longest, top = max(query.n for query in queries), None
        # A list of candidates may miss everything a first stage keeps.
        rules = queries[0].rules
        if self.limits.two_stage and queries[0].candidates is None and rules is None:
            histories = Sequences.from_rows(recent) if folds_in else None
            kept = max(self.limits.two_stage, 2 * longest)
            top = run.model.retrieve(
                users, longest, kept, histories=histories, hidden=hidden
            )
        if top is None:
            model = run.model
            scores = (
                model.score_histories(recent) if users is None else model.score(users)
            )
            top = (rules.top_k if rules else masked_top_k)(scores, longest, seen=hidden)
        lists = zip(queries, top.items, top.scores, strict=True)
        return {
            query: query.result(items, found, folds_in) for query, items, found in lists
        }

    async def store_events(self, request: s.EventsRequest, client: str = "") -> int:
        """Keep events; when this returns they are on disk."""
        run, now = self.runs["main"], int(self._clock())
        request.check(self.limits)
        events = []
        for event in request.events:
            item = run.model.items.external(run.model.items.index(event.item))
            when = now if event.time is None else event.time
            events.append(Event(run.find_user(event.user)[0], str(item), when))
        if self.store is None:
            raise s.RequestError(
                "this server keeps no events: start it with --store FILE"
            )
        [stored] = await self._writing.submit([events], client)
        self.metrics.events.inc(stored)
        return stored

    def _add(
        self, requests: list[list[Event] | list[Impression]]
    ) -> list[int | LeporidError]:
        """Several requests in one transaction: they share the wait for the disk."""
        assert self.store is not None
        rows = [row for request in requests for row in request]
        events = [row for row in rows if isinstance(row, Event)]
        self.store.add(events, [row for row in rows if isinstance(row, Impression)])
        return [len(request) for request in requests]

    def draw(self, number: int) -> str:
        """The id of a user with a history, drawn by a number; where possible all runs know it."""
        names = self.runs["main"].draw(number)
        return next(filter(self._all_know, names), names[0])

    async def user(self, name: str) -> dict[str, Any]:
        """The answer of GET /users/{id}."""
        run = self.runs["main"]
        key, stored = run.find_user(name)[0], list[str]()
        if self.store is not None:
            last = self.limits.history_length
            stored = (await asyncio.to_thread(self.store.items_of, [key], last)).get(
                key, []
            )
        return run.user(name, stored)

    def close(self) -> None:
        """Finish, and let go of the store."""
        self._scoring.close()
        self._writing.close()
        if self.store is not None:
            self.store.close()


def _first_query(run: LoadedRun) -> UserQuery:
    """A query that every run can answer, to score once before it is served."""
    return UserQuery(run, n=1, user=str(run.model.users.external(0)))
