"""`create_app`: the endpoints and the page. Every error is one sentence in JSON."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from importlib import resources
from pathlib import Path as FilePath
from typing import Annotated

import fastapi_offline
from fastapi import FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BeforeValidator
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route
from starlette.types import Scope

from leporid._version import __version__
from leporid.errors import ConfigError, LeporidError, UnknownIdError
from leporid.ranking import HistoryUnsupportedError
from leporid.serve import schemas
from leporid.serve.ab_test import ABTest
from leporid.serve.access import ADMIN_TOKEN, TOKEN, Access
from leporid.serve.batching import Budget, HungUpError, OverloadedError
from leporid.serve.loaded_run import to_json
from leporid.serve.middleware import (
    LogRateLimit,
    RequestGuard,
    RequestLog,
    client_of,
)
from leporid.serve.service import Service
from leporid.serve.store import StoreError, open_store

_LOG = logging.getLogger(__name__)
_LOG.addFilter(LogRateLimit())
_MEDIA_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
_PAGE_PATHS = {"index.html": "/", "docs.html": "/docs"}
_WRITING_PATHS = ("/events", "/reload")
_TEXT_ERRORS = ("string_unicode", "string_too_long")
_FILE_BYTES_PER_WORK = 10_000
"""Bytes of a file of the page per unit of work."""

_Id = Annotated[str, Path(max_length=schemas.ID_LENGTH)]
_Run = Annotated[schemas.RunName, Query(description="Which of the served runs.")]
_Words = Annotated[str, Query(max_length=256, description="Words of the title.")]
_Count = Annotated[int, Query(ge=1, description="How many at most.")]
_Draw = Annotated[
    int, Query(ge=0, le=2**53, description="The same number, the same user.")
]


def create_app(  # noqa: PLR0913 (options are spelled out)
    run_dir: str | FilePath,
    *,
    items: str | FilePath | None = None,
    compare: str | FilePath | None = None,
    store: str | FilePath | None = None,
    share: float | None = None,
    token: str | None = None,
    admin_token: str | None = None,
    public_reading: bool = False,
    cors: Iterable[str] = (),
    limits: schemas.ServeLimits | None = None,
    include_seen: bool | None = None,
    allowed_hosts: Iterable[str] | None = None,
    local: bool = False,
    clock: Callable[[], float] = time.time,
) -> FastAPI:
    """Create the application that serves a run.

    Parameters
    ----------
    run_dir : folder that `leporid train -o` wrote.
    items : file or data set with titles; an items.parquet beside the run is found by itself.
    compare : a second run, for the page and for `"run": "compare"`.
    store : SQLite file or postgresql:// URL for new events; without a store none can be sent.
    share : share of the users, between 0 and 1, who get `compare` if a request names no run. What
        they and the others are shown is then stored.
    token : for everything but GET /health; None reads LEPORID_TOKEN. If that is not set either,
        everyone may read and nobody may send events.
    admin_token : for POST /reload; None reads LEPORID_ADMIN_TOKEN.
    public_reading : whether reading needs no token.
    cors : origins whose pages may send requests, as "https://films.example"; "*" is all.
    limits : bounds on requests.
    include_seen : whether lists show what a user already has; None does as the run was trained.
    allowed_hosts : names that a Host header may have besides the address of the connection, so
        that no page of another site can read the answers; None allows all.
    local : whether no other machine can reach the server. Without tokens, this machine may then
        send events and reload.
    clock : seconds since 1970, for events without a time and for impressions.
    """
    access = Access(
        token,
        admin_token,
        public_reading=public_reading,
        local=local,
        origins=cors,
    )
    test: ABTest | None = None
    if share is not None:
        if compare is None or store is None or not access.writable:
            raise ConfigError(
                "--share needs --compare RUN2, --store FILE, and LEPORID_TOKEN where the server "
                "does not listen on loopback"
            )
        test = ABTest(run_dir, compare, share, clock)
    service = Service(
        run_dir,
        items=items,
        compare=compare,
        store=None if store is None else open_store(store),
        limits=limits,
        include_seen=include_seen,
        test=test,
        clock=clock,
    )

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        service.close()

    app = FastAPI(
        title="leporid",
        version=__version__,
        description="Recommendations from a trained run.",
        openapi_url=None,  # `_add_document` adds it
        docs_url=None,  # needs scripts of another host; `_add_page` adds it with our own
        redoc_url=None,
        responses={
            "4XX": {
                "model": schemas.ErrorAnswer,
                "description": "What is wrong with the request.",
            },
            503: {
                "model": schemas.ErrorAnswer,
                "description": "Too many requests are waiting.",
            },
        },
        lifespan=lifespan,
    )
    app.state.service = service
    app.state.access = access
    hosts = None if allowed_hosts is None else {host.lower() for host in allowed_hosts}
    _add_middleware(app, service, access, hosts)
    _add_error_handlers(app)
    _add_reading(app, service, access)
    _add_writing(app, service, access)
    _add_page(app, service.budget)
    _add_document(app, access, service.budget)
    # Only now, because the document names each operation once.
    for route in app.routes:
        if isinstance(route, Route) and route.methods and "GET" in route.methods:
            route.methods.add("HEAD")
    return app


def _add_middleware(
    app: FastAPI,
    service: Service,
    access: Access,
    hosts: set[str] | None,
) -> None:
    """Add the middleware; the last one added is the outermost."""
    app.add_middleware(
        RequestGuard,
        limits=service.limits,
        access=access,
        hosts=hosts,
        budget=service.budget,
    )
    if access.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(access.origins),
            allow_methods=["GET", "HEAD", "POST"],
            allow_headers=["Authorization", "Content-Type", "X-Request-ID"],
            expose_headers=["Retry-After", "X-Request-ID"],
        )

    def picture_hosts() -> str:
        return " ".join(run.picture_hosts for run in service.runs.values())

    app.add_middleware(RequestLog, metrics=service.metrics, hosts=picture_hosts)


def _add_document(app: FastAPI, access: Access, budget: Budget) -> None:
    """Add the OpenAPI document, written once: FastAPI's own route writes it for each request."""

    @app.get("/openapi.json", include_in_schema=False)
    async def document(http: Request) -> Response:
        answer = content
        # An application that is mounted in another one has a root path.
        root = http.scope.get("root_path", "").rstrip("/")
        if root:
            answer = to_json({**app.openapi(), "servers": [{"url": root}]})
        _charge_bytes(budget, http.scope, answer)
        return Response(answer, media_type="application/json")

    # A new route makes FastAPI write the document again, so this comes after it.
    _describe_tokens(app, access)
    content = to_json(app.openapi())


