"""The page at /, its files, and the documentation of the endpoints; no other host is asked."""

from __future__ import annotations

import html
from importlib import resources
from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, Response

__all__ = ["add_page"]

_KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript"}


def add_page(app: FastAPI) -> None:
    """Add the routes; the files are read once."""
    folder = resources.files("leporid.serve").joinpath("static")
    for file in folder.iterdir():
        kind = _KINDS.get(file.name.rpartition(".")[2])
        if kind is None:
            continue
        path = "/" if file.name == "index.html" else f"/static/{file.name}"
        _add_file(app, path, file.read_bytes(), f"{kind}; charset=utf-8")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(_docs(app.openapi()))

    @app.get("/favicon.ico", include_in_schema=False)
    async def icon() -> Response:
        return Response(status_code=204)


def _add_file(app: FastAPI, path: str, content: bytes, kind: str) -> None:
    async def file() -> Response:
        return Response(content, media_type=kind, headers={"Cache-Control": "no-cache"})

    app.add_api_route(path, file, include_in_schema=False)


def _docs(document: dict[str, Any]) -> str:
    """The OpenAPI document as plain HTML."""
    sections = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            rows = [
                (part["name"], part.get("description", ""), part["in"])
                for part in operation.get("parameters", [])
            ]
            rows += _body_fields(document, operation)
            answers = ", ".join(
                f"{code} {answer['description']}" for code, answer in operation["responses"].items()
            )
            table = "".join(
                "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
                for row in rows
            )
            sections.append(
                f"<section><h2>{method.upper()} {html.escape(path)}</h2>"
                f"<p>{html.escape(operation.get('description', ''))}</p>"
                f"<table>{table}</table><p class='hint'>Answers: {html.escape(answers)}</p>"
                "</section>"
            )
    return (
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>leporid: endpoints</title>"
        "<meta name='viewport' content='width=device-width'>"
        "<link rel='stylesheet' href='/static/style.css'><main class='docs'><h1>Endpoints</h1>"
        "<p>For programs: <a href='/openapi.json'>openapi.json</a>.</p>"
        + "".join(sections)
        + "</main></html>"
    )


def _body_fields(document: dict[str, Any], operation: dict[str, Any]) -> list[tuple[str, str, str]]:
    if "requestBody" not in operation:
        return []
    name = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    schema = document["components"]["schemas"][name.rpartition("/")[2]]
    return [
        (field, about.get("description", ""), "body")
        for field, about in schema["properties"].items()
    ]
