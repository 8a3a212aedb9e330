"""`create_app`: the HTTP side. Every answer that is not a success is one sentence in JSON."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable
from importlib import resources
from pathlib import Path as FilePath
from typing import Annotated, Any

import fastapi_offline
from fastapi import FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BeforeValidator
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from leporid._version import __version__
from leporid.errors import ConfigError, LeporidError, UnknownIdError
from leporid.ranking import HistoryUnsupportedError
from leporid.serve import schemas as s
from leporid.serve.ab_test import ABTest
from leporid.serve.access import ADMIN_TOKEN, TOKEN, Access
from leporid.serve.batching import Budget, HungUpError, OverloadedError
from leporid.serve.loaded_run import to_json
from leporid.serve.middleware import Guard, LogRateLimit, RequestLog, client_of
from leporid.serve.service import Service
from leporid.serve.store import StoreError, open_store

_LOG = logging.getLogger(__name__)
_LOG.addFilter(LogRateLimit())
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": s.Problem, "description": "What is wrong with the request."},
    503: {"model": s.Problem, "description": "Too many requests are waiting."},
}
_KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
_TEXT_ERRORS = ("string_unicode", "string_too_long")

_Id = Annotated[str, Path(max_length=s.ID_LENGTH)]
_Run = Annotated[s.RunName, Query(description="Which of the served runs.")]
_Words = Annotated[str, Query(max_length=256, description="Words of the title.")]
_Count = Annotated[int, Query(ge=1, description="How many at most.")]
_Draw = Annotated[
    int, Query(ge=0, le=2**53, description="The same number, the same user.")
]


_WRITING = ("/events", "/reload")
_FILE_BYTES = 10_000
"""Of a file of the page, per unit of work."""


def create_app(
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
    limits: s.ServeLimits | None = None,
    include_seen: bool | None = None,
    allowed_hosts: Iterable[str] | None = None,
    local: bool = False,
    clock: Callable[[], float] = time.time,
) -> FastAPI:
    """The application that serves a run.

    Parameters
    ----------
    run_dir : folder that `leporid train -o` wrote.
    items : file or data set with titles; an items.parquet beside the run is found by itself.
    compare : a second run, for the page and for `"run": "compare"`.
    store : SQLite file or postgresql:// URL for new events; without one none are kept.
    share : of the users that get `compare` where a request names no run; between 0 and 1. What
        those users and the others are shown is then kept in the store.
    token : for everything but GET /health; None reads LEPORID_TOKEN. Where that is not set either,
        everyone may read and nobody may write.
    admin_token : for POST /reload; None reads LEPORID_ADMIN_TOKEN.
    public_reading : the token is for writing only.
    cors : origins whose pages may ask, as "https://films.example"; "*" is all.
    limits : bounds on requests.
    include_seen : whether lists show what a user already has; None does as the run was trained.
    allowed_hosts : names that a Host header may have besides the address of the connection, so
        that no page of another site can read the answers; None allows all.
    local : no other machine reaches the server, so without tokens this one may write and reload.
    clock : seconds since 1970, for events without a time and for impressions.
    """
    access = Access(
        token, admin_token, public_reading=public_reading, local=local, origins=cors
    )
    if share is not None and (compare is None or store is None or not access.writable):
        raise ConfigError(
            "--share needs --compare RUN2, --store FILE, and LEPORID_TOKEN where the server "
            "does not listen on loopback"
        )
    test = (
        ABTest(run_dir, compare, share, clock)
        if share is not None and compare
        else None
    )
    events = open_store(store) if store is not None else None
    options: Any = {"items": items, "compare": compare, "include_seen": include_seen}
    service = Service(
        run_dir, store=events, limits=limits, test=test, clock=clock, **options
    )

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        service.close()

    app = FastAPI(
        title="leporid",
        version=__version__,
        description="Recommendations from a trained run.",
        openapi_url=None,  # `_add_document` has it
        docs_url=None,  # with scripts from another host; `_add_page` has it with our own
        redoc_url=None,
        responses=_PROBLEMS,
        lifespan=lifespan,
    )
    app.state.service, app.state.access = service, access
    hosts = None if allowed_hosts is None else {host.lower() for host in allowed_hosts}
    _add_middleware(app, service, access, hosts)
    _add_failures(app)
    _add_reading(app, service, access)
    _add_writing(app, service, access)
    _add_page(app, service.budget)
    _add_document(app, access, service.budget)
    for route in app.routes:  # not in the document, which names each operation once
        methods = getattr(route, "methods", None) or set()
        if "GET" in methods:
            methods.add("HEAD")
    return app


def _add_middleware(
    app: FastAPI, service: Service, access: Access, hosts: set[str] | None
) -> None:
    """The last one added is the outermost."""
    app.add_middleware(
        Guard, limits=service.limits, access=access, hosts=hosts, budget=service.budget
    )
    if access.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(access.origins),
            allow_methods=["GET", "HEAD", "POST"],
            allow_headers=["Authorization", "Content-Type", "X-Request-ID"],
            expose_headers=["Retry-After", "X-Request-ID"],
        )

    def pictures() -> str:
        return " ".join(run.picture_hosts for run in service.runs.values())

    app.add_middleware(RequestLog, metrics=service.metrics, hosts=pictures)


def _add_document(app: FastAPI, access: Access, budget: Budget) -> None:
    """The OpenAPI document, written once: FastAPI's own route writes it for each request."""

    @app.get("/openapi.json", include_in_schema=False)
    async def document(http: Request) -> Response:
        root, content = http.scope.get("root_path", "").rstrip("/"), written
        if root:  # as part of another application
            content = to_json({**app.openapi(), "servers": [{"url": root}]})
        budget.charge(client_of(http.scope), len(content) // _FILE_BYTES)
        return Response(content, media_type="application/json")

    _describe_tokens(app, access)
    written = to_json(app.openapi())


def _describe_tokens(app: FastAPI, access: Access) -> None:
    """Say in the OpenAPI document which requests need a token; it is made here, once."""
    document = app.openapi()
    document["components"]["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer"}
    }
    for path, operations in document["paths"].items():
        if path in _WRITING or not (access.reading_is_open or path == "/health"):
            for operation in operations.values():
                operation["security"] = [{"bearer": []}]