def _describe_tokens(app: FastAPI, access: Access) -> None:
    """Say in the OpenAPI document, which this creates, which requests need a token."""
    document = app.openapi()
    bearer = {"type": "http", "scheme": "bearer"}
    document["components"]["securitySchemes"] = {"bearer": bearer}
    for path, operations in document["paths"].items():
        is_open = access.reading_is_open or path == "/health"
        if is_open and path not in _WRITING_PATHS:
            continue
        for operation in operations.values():
            operation["security"] = [{"bearer": []}]


def _add_reading(app: FastAPI, service: Service, access: Access) -> None:
    """Add the endpoints that change nothing."""

    @app.get("/health", response_model=schemas.Health)
    async def health() -> dict[str, object]:
        """Whether the server answers, and which runs it serves."""
        return {
            "status": "ok",
            "version": __version__,
            "writable": access.writable and service.store is not None,
            "runs": service.run_infos(),
        }

    @app.post("/recommend", response_model=schemas.RecommendAnswer)
    async def recommend(request: schemas.RecommendRequest, http: Request) -> Response:
        """The best items for known users, or for histories of new users."""
        # The answer is made from our own values: checking each of them again would cost more than
        # scoring. After the body, the next message is that the client has hung up.
        answer = await service.recommend(
            request,
            client_of(http.scope),
            http.receive,
            writes=access.may_write(http.scope),
        )
        return Response(answer, media_type="application/json")

    @app.post("/score", response_model=schemas.ScoreAnswer)
    async def score(request: schemas.ScoreRequest, http: Request) -> Response:
        """The scores of given items for users or histories, or these items best first."""
        client = client_of(http.scope)
        answer = await service.score(request, client, http.receive)
        return Response(answer, media_type="application/json")

    @app.get("/similar/{item}", response_model=schemas.SimilarAnswer)
    async def similar(item: _Id, n: _Count = 10, run: _Run = "main") -> Response:
        """The nearest neighbours of an item on the item graph."""
        schemas.check_limit("n", n, service.limits.n)
        served = service.run(run)
        index = served.model.items.index(item)
        graph = await served.graph.ready()
        neighbours = [
            {**served.item(neighbour), "similarity": similarity}
            for neighbour, similarity in graph.similar(index, n)
        ]
        return JSONResponse({"item": served.item(index), "similar": neighbours})

    @app.get("/users", response_model=schemas.UserAnswer)
    async def someone(draw: _Draw = 0) -> Response:
        """A user of the log, drawn by a number."""
        return JSONResponse(await service.user(service.draw(draw)))

    @app.get("/users/{user}", response_model=schemas.UserAnswer)
    async def users(user: _Id) -> Response:
        """What is known of a user."""
        return JSONResponse(await service.user(user))

    @app.get("/items", response_model=schemas.ItemsAnswer)
    async def items(
        http: Request,
        query: _Words = "",
        n: _Count = 20,
        run: _Run = "main",
    ) -> Response:
        """Items by title, the most popular first; all words must occur."""
        schemas.check_limit("n", n, service.limits.n)
        served = service.run(run)
        # Each distinct word is looked for in every title.
        searches = 1 + len(set(query.split()))
        cost = n + searches * len(served.ids) // 200
        service.budget.charge(client_of(http.scope), cost)
        indices = await asyncio.to_thread(served.search, query, n)
        return JSONResponse({"items": [served.item(index) for index in indices]})

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics(http: Request) -> Response:
        """Counters for Prometheus."""
        service.budget.charge(client_of(http.scope), service.metrics.cost)
        return PlainTextResponse(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)


