"""`create_app`: the HTTP side. Every answer that is not a success is one sentence in JSON."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import logging
import os
from collections.abc import AsyncIterator, Iterable
from pathlib import Path as FilePath
from typing import Annotated, Any

from fastapi import FastAPI, Header, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException

from leporid._version import __version__
from leporid.errors import LeporidError, UnknownIdError
from leporid.models import HistoryUnsupportedError
from leporid.serve import schemas as s
from leporid.serve.batching import HungUpError, OverloadedError
from leporid.serve.middleware import Guard
from leporid.serve.page import add_page
from leporid.serve.seldom import Seldom
from leporid.serve.service import RequestError, Service
from leporid.serve.store import open_store

TOKEN = "LEPORID_TOKEN"
"""The environment variable with the token for writing events."""
ADMIN_TOKEN = "LEPORID_ADMIN_TOKEN"
"""The environment variable with the token for reloading."""

_LOG = logging.getLogger(__name__)
_LOG.addFilter(Seldom())
_ABOUT = {
    400: "The body is not JSON.",
    401: "The bearer token is missing or wrong.",
    403: "The server was started read-only.",
    409: "The folder is broken.",
    413: "The body is too large.",
    422: "An unknown id, or a value out of bounds.",
    429: "Too many requests of this client are waiting.",
    503: "Too many requests are waiting.",
}

_TEXT_ERRORS = ("string_unicode", "string_too_long")

_Id = Annotated[str, Path(max_length=256)]
_Run = Annotated[s.RunName, Query(description="Which of the served runs.")]
_Words = Annotated[str, Query(max_length=256, description="Words of the title.")]
_Count = Annotated[int, Query(ge=1, description="How many at most.")]
_Bearer = Annotated[str | None, Header(description="Bearer and the token.")]


def _problems(*codes: int) -> dict[int | str, dict[str, Any]]:
    """Answers besides 200, for the OpenAPI document."""
    return {code: {"model": s.Problem, "description": _ABOUT[code]} for code in codes}


_PROBLEMS = _problems(400, 413, 422, 429, 503)
_LOCKED = {**_problems(401, 403), **_PROBLEMS}


def create_app(
    run_dir: str | FilePath,
    *,
    items: str | FilePath | None = None,
    compare: str | FilePath | None = None,
    store: str | FilePath | None = None,
    token: str | None = None,
    admin_token: str | None = None,
    limits: s.ServeLimits | None = None,
    allowed_hosts: Iterable[str] | None = None,
) -> FastAPI:
    """The application that serves a run.

    Parameters
    ----------
    run_dir : folder that `leporid train -o` wrote.
    items : file or data set with titles; an items.parquet beside the run is found by itself.
    compare : a second run, for the page and for `"run": "compare"`.
    store : SQLite file or postgresql:// URL for new events; without one none are kept.
    token, admin_token : for POST /events and POST /reload; None reads LEPORID_TOKEN and
        LEPORID_ADMIN_TOKEN, and where those are not set either, nobody may.
    limits : bounds on requests.
    allowed_hosts : names that a Host header may have besides the address of the connection, so
        that no page of another site can read the answers; None allows all.
    """
    token = token or os.environ.get(TOKEN)
    admin_token = admin_token or os.environ.get(ADMIN_TOKEN)
    events = open_store(store) if store is not None else None
    service = Service(run_dir, items=items, compare=compare, store=events, limits=limits)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        service.close()

    app = FastAPI(
        title="leporid",
        version=__version__,
        description="Recommendations from a trained run.",
        docs_url=None,  # its scripts come from another host; `add_page` has one without
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.service = service
    hosts = None if allowed_hosts is None else {host.lower() for host in allowed_hosts}
    app.add_middleware(Guard, limits=service.limits, metrics=service.metrics, hosts=hosts)
    _add_failures(app)
    _add_reading(app, service, writable=bool(token and store is not None))
    _add_writing(app, service, token, admin_token)
    add_page(app)
    return app


def _add_reading(app: FastAPI, service: Service, *, writable: bool) -> None:
    @app.get("/health")
    async def health() -> s.Health:
        """Whether the server answers, and which runs it serves."""
        runs = service.run_infos()
        return s.Health(status="ok", version=__version__, writable=writable, runs=runs)

    @app.post("/recommend", response_model=s.RecommendAnswer, responses=_PROBLEMS)
    async def recommend(request: s.RecommendRequest, http: Request) -> Response:
        """The best items for known users, or for histories of people never seen."""
        # Made from our own values: checking each of them again would cost more than scoring.
        # After the body, the next message is that the client has hung up.
        answer = await service.recommend(request, _client(http), http.receive)
        return Response(answer, media_type="application/json")

    @app.get("/similar/{item}", response_model=s.SimilarAnswer, responses=_PROBLEMS)
    async def similar(item: _Id, n: _Count = 10, run: _Run = "main") -> Response:
        """The nearest neighbours of an item on the item graph."""
        service.bound("n", n, service.limits.n)
        served = service.run(run)
        index = served.model.items.index(item)
        near = [{**served.item(i), "similarity": w} for i, w in served.neighbours.similar(index, n)]
        return JSONResponse({"item": served.item(index), "similar": near})

    @app.get("/users/{user}", response_model=s.UserAnswer, responses=_PROBLEMS)
    async def users(user: _Id) -> Response:
        """What is known of a user."""
        return JSONResponse(await service.user(user))

    @app.get("/items", response_model=s.ItemsAnswer, responses=_PROBLEMS)
    async def items(query: _Words = "", n: _Count = 20, run: _Run = "main") -> Response:
        """Items by title, the most popular first; all words must occur."""
        service.bound("n", n, service.limits.n)
        served = service.run(run)
        return JSONResponse({"items": [served.item(i) for i in served.search(query, n)]})

    @app.get("/map", response_model=s.MapAnswer, responses=_PROBLEMS)
    def item_map(run: _Run = "main") -> Response:
        """Two coordinates and the colours of every item."""
        served = service.run(run)
        x, y = served.map.position.astype(float).round(4).T.tolist()
        groups = served.map
        answer = {
            "ids": served.ids,
            "titles": served.titles,
            "x": x,
            "y": y,
            "genres": groups.genres,
        }
        answer |= {"genre": groups.genre.tolist(), "cluster": groups.cluster.tolist()}
        answer |= {"clusters": groups.clusters, "layout": groups.layout}
        return JSONResponse(answer)

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Response:
        """Counters for Prometheus."""
        return PlainTextResponse(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)


def _add_writing(
    app: FastAPI, service: Service, token: str | None, admin_token: str | None
) -> None:
    @app.post("/events", responses=_LOCKED)
    async def events(
        request: s.EventsRequest, http: Request, authorization: _Bearer = None
    ) -> s.EventsAnswer:
        """Keep new interactions; they count for the next recommendation. Needs the token."""
        _check(authorization, token, TOKEN)
        return s.EventsAnswer(stored=await service.store_events(request, _client(http)))

    @app.post("/reload", responses={**_LOCKED, **_problems(409)})
    async def reload(authorization: _Bearer = None) -> s.ReloadAnswer:
        """Read the run's folder again and serve what is there now. Needs the admin token."""
        _check(authorization, admin_token, ADMIN_TOKEN)
        try:
            await service.reload()
        except OverloadedError:
            raise
        except LeporidError as error:
            raise HTTPException(409, f"the old run is still served: {error}") from error
        return s.ReloadAnswer(runs=service.run_infos())


