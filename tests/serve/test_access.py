"""Who may read and write, who may ask from a browser, and what is logged of it."""

from __future__ import annotations

import base64
import logging
from pathlib import Path
from typing import Any

import httpx
import pytest

from leporid.errors import ConfigError
from leporid.models import Recommender
from leporid.serve import create_app
from leporid.serve.access import Access
from tests.serve.conftest import get, post, run_loop, talk

READ = {"Authorization": "Bearer key"}
ADMIN = {"Authorization": "Bearer admin"}
FILMS = "https://films.example"
BODIES: dict[str, Any] = {
    "/recommend": {"users": ["nobody"]},
    "/score": {"candidates": [{"user": "nobody", "items": [1]}]},
}
"""What reads by POST."""


def basic(password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"me:{password}".encode()).decode()}


def event(model: Recommender) -> dict[str, Any]:
    return {"events": [{"user": "ana", "item": model.items.external(0)}]}


@pytest.fixture(scope="module")
def locked(run_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    store = tmp_path_factory.mktemp("store") / "events.db"
    return create_app(run_dir, store=store, token="key", admin_token="admin", cors=[FILMS])


@pytest.fixture(scope="module")
def local(run_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    store = tmp_path_factory.mktemp("store") / "events.db"
    return create_app(run_dir, store=store, local=True, cors=[FILMS])


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer kez"},
        {"Authorization": "Token key"},
        basic("wrong"),
        {"Authorization": "Basic %"},
        {"Authorization": "Bearer"},
    ],
)
def test_nothing_is_read_without_the_token(locked: Any, headers: dict[str, str]) -> None:
    urls = "/", "/docs", "/openapi.json", "/items", "/metrics", "/users/1", "/nowhere"
    for refused in talk(
        locked, *({"method": "GET", "url": url, "headers": headers} for url in urls)
    ):
        assert refused.status_code == 401
        assert list(refused.json()) == ["error"]
        assert "Basic realm=" in refused.headers["www-authenticate"]
    for path, body in BODIES.items():
        assert post(locked, path, body, headers=headers).status_code == 401


def test_the_token_opens_reading_as_bearer_or_as_a_browsers_password(locked: Any) -> None:
    for headers in (READ, ADMIN, basic("key"), {"Authorization": "bearer key"}):
        assert get(locked, "/items", headers=headers).status_code == 200, headers
    assert get(locked, "/health").status_code == 200, "a balancer has no token"
    for path, body in BODIES.items():
        assert post(locked, path, body, headers=READ).status_code == 200


def test_a_browsers_password_does_not_write(locked: Any, model: Recommender) -> None:
    """It would be sent along for a form on a page of another site."""
    assert post(locked, "/events", event(model), headers=basic("key")).status_code == 401
    assert post(locked, "/reload", headers=basic("admin")).status_code == 401
    assert post(locked, "/reload", headers=READ).status_code == 401
    assert post(locked, "/events", event(model), headers=READ).json() == {"stored": 1}
    assert post(locked, "/reload", headers=ADMIN).status_code == 200


def test_the_document_says_what_needs_a_token(locked: Any, local: Any) -> None:
    def secured(app: Any) -> set[str]:
        paths = app.openapi()["paths"]
        return {path for path in paths for about in paths[path].values() if "security" in about}

    assert secured(local) == {"/events", "/reload"}
    assert secured(locked) == set(locked.openapi()["paths"]) - {"/health"}


def test_without_a_token_only_loopback_writes(
    run_dir: Path, local: Any, model: Recommender, tmp_path: Path
) -> None:
    assert post(local, "/events", event(model)).json() == {"stored": 1}
    assert get(local, "/health").json()["writable"]
    reachable = create_app(run_dir, store=tmp_path / "events.db")
    assert not get(reachable, "/health").json()["writable"]
    for url in ("/events", "/reload"):
        assert post(reachable, url, event(model)).status_code == 403
    # Behind a proxy on this machine, which names who asks.
    elsewhere = httpx.ASGITransport(app=local, client=("203.0.113.7", 1))

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=elsewhere, base_url="http://test") as client:
            return await client.post("/events", json=event(model))

    assert run_loop(ask()).status_code == 403


@pytest.mark.parametrize(
    ("origin", "status"),
    [("http://test", 200), (FILMS, 200), ("https://evil.example", 403), ("null", 403)],
)
def test_a_page_of_another_site_does_not_write_to_loopback(
    local: Any, model: Recommender, origin: str, status: int
) -> None:
    answer = post(local, "/events", event(model), headers={"Origin": origin})
    assert answer.status_code == status