def _add_writing(app: FastAPI, service: Service, access: Access) -> None:
    """Add the endpoints that store events and load runs."""

    def check_number_of_events(sent: object) -> object:
        """Refuse too many events before each of them is checked, which takes 5 microseconds."""
        events = sent.get("events") if isinstance(sent, dict) else None
        if isinstance(events, list):
            schemas.check_limit("events", len(events), service.limits.events)
        return sent

    @app.post("/events", response_model=schemas.EventsAnswer)
    async def events(
        request: Annotated[
            schemas.EventsRequest, BeforeValidator(check_number_of_events)
        ],
        http: Request,
    ) -> dict[str, int]:
        """Keep new interactions; they count for the next recommendation. Needs the token."""
        access.check(http.scope, TOKEN)
        return {"stored": await service.store_events(request, client_of(http.scope))}

    @app.post("/reload", response_model=schemas.ReloadAnswer)
    async def reload(http: Request) -> dict[str, object]:
        """Read the run's folder again and serve what is there now. Needs the admin token."""
        access.check(http.scope, ADMIN_TOKEN)
        try:
            await service.reload()
        except OverloadedError:
            raise
        except LeporidError as error:
            raise HTTPException(409, f"the old run is still served: {error}") from error
        return {"runs": service.run_infos()}


def _add_error_handlers(app: FastAPI) -> None:
    """Answer errors with their sentence and a status."""

    async def answer(http: Request, error: Exception) -> Response:
        headers: Mapping[str, str] | None = None
        match error:
            case HTTPException():
                status = error.status_code
                message = str(error.detail)
                headers = error.headers
            case RequestValidationError():
                status, message = _describe_invalid(error)
            case UnknownIdError() | schemas.RequestError() | HistoryUnsupportedError():
                status = 422
                message = str(error)
            case OverloadedError():
                status = error.status
                message = str(error)
                headers = {"Retry-After": "1"}
            case StoreError():
                status = 503
                message = "the store of events is full, gone or does not answer: try again later"
                headers = {"Retry-After": "60"}
                _LOG.error("request %s: %s", http.state.request_id, error)
            case HungUpError():
                status = 499
                message = str(error)
            case _:
                raise error  # `RequestLog` answers
        # A lone surrogate in an id cannot be encoded as UTF-8.
        message = message.encode("utf-8", "backslashreplace").decode()
        return JSONResponse({"error": message}, status, headers)

    for kind in (LeporidError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, answer)


def _describe_invalid(error: RequestValidationError) -> tuple[int, str]:
    """Return status and message for a request that does not fit its schema."""
    errors = error.errors()
    # What is wrong with a text says more than that it is not a number.
    text_errors = [detail for detail in errors if detail["type"] in _TEXT_ERRORS]
    first = (text_errors or errors)[0]
    status = 400 if first["type"] == "json_invalid" else 422
    place = ".".join(map(str, first["loc"]))
    return status, f"{place}: {first['msg']}"


def _add_page(app: FastAPI, budget: Budget) -> None:
    """Add the page at /, its files and /docs; nothing is loaded from another host."""
    files = list(resources.files("leporid.serve").joinpath("static").iterdir())
    swagger = resources.files(fastapi_offline).joinpath("static")
    files.append(swagger.joinpath("swagger-ui-bundle.js"))
    files.append(swagger.joinpath("swagger-ui.css"))
    for file in files:
        media_type = _MEDIA_TYPES.get(file.name.rpartition(".")[2])
        if media_type is not None:
            path = _PAGE_PATHS.get(file.name, f"/static/{file.name}")
            content = file.read_bytes()
            _add_file(app, path, content, f"{media_type}; charset=utf-8", budget)

    @app.get("/favicon.ico", include_in_schema=False)
    async def icon() -> Response:
        return Response(status_code=204)


def _add_file(
    app: FastAPI,
    path: str,
    content: bytes,
    media_type: str,
    budget: Budget,
) -> None:
    """Add a file of the page at a path."""

    async def file(http: Request) -> Response:
        _charge_bytes(budget, http.scope, content)
        headers = {"Cache-Control": "no-cache"}
        return Response(content, media_type=media_type, headers=headers)

    app.add_api_route(path, file, include_in_schema=False)


def _charge_bytes(budget: Budget, scope: Scope, content: bytes) -> None:
    """Charge the client of a request for the length of a file."""
    budget.charge(client_of(scope), len(content) // _FILE_BYTES_PER_WORK)