def _client(http: Request) -> str:
    """The address that asks; behind a proxy on this machine, the one the proxy names."""
    return http.client.host if http.client else ""


def _check(authorization: str | None, token: str | None, variable: str) -> None:
    """Compare digests in constant time: neither the token nor its length shows in the timing."""
    if not token:
        raise HTTPException(403, f"this server does not allow it: start it with {variable} set")
    scheme, _, sent = (authorization or "").partition(" ")
    digests = (hashlib.sha256(text.encode()).digest() for text in (sent, token))
    if not hmac.compare_digest(*digests) or scheme.lower() != "bearer":
        headers = {"WWW-Authenticate": "Bearer"}
        raise HTTPException(401, "the bearer token is missing or wrong", headers)


def _add_failures(app: FastAPI) -> None:
    async def answer(_: Request, error: Exception) -> Response:
        headers: Any = None
        match error:
            case HTTPException():
                status, text, headers = error.status_code, str(error.detail), error.headers
            case RequestValidationError():
                errors = error.errors()
                # What is wrong with a text says more than that it is not a number.
                first = next((e for e in errors if e["type"] in _TEXT_ERRORS), errors[0])
                status = 400 if first["type"] == "json_invalid" else 422
                text = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
            case UnknownIdError() | RequestError() | HistoryUnsupportedError():
                status, text = 422, str(error)
            case OverloadedError():
                status, text, headers = error.status, str(error), {"Retry-After": "1"}
            case HungUpError():
                status, text = 499, str(error)
            case _:
                # A path on the server's disk is nobody else's business.
                status, text = 500, "the server could not answer; its log says why"
                _LOG.error("a request failed: %s", error, exc_info=error)
        # A lone surrogate in an id cannot be encoded as UTF-8.
        text = text.encode("utf-8", "backslashreplace").decode()
        return JSONResponse({"error": text}, status, headers)

    for kind in (LeporidError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, answer)
