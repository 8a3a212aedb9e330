"""The page at /, its files, and the documentation of the endpoints; no other host is asked."""

from __future__ import annotations

from importlib import resources

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, Response

from leporid.pages import fill_template

_KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript"}


def add_page(app: FastAPI) -> None:
    """Add the routes; the files are read once."""
    for file in resources.files("leporid.serve").joinpath("static").iterdir():
        kind = _KINDS.get(file.name.rpartition(".")[2])
        if kind is not None:
            path = "/" if file.name == "index.html" else f"/static/{file.name}"
            _add_file(app, path, file.read_bytes(), f"{kind}; charset=utf-8")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(fill_template("leporid.serve", "docs.html", **app.openapi()))

    @app.get("/favicon.ico", include_in_schema=False)
    async def icon() -> Response:
        return Response(status_code=204)


def _add_file(app: FastAPI, path: str, content: bytes, kind: str) -> None:
    async def file() -> Response:
        return Response(content, media_type=kind, headers={"Cache-Control": "no-cache"})

    app.add_api_route(path, file, include_in_schema=False)