def _add_reading(app: FastAPI, service: Service, access: Access) -> None:
    @app.get("/health", response_model=s.Health)
    async def health() -> dict[str, Any]:
        """Whether the server answers, and which runs it serves."""
        runs, writable = (
            service.run_infos(),
            access.writable and service.store is not None,
        )
        return {
            "status": "ok",
            "version": __version__,
            "writable": writable,
            "runs": runs,
        }

    @app.post("/recommend", response_model=s.RecommendAnswer)
    async def recommend(request: s.RecommendRequest, http: Request) -> Response:
        """The best items for known users, or for histories of new users."""
        # Made from our own values: checking each of them again would cost more than scoring.
        # After the body, the next message is that the client has hung up.
        client, writes = client_of(http.scope), access.may_write(http.scope)
        answer = await service.recommend(request, client, http.receive, writes=writes)
        return Response(answer, media_type="application/json")

    @app.get("/similar/{item}", response_model=s.SimilarAnswer)
    async def similar(item: _Id, n: _Count = 10, run: _Run = "main") -> Response:
        """The nearest neighbours of an item on the item graph."""
        s.bound("n", n, service.limits.n)
        served = service.run(run)
        index = served.model.items.index(item)
        found = (await served.graph.ready()).similar(index, n)
        near = [{**served.item(i), "similarity": w} for i, w in found]
        return JSONResponse({"item": served.item(index), "similar": near})

    @app.get("/users", response_model=s.UserAnswer)
    async def someone(draw: _Draw = 0) -> Response:
        """A user of the log, drawn by a number."""
        return JSONResponse(await service.user(service.draw(draw)))

    @app.get("/users/{user}", response_model=s.UserAnswer)
    async def users(user: _Id) -> Response:
        """What is known of a user."""
        return JSONResponse(await service.user(user))

    @app.get("/items", response_model=s.ItemsAnswer)
    async def items(
        http: Request, query: _Words = "", n: _Count = 20, run: _Run = "main"
    ) -> Response:
        """Items by title, the most popular first; all words must occur."""
        s.bound("n", n, service.limits.n)
        served = service.run(run)
        words = 1 + len(set(query.split()))  # each is looked for in every title
        service.budget.charge(client_of(http.scope), n + words * len(served.ids) // 200)
        found = await asyncio.to_thread(served.search, query, n)
        return JSONResponse({"items": [served.item(i) for i in found]})

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics(http: Request) -> Response:
        """Counters for Prometheus."""
        service.budget.charge(client_of(http.scope), service.metrics.cost)
        return PlainTextResponse(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)


def _add_writing(app: FastAPI, service: Service, access: Access) -> None:
    def count(sent: Any) -> Any:
        """Before each event is looked at, which takes 5 microseconds."""
        listed = sent.get("events") if isinstance(sent, dict) else None
        if isinstance(listed, list):
            s.bound("events", len(listed), service.limits.events)
        return sent

    @app.post("/events", response_model=s.EventsAnswer)
    async def events(
        request: Annotated[s.EventsRequest, BeforeValidator(count)], http: Request
    ) -> dict[str, int]:
        """Keep new interactions; they count for the next recommendation. Needs the token."""
        access.check(http.scope, TOKEN)
        return {"stored": await service.store_events(request, client_of(http.scope))}

    @app.post("/reload", response_model=s.ReloadAnswer)
    async def reload(http: Request) -> dict[str, Any]:
        """Read the run's folder again and serve what is there now. Needs the admin token."""
        access.check(http.scope, ADMIN_TOKEN)
        try:
            await service.reload()
        except OverloadedError:
            raise
        except LeporidError as error:
            raise HTTPException(409, f"the old run is still served: {error}") from error
        return {"runs": service.run_infos()}


def _add_failures(app: FastAPI) -> None:
    async def answer(http: Request, error: Exception) -> Response:
        headers: Any = None
        match error:
            case HTTPException():
                status, text, headers = (
                    error.status_code,
                    str(error.detail),
                    error.headers,
                )
            case RequestValidationError():
                errors = error.errors()
                # What is wrong with a text says more than that it is not a number.
                first = next(
                    (e for e in errors if e["type"] in _TEXT_ERRORS), errors[0]
                )
                status = 400 if first["type"] == "json_invalid" else 422
                text = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
            case UnknownIdError() | s.RequestError() | HistoryUnsupportedError():
                status, text = 422, str(error)
            case OverloadedError():
                status, text, headers = error.status, str(error), {"Retry-After": "1"}
            case StoreError():
                status, headers = 503, {"Retry-After": "60"}
                text = "the store of events is full, gone or does not answer: try again later"
                _LOG.error("request %s: %s", http.state.request_id, error)
            case HungUpError():
                status, text = 499, str(error)
            case _:
                raise error  # `RequestLog` answers
        # A lone surrogate in an id cannot be encoded as UTF-8.
        text = text.encode("utf-8", "backslashreplace").decode()
        return JSONResponse({"error": text}, status, headers)

    for kind in (LeporidError, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, answer)


def _add_page(app: FastAPI, budget: Budget) -> None:
    """The page at /, its files and /docs; no other host is asked."""
    own = resources.files("leporid.serve").joinpath("static")
    swagger = resources.files(fastapi_offline).joinpath("static")
    scripts = (swagger.joinpath(f"swagger-ui{rest}") for rest in ("-bundle.js", ".css"))
    for file in (*own.iterdir(), *scripts):
        kind = _KINDS.get(file.name.rpartition(".")[2])
        if kind is not None:
            path = {"index.html": "/", "docs.html": "/docs"}.get(
                file.name, f"/static/{file.name}"
            )
            _add_file(app, path, file.read_bytes(), f"{kind}; charset=utf-8", budget)

    @app.get("/favicon.ico", include_in_schema=False)
    async def icon() -> Response:
        return Response(status_code=204)


def _add_file(
    app: FastAPI, path: str, content: bytes, kind: str, budget: Budget
) -> None:
    async def file(http: Request) -> Response:
        budget.charge(client_of(http.scope), len(content) // _FILE_BYTES)
        return Response(content, media_type=kind, headers={"Cache-Control": "no-cache"})

    app.add_api_route(path, file, include_in_schema=False)
