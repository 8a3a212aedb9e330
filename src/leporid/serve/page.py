"""The page at /, its files, and the documentation of the endpoints; no other host is asked."""

from __future__ import annotations

import base64
import hashlib
import re
from importlib import resources

import fastapi_offline
from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import Response

from leporid.serve.middleware import POLICY

_KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
_SWAGGER = "swagger-ui-bundle.js", "swagger-ui.css"


def add_page(app: FastAPI) -> None:
    """Add the routes; the files are read once."""
    own = resources.files("leporid.serve").joinpath("static")
    swagger = resources.files(fastapi_offline).joinpath("static")
    for file in (*own.iterdir(), *(swagger.joinpath(name) for name in _SWAGGER)):
        kind = _KINDS.get(file.name.rpartition(".")[2])
        if kind is not None:
            path = "/" if file.name == "index.html" else f"/static/{file.name}"
            _add_file(app, path, file.read_bytes(), f"{kind}; charset=utf-8")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        """FastAPI's own page; the one script inside it is let through by its digest."""
        script, style = (f"static/{name}" for name in _SWAGGER)
        page = get_swagger_ui_html(
            openapi_url="openapi.json",
            title="leporid: endpoints",
            swagger_js_url=script,
            swagger_css_url=style,
            swagger_favicon_url="favicon.ico",
        )
        [inside] = re.findall(rb"<script>(.*?)</script>", bytes(page.body), re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside).digest()).decode()
        page.headers["content-security-policy"] = f"{POLICY}; script-src 'self' 'sha256-{digest}'"
        return page

    @app.get("/favicon.ico", include_in_schema=False)
    async def icon() -> Response:
        return Response(status_code=204)


def _add_file(app: FastAPI, path: str, content: bytes, kind: str) -> None:
    async def file() -> Response:
        return Response(content, media_type=kind, headers={"Cache-Control": "no-cache"})

    app.add_api_route(path, file, include_in_schema=False)
