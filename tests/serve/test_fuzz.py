"""Requests made from the OpenAPI document, and requests that break it: never a 5xx."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leporid.serve import create_app
from tests.serve.conftest import talk

ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from([0, 1, "3", -1, 2**63, 10**30, "\x00", "é", "main"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)


def from_schema(schema: dict[str, Any], document: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that mostly fit a schema: one in some is anything at all."""
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        return st.one_of(*(from_schema(part, document) for part in schema["anyOf"]))
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kind = schema.get("type")
    if kind == "object" and "properties" in schema:
        fields = {k: from_schema(v, document) | ANYTHING for k, v in schema["properties"].items()}
        required = {k: fields.pop(k) for k in schema.get("required", [])}
        return st.fixed_dictionaries(required, optional=fields)
    if kind == "array":
        return st.lists(from_schema(schema["items"], document), max_size=4)
    return {
        "integer": st.integers(0, 60) | st.integers(),
        "string": st.integers(0, 60).map(str) | st.text(max_size=20),
        "boolean": st.booleans(),
    }.get(str(kind), ANYTHING)


@pytest.fixture(scope="module")
def app(run_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    store = tmp_path_factory.mktemp("store") / "events.db"
    return create_app(
        run_dir,
        compare=run_dir.parent / "toppop",
        share=0.5,
        store=store,
        token="t",
        admin_token="a",
        public_reading=True,
    )


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_no_request_ends_in_a_5xx(app: Any, data: st.DataObject) -> None:
    document = app.openapi()
    operations = [
        (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if path != "/reload"
    ]
    requests = []
    for path, method, operation in operations:
        query, headers = {}, {"Authorization": "Bearer t"}
        for part in operation.get("parameters", []):
            value = data.draw(from_schema(part["schema"], document), label=part["name"])
            if part["in"] == "path":
                path = path.replace("{" + part["name"] + "}", _quoted(str(value)))
            elif part["in"] == "query" and value is not None:
                query[part["name"]] = str(value)
        request: dict[str, Any] = {
            "method": method.upper(),
            "url": path,
            "params": query,
            "headers": {**headers, "Content-Type": "application/json"},
        }
        if "requestBody" in operation:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            body = data.draw(from_schema(schema, document) | ANYTHING, label=path)
            request["content"] = _json(body)
        requests.append(request)
    for request, answer in zip(requests, talk(app, *requests), strict=True):
        assert answer.status_code < 500, (request, answer.text)
        if answer.status_code >= 400:
            assert answer.json()["error"] if answer.status_code != 405 else True


def _json(value: Any) -> bytes:
    import json

    # NaN and infinities too: the parser behind the server accepts them.
    return json.dumps(value).encode()


def _quoted(text: str) -> str:
    from urllib.parse import quote

    return quote(text.encode("utf-8", "replace"), safe="") or "-"
