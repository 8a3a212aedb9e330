"""Rows that must fail alone, work that must not be done, and names the server does not go by."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from starlette.types import Message

from leporid.errors import ConfigError, DataError
from leporid.models import Recommender
from leporid.ranking import ItemNeighbours
from leporid.serve import ServeLimits, create_app, open_store
from leporid.serve import schemas as s
from leporid.serve.batching import HungUpError
from tests.serve.conftest import get, history_of, post, talk

WRITE = {"Authorization": "Bearer write"}


@pytest.fixture(scope="module")
def app(run_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Shared: a test looks only for events of its own users."""
    return create_app(
        run_dir,
        store=tmp_path_factory.mktemp("store") / "events.db",
        token="write",
        admin_token="admin",
        public_reading=True,
    )


def test_a_lone_surrogate_fails_only_its_own_request(app: Any, model: Recommender) -> None:
    bad = {"headers": {"Content-Type": "application/json", **WRITE}, "method": "POST"}
    user, item = model.users.external(0), model.items.external(0)
    event = b'{"events": [{"user": "\\ud800", "item": %d}]}' % item
    requests: list[dict[str, Any]] = []
    for number in range(4):
        requests += [
            {**bad, "url": "/recommend", "content": b'{"users": ["\\ud800"]}'},
            {**bad, "url": "/events", "content": event},
            {"method": "POST", "url": "/recommend", "json": {"users": [user]}},
            {
                **{"method": "POST", "url": "/events", "headers": WRITE},
                "json": {"events": [{"user": f"u{number}", "item": item}]},
            },
        ]
    answers = talk(app, *requests)
    assert [answer.status_code for answer in answers] == [422, 422, 200, 200] * 4
    assert "unicode" in answers[0].json()["error"]
    kept = [e.user for e in app.state.service.store.events() if e.user.startswith("u")]
    assert sorted(kept) == ["u0", "u1", "u2", "u3"]


def test_a_row_that_breaks_the_store_fails_alone(app: Any, model: Recommender) -> None:
    """Whatever a validation may miss one day."""
    service = app.state.service
    event = {"user": "ana", "item": model.items.external(0)}
    broken = s.EventsRequest.model_construct(
        events=[s.EventIn.model_construct(user="\ud800", item=event["item"], time=1)]
    )

    async def together() -> list[Any]:
        good = s.EventsRequest.model_validate({"events": [event]})
        # The first goes alone; the other two are one batch.
        asked = (service.store_events(r) for r in (good, broken, good))
        return await asyncio.gather(*asked, return_exceptions=True)

    first, failure, last = asyncio.run(together())
    assert (first, last) == (1, 1)
    assert isinstance(failure, UnicodeEncodeError)
    kept = [e.user for e in service.store.events()]
    assert (kept.count("ana"), kept.count("\ud800")) == (2, 0)


