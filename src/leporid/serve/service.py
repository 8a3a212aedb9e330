"""`Service`: the runs that are served, and what each endpoint does with them."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from leporid.data import Sequences
from leporid.errors import DataError, LeporidError, UnknownIdError
from leporid.foundation import torch_threads
from leporid.ranking import (
    BoundRules,
    HistoryUnsupportedError,
    Indices,
    Scores,
    TopK,
    masked_top_k,
)
from leporid.serve.ab_test import ABTest
from leporid.serve.batching import Batcher, Budget
from leporid.serve.loaded_run import LoadedRun, load_run, to_json
from leporid.serve.middleware import Metrics
from leporid.serve.rules import bind_rules
from leporid.serve.schemas import (
    Candidates,
    EventsRequest,
    Fallback,
    RecommendRequest,
    RequestError,
    RunName,
    ScoreRequest,
    ServeLimits,
    check_limit,
)
from leporid.serve.store import Event, EventStore, Impression, StoreRows
from leporid.serve.user_query import ScoreQuery, UserQuery

_LARGE_COST = 2000
"""A request that costs more waits a moment first: its client may have hung up at once."""
_PAUSE_SECONDS = 0.01
_STORE_BATCH = 256
"""Most requests that are written to the store in one transaction."""
QueryT = TypeVar("QueryT", bound=UserQuery)
Ranked = dict[UserQuery, bytes | LeporidError]
"""The entry of each query in `results` of the answer of POST /recommend."""


class _ScoringGroup(NamedTuple):
    """What queries that are scored together have in common."""

    run: LoadedRun
    folds_in: bool
    has_candidates: bool
    rules: BoundRules | None
    n: int | None
    """Length of the list if there are rules, whose pool depends on it."""
    fallback: Fallback | None
    """What is done in place of scoring, because the model knows nothing of the users."""
    wants_scores: bool
    """Whether the queries name items to score."""


class Service:
    """Owns the loaded runs; replaces them as a whole, so a request sees one state or the other."""

    def __init__(
        self,
        run_dir: str | Path,
        *,
        items: str | Path | None = None,
        compare: str | Path | None = None,
        store: EventStore | None = None,
        limits: ServeLimits | None = None,
        include_seen: bool | None = None,
        test: ABTest | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        limits = limits or ServeLimits()
        self.limits = limits
        self.store = store
        self.budget = Budget(limits.client_rate, limits.client_burst)
        self._include_seen = include_seen
        self._test = test
        self._clock = clock
        self._items = items
        self._folders: dict[RunName, str | Path] = {"main": run_dir}
        if compare is not None:
            self._folders["compare"] = compare
        self._reloading = asyncio.Lock()
        self._scoring: Batcher[UserQuery, bytes] = Batcher(
            lambda queries: self.rank(queries),
            cost=lambda query: query.cost,
            batch=limits.batch,
            waiting=limits.waiting,
            per_client=limits.waiting_per_client,
            name="scoring",
        )
        self._writer: Batcher[StoreRows, int] = Batcher(
            self._add,
            cost=len,
            batch=_STORE_BATCH,
            waiting=limits.waiting,
            per_client=limits.waiting_per_client,
            name="events",
        )
        self.after_load: Callable[[], None] = lambda: None
        self.runs = self._load()
        self.metrics = Metrics(
            waiting=lambda: self._scoring.waiting,
            model_loaded_timestamp_seconds=lambda: self.runs["main"].loaded_at,
            items=lambda: len(self.runs["main"].model.items),
        )
        self.rank([_first_query(run) for run in self.runs.values()])

    def _load(self) -> dict[RunName, LoadedRun]:
        """Load the folders of the runs."""
        runs: dict[RunName, LoadedRun] = {}
        for name, path in self._folders.items():
            run = load_run(path, self._items, like=runs.get("main"))
            if self._include_seen is not None:
                fitting = run.model.fitting
                run.model.fitting = replace(fitting, include_seen=self._include_seen)
            runs[name] = run
        return runs

    async def reload(self) -> None:
        """Load the folders again and swap; requests meanwhile are answered by the old runs."""
        async with self._reloading:
            try:
                runs = await asyncio.to_thread(self._load)
                # The first score of a model prepares what it keeps: before the swap, not after.
                queries = [_first_query(run) for run in runs.values()]
                await self._scoring.submit(queries)
                del queries
                await asyncio.gather(*(run.graph.ready() for run in runs.values()))
            except LeporidError:
                raise
            except Exception as error:
                raise DataError(
                    f"the folder is broken: {type(error).__name__}"
                ) from error
            self.runs = runs
            del runs
            self.after_load()
            self.metrics.reloads.inc()

    def run(self, name: RunName) -> LoadedRun:
        """Return a served run by its name."""
        if name not in self.runs:
            raise RequestError(
                "there is no run to compare with: start with --compare RUN2"
            )
        return self.runs[name]

    def run_infos(self) -> list[dict[str, object]]:
        """Return the served runs as GET /health shows them."""
        return [{"name": name, **run.info()} for name, run in self.runs.items()]

    async def recommend(
        self,
        request: RecommendRequest,
        client: str = "",
        hung_up: Callable[[], Awaitable[object]] | None = None,
        *,
        writes: bool = False,
    ) -> bytes:
        """Return the answer of POST /recommend; stop computing once `hung_up()` has returned.

        If two runs are tested, impressions are stored for a client that may write (`writes`).
        """
        self.run(request.run or "main")
        request.check(self.limits)
        queries = await self._queries(request, client, writes=writes)
        results = await self._answers(queries, client, hung_up)
        stored = await self._store_impressions(queries, client)
        labels = dict.fromkeys(query.run.label for query in queries)
        return (
            b'{"run":%s,"impressions":%d,"popular":%d,"skipped":%d,"results":[%s]}'
            % (
                to_json(" and ".join(labels)),
                stored,
                _fallbacks(queries, "popular"),
                _fallbacks(queries, "skipped"),
                b",".join(results),
            )
        )

    async def score(
        self,
        request: ScoreRequest,
        client: str = "",
        hung_up: Callable[[], Awaitable[object]] | None = None,
    ) -> bytes:
        """Return the answer of POST /score; stop computing once `hung_up()` has returned."""
        run = self.run(request.run)
        request.check(self.limits)
        queries: list[ScoreQuery] = []
        for entry in request.candidates:
            query = _score_query(run, request, entry)
            if entry.history is None:
                assert entry.user is not None
                known = run.find_user(entry.user)
                query.user = known.user_id
                query.history_length = len(known.items)
            else:
                query = _history_query(query, entry.history)
            queries.append(query)
        results = await self._answers(queries, client, hung_up)
        unknown_items = sum(int((query.item_indices < 0).sum()) for query in queries)
        return (
            b'{"run":%s,"popular":%d,"skipped":%d,"unknown_items":%d,"results":[%s]}'
            % (
                to_json(run.label),
                _fallbacks(queries, "popular"),
                _fallbacks(queries, "skipped"),
                unknown_items,
                b",".join(results),
            )
        )

    async def _answers(
        self,
        queries: Sequence[UserQuery],
        client: str,
        hung_up: Callable[[], Awaitable[object]] | None,
    ) -> list[bytes]:
        """Charge for queries and score them, until `hung_up()` has returned."""
        cost = sum(query.cost for query in queries)
        self._charge(client, cost)
        gone = None if hung_up is None else asyncio.ensure_future(hung_up())
        try:
            if gone is not None and cost > _LARGE_COST:
                await asyncio.wait([gone], timeout=_PAUSE_SECONDS)
            return await self._score(queries, client, gone)
        finally:
            if gone is not None:
                gone.cancel()

    async def _queries(
        self,
        request: RecommendRequest,
        client: str,
        *,
        writes: bool,
    ) -> list[UserQuery]:
        """Return a query for each user and each history of a request."""
        name = request.run or "main"
        templates = {name: await self._template(request, name, client)}
        test = None if request.run else self._test
        if test is not None and request.rules:
            try:
                templates["compare"] = await self._template(request, "compare", client)
            except RequestError:
                # The rules are about items that the other run does not have.
                test = None
        queries = []
        for user in request.users:
            impression = None if test is None else self._impression(test, user)
            run_name = name
            # Under a test the request names no run, so the other users get the main one.
            if impression is not None and impression.run == "compare":
                run_name = "compare"
            if run_name not in templates:
                templates[run_name] = await self._template(request, run_name, client)
            template = templates[run_name]
            known = template.run.find_user(user)
            query = replace(
                template,
                requested_id=user,
                user=known.user_id,
                history_length=len(known.items),
                impression=impression if writes else None,
            )
            queries.append(query)
        template = templates[name]
        histories = [_history_query(template, items) for items in request.histories]
        return [*queries, *histories]

    async def _template(
        self,
        request: RecommendRequest,
        name: RunName,
        client: str,
    ) -> UserQuery:
        """Return what the queries of a request to one run have in common."""
        run = self.runs[name]
        charge = partial(self._charge, client)
        rules = await bind_rules(request.rules, run, request.n, charge)
        # The client did not choose a test's other run: its unknown items are left out.
        is_requested = name == (request.run or "main")

        def indices(ids: Sequence[int | str]) -> Indices:
            if is_requested:
                return run.model.items.indices(ids)
            known, _unknown = run.model.items.split_known(ids)
            return known

        candidates = None
        if request.candidates is not None:
            candidates = indices(request.candidates)
        other_runs: tuple[LoadedRun, ...] = ()
        if request.exclude_seen_by_other:
            other_runs = tuple(
                other for other in self.runs.values() if other is not run
            )
        return UserQuery(
            run,
            request.n,
            name,
            other_runs=other_runs,
            excluded=indices(request.exclude),
            candidates=candidates,
            include_seen=run.model.shows(request.shows_seen()),
            rules=rules,
            explain=request.explain,
            on_unknown=request.unknown,
        )

    def _impression(self, test: ABTest, user: int | str) -> Impression | None:
        """Return the impression of a user in a test, or None for one who does not take part.

        Only users with whom all runs were trained take part.
        """
        # No database stores a NUL.
        if "\0" in str(user) or not self._all_know(user):
            return None
        return test.impression(self.runs["main"].find_user(user).user_id)

    def _all_know(self, user: int | str) -> bool:
        """Whether every served run was trained with this user."""
        runs = self.runs.values()
        return all(run.find_user(user).user_index is not None for run in runs)

    def _charge(self, client: str, cost: int) -> None:
        """Refuse a request that costs too much, or charge its client."""
        what = "work (20 + n per user, more with explain or rules)"
        check_limit(what, cost, self.limits.cost)
        self.budget.charge(client, cost)

    async def _score(
        self,
        queries: Sequence[UserQuery],
        client: str,
        gone: asyncio.Future[object] | None,
    ) -> list[bytes]:
        """Score queries in the scoring thread, unless the client is `gone`."""
        # The graphs are awaited here, so that the scoring thread answers others meanwhile.
        for run in {query.run for query in queries if query.explain}:
            await run.graph.ready()
        return await self._scoring.submit(queries, client, gone)

    async def _store_impressions(self, queries: list[UserQuery], client: str) -> int:
        """Store what the users of a test were shown; return how many lists are on disk."""
        impressions = [
            query.impression for query in queries if query.impression is not None
        ]
        if self._test is None or not impressions:
            return 0
        return await self._test.store(impressions, client, self._writer, self.metrics)

    def rank(self, queries: Sequence[UserQuery]) -> list[bytes | LeporidError]:
        """Return a result per query, in order; an error for a query with an unknown id.

        Queries of the same run are scored together. Runs in the scoring thread.
        """
        results: Ranked = {}
        users = list({query.user for query in queries if query.user is not None})
        stored: dict[str, list[str]] = {}
        if self.store is not None and users:
            stored = self.store.items_of(users, self.limits.history_length)
        groups: defaultdict[_ScoringGroup, list[UserQuery]] = defaultdict(list)
        for query in queries:
            try:
                query.look_up(stored.get(query.user or "", []))
            except UnknownIdError as error:
                results[query] = error
                continue
            groups[_group_of(query)].append(query)
        for group, members in groups.items():
            with torch_threads(group.run.threads):
                results |= self._rank_group(group, members)
        return [results[query] for query in queries]

    def _rank_group(self, group: _ScoringGroup, queries: list[UserQuery]) -> Ranked:
        """Rank the queries of a group.

        If the model cannot read histories, users whom it knows get the list without their new
        items, other users what unknown ones get, and histories an error.
        """
        try:
            return self._results(group, queries)
        except HistoryUnsupportedError as error:
            results: Ranked = dict.fromkeys(queries, error)
            again: defaultdict[_ScoringGroup, list[UserQuery]] = defaultdict(list)
            for query in queries:
                if query.user_index is not None:
                    again[group._replace(folds_in=False)].append(query)
                elif query.user is not None and query.on_unknown != "error":
                    query.fall_back()
                    again[_group_of(query)].append(query)
            for part, members in again.items():
                results |= self._results(part, members)
            return results

    def _results(self, group: _ScoringGroup, queries: list[UserQuery]) -> Ranked:
        """Score and rank the queries of a group, and write their results."""
        if group.fallback == "skipped":
            return {query: _skipped(query) for query in queries}
        histories: list[Indices] = []
        users: Indices | None = None
        if group.folds_in:
            # The newest part of a long history says most, and bounds the work.
            last = self.limits.history_length
            histories = [query.history[-last:] for query in queries]
        else:
            users = np.asarray([query.user_index for query in queries], np.int32)
        if group.wants_scores:
            scores = _scores(group, users, histories, len(queries))
            pairs = zip(queries, scores, strict=True)
            return {
                query: query.scored(row, group.folds_in)
                for query, row in pairs
                if isinstance(query, ScoreQuery)
            }
        longest = max(query.n for query in queries)
        excluded = Sequences.from_rows([query.excluded_items() for query in queries])
        top: TopK | None = None
        # A list of candidates may have no item that a first stage returns.
        is_plain = not group.has_candidates and group.rules is None
        if self.limits.two_stage and is_plain and group.fallback is None:
            top = group.run.model.retrieve(
                users,
                longest,
                max(self.limits.two_stage, 2 * longest),
                histories=Sequences.from_rows(histories) if group.folds_in else None,
                excluded=excluded,
            )
        if top is None:
            scores = _scores(group, users, histories, len(queries))
            rank = masked_top_k if group.rules is None else group.rules.top_k
            top = rank(scores, longest, seen=excluded)
        lists = zip(queries, top.items, top.scores, strict=True)
        return {
            query: query.result(items, row, group.folds_in)
            for query, items, row in lists
        }

    async def store_events(
        self,
        request: EventsRequest,
        client: str = "",
    ) -> int:
        """Store events, and return how many; when this returns they are on disk."""
        run = self.runs["main"]
        now = int(self._clock())
        request.check(self.limits)
        events = []
        for event in request.events:
            item = run.model.items.external(run.model.items.index(event.item))
            seconds = now if event.time is None else event.time
            events.append(Event(run.find_user(event.user).user_id, str(item), seconds))
        if self.store is None:
            raise RequestError(
                "this server keeps no events: start it with --store FILE"
            )
        [stored] = await self._writer.submit([events], client)
        self.metrics.events.inc(stored)
        return stored

    def _add(self, requests: list[StoreRows]) -> list[int | LeporidError]:
        """Write several requests in one transaction: they share the wait for the disk."""
        assert self.store is not None
        rows = [row for request in requests for row in request]
        events = [row for row in rows if isinstance(row, Event)]
        impressions = [row for row in rows if isinstance(row, Impression)]
        self.store.add(events, impressions)
        return [len(request) for request in requests]

    def draw(self, number: int) -> str:
        """Return the id of a user with a history, drawn with `number` as the seed.

        A user whom all runs know is preferred.
        """
        names = self.runs["main"].draw(number)
        return next(filter(self._all_know, names), names[0])

    async def user(self, name: str) -> dict[str, object]:
        """Return the answer of GET /users/{id}."""
        run = self.runs["main"]
        user_id = run.find_user(name).user_id
        stored: list[str] = []
        if self.store is not None:
            last = self.limits.history_length
            items = await asyncio.to_thread(self.store.items_of, [user_id], last)
            stored = items.get(user_id, [])
        return run.user(name, stored)

    def close(self) -> None:
        """Finish what has begun, and close the store."""
        self._scoring.close()
        self._writer.close()
        if self.store is not None:
            self.store.close()


def _first_query(run: LoadedRun) -> UserQuery:
    """Return a query that every run can answer, to score once before it is served."""
    return UserQuery(run, n=1, user=str(run.model.users.external(0)))


def _group_of(query: UserQuery) -> _ScoringGroup:
    """Return what a query has in common with those that are scored with it."""
    return _ScoringGroup(
        query.run,
        query.folds_in,
        query.candidates is not None,
        query.rules,
        None if query.rules is None else query.n,
        query.fallback,
        isinstance(query, ScoreQuery),
    )


def _scores(
    group: _ScoringGroup,
    users: Indices | None,
    histories: list[Indices],
    count: int,
) -> Scores:
    """Return float32[count, n_items] of users, or with None of histories."""
    model = group.run.model
    if group.fallback == "popular":
        popularity = model.known.target_events.popularity.astype(np.float32)
        return np.repeat(popularity[None], count, axis=0)
    return model.score_histories(histories) if users is None else model.score(users)


def _skipped(query: UserQuery) -> bytes:
    """Return the result of somebody who gets no list and no scores."""
    if isinstance(query, ScoreQuery):
        return query.scored(None, False)
    return query.result(np.empty(0, np.int32), np.empty(0, np.float32), False)


def _fallbacks(queries: Sequence[UserQuery], kind: Fallback) -> int:
    """Return for how many queries the model knows nothing and this was done."""
    return sum(query.fallback == kind for query in queries)


def _score_query(
    run: LoadedRun,
    request: ScoreRequest,
    entry: Candidates,
) -> ScoreQuery:
    """Return a query for the items of an entry, of nobody yet."""
    items = run.model.items
    if request.unknown == "error":
        indices = items.indices(entry.items)
    else:
        found = (items.split_known([item])[0] for item in entry.items)
        indices = np.asarray([int(i[0]) if len(i) else -1 for i in found], np.int32)
    return ScoreQuery(
        run,
        n=len(entry.items),
        run_name=request.run,
        requested_id=entry.user,
        on_unknown=request.unknown,
        items=entry.items,
        item_indices=indices,
        ranked=request.rank,
    )


def _history_query(template: QueryT, history: list[int | str]) -> QueryT:
    """Return the query for the history of a new user."""
    model = template.run.model
    items, unknown = model.items.split_known(history)
    if len(items) == 0 and template.on_unknown == "error":
        if not unknown:
            raise RequestError("a history is empty: give at least one item id")
        model.items.index(unknown[0])  # raises an `UnknownIdError`
    if not model.fitting.include_seen:
        # Each item counts once, at its first place.
        _, first_places = np.unique(items, return_index=True)
        items = items[np.sort(first_places)]
    return replace(
        template,
        history=items,
        unknown=tuple(unknown),
        history_length=len(history),
    )