def test_one_token_closes_writing_without_one() -> None:
    assert Access(local=True).writable
    assert not Access(admin_token="admin", local=True).writable
    assert Access("key", local=True).writable
    for access in (Access(local=True), Access("key", "admin"), Access()):
        assert "key" not in access.sentence()
        assert ("this machine" in access.sentence()) == (access.writable and access.reading_is_open)


def test_the_environment_holds_the_token_and_an_empty_one_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LEPORID_TOKEN", "from the environment".replace(" ", "-"))
    access = Access()
    assert not access.reading_is_open
    assert access.may_read(b"Bearer from-the-environment")
    assert Access("given").may_read(b"Bearer given")
    for odd in ("", "two words", "schlüssel", "line\n"):
        monkeypatch.setenv("LEPORID_TOKEN", odd)
        with pytest.raises(ConfigError, match="LEPORID_TOKEN must be"):
            Access()


def test_other_origins_may_ask_only_where_named(locked: Any, run_dir: Path) -> None:
    preflight = {
        "Origin": FILMS,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type",
    }
    allowed = talk(locked, {"method": "OPTIONS", "url": "/recommend", "headers": preflight})[0]
    assert allowed.status_code == 200, "a browser sends no token with it"
    assert allowed.headers["access-control-allow-origin"] == FILMS
    assert "authorization" in allowed.headers["access-control-allow-headers"].lower()
    # A page can read why it was refused, too.
    refused = get(locked, "/items", headers={"Origin": FILMS})
    assert refused.status_code == 401
    assert refused.headers["access-control-allow-origin"] == FILMS
    other = get(locked, "/items", headers={**READ, "Origin": "https://evil.example"})
    closed = get(create_app(run_dir), "/items", headers={"Origin": FILMS})
    for answer in (other, closed):
        assert "access-control-allow-origin" not in answer.headers
    for odd in ("films.example", "https://films.example/", "https://a.example/x", "null", ""):
        with pytest.raises(ConfigError, match="is no origin"):
            create_app(run_dir, cors=[odd])


def test_head_is_answered_wherever_get_is(local: Any, model: Recommender) -> None:
    item, user = model.items.external(1), model.users.external(1)
    for url in (
        *("/", "/static/app.js", "/docs", "/openapi.json", "/health", "/metrics", "/favicon.ico"),
        *(f"/similar/{item}", f"/users/{user}", "/items?query=film", "/users/nobody"),
    ):
        read = get(local, url)
        head = talk(local, {"method": "HEAD", "url": url})[0]
        assert head.status_code == read.status_code, url
        assert head.headers.get("content-type") == read.headers.get("content-type")
        if url not in ("/health", "/metrics"):
            assert head.headers.get("content-length") == read.headers.get("content-length")
    for url in ("/recommend", "/events"):
        assert talk(local, {"method": "HEAD", "url": url})[0].status_code == 405


@pytest.mark.parametrize("sent", ["a", "9f-Z_.", "x" * 64])
def test_a_clients_request_id_is_kept(local: Any, sent: str) -> None:
    assert get(local, "/nowhere", headers={"X-Request-ID": sent}).headers["x-request-id"] == sent


@pytest.mark.parametrize("sent", [None, "", "x" * 65, "a b", "ana@mail.example", '"}', "é"])
def test_another_one_is_replaced(local: Any, sent: str | None) -> None:
    headers = {} if sent is None else {"X-Request-ID": sent.encode()}
    ids = {get(local, "/health", headers=headers).headers["x-request-id"] for _ in range(3)}
    assert len(ids) == 3
    assert all(len(value) == 16 and int(value, 16) >= 0 for value in ids)


def test_the_log_of_failures_names_the_request(
    local: Any, model: Recommender, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("broken for the test of request ids")

    monkeypatch.setattr(local.state.service.runs["main"].model, "score", broken)
    asked = {"json": {"users": [model.users.external(0)]}, "headers": {"X-Request-ID": "lost-1"}}
    with caplog.at_level(logging.ERROR):
        answer = talk(local, {"method": "POST", "url": "/recommend", **asked})[0]
    assert answer.status_code == 500
    assert answer.headers["x-request-id"] == "lost-1"
    assert "lost-1" in caplog.text