def test_a_failure_is_logged_once_a_minute_not_once_a_request(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    app = create_app(run_dir)
    run = app.state.service.runs["main"]

    def broken(*_: Any) -> Any:
        raise RuntimeError("broken")

    monkeypatch.setattr(run.model, "score", broken)
    with caplog.at_level(logging.ERROR):
        for _ in range(5):
            answer = post(app, "/recommend", {"users": [run.model.users.external(0)]})
            assert answer.status_code == 500
            assert "log" in answer.json()["error"]
    assert sum(record.exc_info is not None for record in caplog.records) == 1


@pytest.mark.parametrize("spelling", ["0{}", " {} ", "+{}", "{}_0", "{}.0"])
def test_another_spelling_of_an_id_is_another_user(
    app: Any, model: Recommender, spelling: str
) -> None:
    known = model.users.external(7)
    odd = spelling.format(known)
    asked = {"users": [odd], "unknown": "error"}
    assert post(app, "/recommend", asked).status_code == 422
    event = {"user": odd, "item": model.items.external(3)}
    assert post(app, "/events", {"events": [event]}, headers=WRITE).status_code == 200
    assert get(app, f"/users/{known}").json()["new_events"] == 0
    assert post(app, "/recommend", {"users": [str(known)]}).status_code == 200


def test_arabic_digits_are_another_user_too(app: Any, model: Recommender) -> None:
    digits = str(model.users.external(7)).translate({48 + i: 0x660 + i for i in range(10)})
    asked = {"users": [digits], "unknown": "error"}
    assert post(app, "/recommend", asked).status_code == 422


def test_known_items_of_a_history_are_used_and_unknown_ones_named(
    app: Any, model: Recommender
) -> None:
    history = history_of(model.known, 3)[:4]
    asked = {"histories": [[*history, "ghost", 10**9], history]}
    first, second = post(app, "/recommend", asked).json()["results"]
    assert first["unknown"] == ["ghost", 10**9]
    assert second["unknown"] == []
    assert first["items"] == second["items"]


def test_work_is_bounded_by_users_times_items(run_dir: Path, model: Recommender) -> None:
    app = create_app(run_dir, limits=ServeLimits(cost=1000))
    users = [model.users.external(i) for i in range(20)]
    assert post(app, "/recommend", {"users": users, "n": 30}).status_code == 200
    for more in ({"n": 31}, {"n": 30, "explain": True}):
        answer = post(app, "/recommend", {"users": users, **more})
        assert answer.status_code == 422
        assert "more than this server allows (1000)" in answer.json()["error"]
    limits = ServeLimits(item_list=10)
    named = {"histories": [[1, 2, 3, 4]] * 2, "exclude": [1, 2, 3]}
    assert "11" in post(create_app(run_dir, limits=limits), "/recommend", named).json()["error"]


@pytest.mark.parametrize(
    ("limits", "status"),
    [({"waiting": 100}, 503), ({"waiting_per_client": 100}, 429)],
)
def test_a_full_queue_says_when_to_come_again(
    run_dir: Path, model: Recommender, limits: dict[str, int], status: int
) -> None:
    app = create_app(run_dir, limits=ServeLimits(**limits))
    user = model.users.external(0)
    full = post(app, "/recommend", {"users": [user], "n": 40})
    assert full.status_code == status
    assert full.headers["retry-after"] == "1"
    assert post(app, "/recommend", {"users": [user], "n": 10}).status_code == 200


def test_nothing_is_computed_for_who_has_hung_up(
    app: Any, model: Recommender, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, scored = app.state.service, []
    plain = service.rank
    monkeypatch.setattr(service, "rank", lambda p: scored.append(len(p)) or plain(p))
    users = [model.users.external(i) for i in range(60)] * 4
    request = s.RecommendRequest(users=users, n=40)

    async def hang_up() -> None:
        await asyncio.sleep(0)

    async def main() -> None:
        with pytest.raises(HungUpError):
            await service.recommend(request, "a", hang_up)
        assert await service.recommend(s.RecommendRequest(users=users[:1]), "b")

    asyncio.run(main())
    assert sum(scored) <= service.limits.batch + 1


def test_reasons_of_many_items_are_those_of_each(model: Recommender) -> None:
    neighbours = ItemNeighbours(model.known, k=9)
    draw = np.random.default_rng(0)
    found = 0
    for size in (0, 1, 8, 25):
        history = draw.choice(60, size, replace=False).astype(np.int32)
        items = draw.choice(60, 20, replace=False)
        for item, reasons in zip(items, neighbours.reasons_for(items, history), strict=True):
            near = dict(neighbours.similar(int(item), 9))
            joined = {int(h): near[h] for h in history if h in near}
            for other in history.tolist():
                back = dict(neighbours.similar(other, 9))
                if item in back:
                    joined[other] = back[int(item)]
            expected = sorted(joined.items(), key=lambda pair: (-pair[1], pair[0]))[:3]
            assert reasons == expected
            found += len(reasons)
    assert found > 30


def test_only_its_own_names_reach_the_server(run_dir: Path) -> None:
    app = create_app(run_dir, allowed_hosts=["localhost", "Films.example"])

    def status(host: str) -> int:
        return get(app, "/health", headers={"Host": host}).status_code

    # httpx says the connection came to "test".
    for host in ("localhost:8000", "LOCALHOST", "films.example", "test:80"):
        assert status(host) == 200, host
    for host in ("evil.example", "localhost.evil.example", "", "[::1]:8000"):
        assert status(host) == 400, host
    refused = get(app, "/health", headers={"Host": "evil.example:80"}).json()["error"]
    assert "--allowed-hosts evil.example" in refused


@pytest.mark.parametrize("allowed", [None, ["films.example"]])
def test_a_request_names_its_host_once(run_dir: Path, allowed: list[str] | None) -> None:
    app = create_app(run_dir, allowed_hosts=allowed)

    def status(*hosts: str, version: str = "1.1") -> int:
        told: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request"}

        async def send(message: Message) -> None:
            told.append(message)

        scope = {
            **{"type": "http", "method": "GET", "path": "/health", "http_version": version},
            "server": ("127.0.0.1", 80),
            **{"query_string": b"", "headers": [(b"host", host.encode()) for host in hosts]},
        }
        asyncio.run(app(scope, receive, send))
        return int(told[0]["status"])

    assert status("films.example") == 200
    assert status("films.example", "evil.example") == 400
    assert status("evil.example", "films.example") == 400
    assert status("films.example", "films.example") == 400
    assert status() == 400
    assert status(version="1.0") == (400 if allowed else 200)


def test_any_broken_folder_is_409_and_the_old_run_stays(
    run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = tmp_path / "run"
    shutil.copytree(run_dir, served)
    app = create_app(served, admin_token="admin")
    admin = {"Authorization": "Bearer admin"}
    description = json.loads((served / "model" / "model.json").read_text())
    for broken in ("[]", "{}", json.dumps({**description, "model": "nonesuch"}), "null"):
        (served / "model" / "model.json").write_text(broken)
        assert post(app, "/reload", headers=admin).status_code == 409, broken
    (served / "model" / "model.json").write_text(json.dumps(description))

    def fail(*_: Any) -> Any:
        raise KeyError("a mistake of ours")

    monkeypatch.setattr(app.state.service, "_load", fail)
    answer = post(app, "/reload", headers=admin)
    assert answer.status_code == 409
    assert "still served" in answer.json()["error"]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://leporid:top secret@127.0.0.1:1/none",
        " postgresql://leporid:secret@127.0.0.1:1/none",
        "postgresql://leporid:%zzsecret@127.0.0.1:1/none",
        "postgresql://leporid:top@secret@127.0.0.1:1/none",
        "postgres//leporid:secret@127.0.0.1://none",
        "mysql://leporid:secret@127.0.0.1/none",
    ],
)
def test_no_spelling_of_a_url_shows_its_password(url: str) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(DataError) as told:
        open_store(url)
    assert "secret" not in str(told.value)
    assert told.value.__cause__ is None or "secret" not in str(told.value.__cause__)


@pytest.mark.parametrize(
    "body",
    [
        {"histories": [[{}] * 1000]},
        {"histories": [[{}]] * 1000},
        {"histories": [{}] * 1000},
        {"users": [None] * 1000},
        {"users": [1], "exclude": [[]] * 1000},
        {"users": [1], "candidates": [True] * 1000},
        {str(i): i for i in range(1000)},
        {"": 1},
    ],
)
def test_the_first_error_ends_the_check_of_a_body(body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as told:
        s.RecommendRequest.model_validate(body)
    assert told.value.error_count() <= 2, "one for each type an id may have"


def test_events_are_counted_before_one_is_looked_at(run_dir: Path, tmp_path: Path) -> None:
    limits = ServeLimits(events=3)
    app = create_app(run_dir, store=tmp_path / "e.db", token="write", limits=limits)
    for events in ([{"no": "event"}] * 4, [{"user": 1, "item": 1}] * 4):
        answer = post(app, "/events", {"events": events}, headers=WRITE)
        assert answer.status_code == 422
        assert answer.json()["error"] == "events: 4 is more than this server allows (3)"
    for body in ({"events": 3}, {"events": {}}, [1, 2, 3, 4], None, {}):
        assert post(app, "/events", body, headers=WRITE).status_code == 422, body


def test_the_first_bad_event_ends_the_check_and_lists_are_bounded() -> None:
    good = {"user": 1, "item": 1}
    long = {f"x{i}": 1 for i in range(1000)}
    for events in ([{}] * 1000, [{**good, **long}], [{**good, "time": "now"}] * 1000):
        with pytest.raises(ValidationError) as told:
            s.EventsRequest.model_validate({"events": events})
        assert told.value.error_count() <= 2
    for many in ({"users": [1] * 100_001}, {"histories": [[]] * 100_001}):
        with pytest.raises(ValidationError, match="100001"):
            s.RecommendRequest.model_validate(many)
    with pytest.raises(ConfigError, match="item_list"):
        ServeLimits(item_list=100_001)
