"""`POST /score`: the scores of given items, against the model; mistakes, limits, hostile bodies."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from leporid.models import Recommender
from leporid.serve import ServeLimits, create_app
from leporid.serve import schemas as s
from leporid.serve.batching import HungUpError
from tests.serve.conftest import get, history_of, post, talk

WRITE = {"Authorization": "Bearer write"}


@pytest.fixture(scope="module")
def app(run_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return create_app(
        run_dir,
        compare=run_dir.parent / "toppop",
        store=tmp_path_factory.mktemp("store") / "events.db",
        token="write",
        public_reading=True,
        limits=ServeLimits(history_length=30),
    )


def ask(app: Any, *candidates: Any, **more: Any) -> dict[str, Any]:
    answer = post(app, "/score", {"candidates": candidates, **more})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def scores(result: dict[str, Any]) -> list[Any]:
    return [item["score"] for item in result["items"]]


def ids(result: dict[str, Any]) -> list[Any]:
    return [item["id"] for item in result["items"]]


def test_pairs_have_the_scores_of_the_model(app: Any, model: Recommender) -> None:
    """Of items in any order, twice, and of those that the user has already."""
    rng = np.random.default_rng(0)
    asked = []
    expected = []
    for user in (7, 0, 41, 7):
        items = rng.choice(60, 12).tolist() + model.known.sequences().of(user)[:3].tolist()
        names = [model.items.external(item) for item in items]
        asked.append({"user": model.users.external(user), "items": names})
        expected.append(model.score(np.array([user], np.int32))[0, items])
    answer = ask(app, *asked)
    assert [result["user"] for result in answer["results"]] == [a["user"] for a in asked]
    assert [ids(result) for result in answer["results"]] == [a["items"] for a in asked]
    for result, values in zip(answer["results"], expected, strict=True):
        np.testing.assert_allclose(scores(result), values, rtol=1e-6)
        assert (result["fallback"], result["folded_in"], result["run"]) == (None, False, "main")
    assert (answer["popular"], answer["skipped"], answer["unknown_items"]) == (0, 0, 0)
    pairs = {"user": [asked[0]["user"]] * 15, "item": asked[0]["items"]}
    np.testing.assert_allclose(scores(answer["results"][0]), model.score_pairs(pairs)["score"])
    other = ask(app, asked[0], run="compare")["results"][0]
    assert other["run"] == "compare"
    assert scores(other) != scores(answer["results"][0])


def test_candidates_are_ranked_as_recommend_does(app: Any, model: Recommender) -> None:
    rng = np.random.default_rng(1)
    for user in range(0, 90, 9):
        name = model.users.external(user)
        items = [model.items.external(i) for i in rng.choice(60, 25, replace=False)]
        [result] = ask(app, {"user": name, "items": [*items, "ghost"]}, rank=True)["results"]
        best, values = model.recommend(name, 25, only=items, include_seen=True)
        assert ids(result) == [*best, "ghost"]
        assert scores(result)[-1] is None
        np.testing.assert_allclose(scores(result)[:-1], values)


def test_histories_and_new_events_count(app: Any, model: Recommender) -> None:
    history = history_of(model.known, 3)[:5]
    items = [model.items.external(i) for i in range(60)]
    [result] = ask(app, {"history": [*history, "ghost"], "items": items})["results"]
    index = model.items.indices(history)
    np.testing.assert_allclose(scores(result), model.score_histories([index])[0], rtol=1e-6)
    assert result["folded_in"]
    assert result["unknown"] == ["ghost"]
    events = [{"user": "ana", "item": item} for item in history]
    assert post(app, "/events", {"events": events}, headers=WRITE).status_code == 200
    [later] = ask(app, {"user": "ana", "items": items})["results"]
    assert scores(later) == scores(result)
    assert later["new_events"] == 5


def test_strangers_have_no_scores_unless_popularity_is_asked_for(
    app: Any, model: Recommender
) -> None:
    items = [model.items.external(i) for i in (5, 50, 9)]
    known = {"user": model.users.external(2), "items": [*items, "ghost"]}
    asked = ({"user": "nobody", "items": items}, known, {"history": [], "items": items})
    answer = ask(app, *asked)
    assert (answer["popular"], answer["skipped"], answer["unknown_items"]) == (0, 2, 1)
    assert [r["fallback"] for r in answer["results"]] == ["skipped", None, "skipped"]
    for place in (0, 2):
        assert scores(answer["results"][place]) == [None] * 3
        assert ids(answer["results"][place]) == items
    assert scores(answer["results"][1])[3] is None
    assert None not in scores(answer["results"][1])[:3]
    counts = [float(np.sum(model.known.item == i)) for i in (5, 50, 9)]
    filled = ask(app, *asked, unknown="popular")
    assert scores(filled["results"][0]) == scores(filled["results"][2]) == counts
    assert filled["popular"] == 2
    assert filled["results"][1] == answer["results"][1]
    for entry in (asked[0], known, asked[2], {"history": ["ghost"], "items": items}):
        refused = post(app, "/score", {"candidates": [entry], "unknown": "error"})
        assert refused.status_code == 422, entry


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({}, "candidates"),
        ({"candidates": []}, "candidates"),
        ({"candidates": [{"user": 1, "items": []}]}, "items"),
        ({"candidates": [{"items": [1]}]}, "give a user or a history"),
        ({"candidates": [{"user": 1, "history": [1], "items": [1]}]}, "give a user or a history"),
        ({"candidates": [{"user": True, "items": [1]}]}, "user"),
        ({"candidates": [{"user": 1, "items": [1.5]}]}, "items"),
        ({"candidates": [{"user": 1, "items": [1], "colour": 1}]}, "colour"),
        ({"candidates": [{"user": 1, "items": [1]}], "n": 5}, "'n'"),
        ({"candidates": [{"user": 1, "items": [1]}], "run": "other"}, "run"),
        ({"candidates": [{"user": 1, "items": [1]}], "rank": "yes"}, "rank"),
        ({"candidates": [{"user": 1, "items": [1]}] * 257}, "257"),
        ({"candidates": [{"user": 1, "items": [1] * 20_001}]}, "20001"),
        ({"candidates": [{"history": [1] * 31, "items": [1]}]}, "31"),
        ({"candidates": [{"user": "x" * 257, "items": [1]}]}, "256"),
        ([1], "dictionary"),
    ],
)
def test_a_mistake_is_answered_with_422_in_words(app: Any, body: Any, word: str) -> None:
    answer = post(app, "/score", body)
    assert answer.status_code == 422
    assert list(answer.json()) == ["error"]
    assert word in answer.json()["error"]


def test_odd_bytes_are_no_5xx_and_fail_alone(app: Any, model: Recommender) -> None:
    good = {"candidates": [{"user": model.users.external(0), "items": [1]}]}
    bodies = [
        b'{"candidates": [{"user": "\\ud800", "items": [1]}]}',
        b'{"candidates": [{"user": 1, "items": ["\\udfff"]}]}',
        b'{"candidates": [{"user": NaN, "items": [1]}]}',
        b'{"candidates": [{"user": 1, "items": [' + b"9" * 5000 + b"]}]}",
        b'{"candidates": ' + b"[" * 5000,
        b'{"candidates": [{"user": "a\\u0000b", "items": [1]}], "unknown": "error"}',
        b"",
    ]
    headers = {"Content-Type": "application/json"}
    requests: list[dict[str, Any]] = []
    for body in bodies:
        requests.append({"method": "POST", "url": "/score", "content": body, "headers": headers})
        requests.append({"method": "POST", "url": "/score", "json": good})
    statuses = [answer.status_code for answer in talk(app, *requests)]
    assert all(400 <= status < 500 for status in statuses[::2]), statuses
    assert set(statuses[1::2]) == {200}
    odd = ask(app, {"user": "a\0b", "items": ["\0", 10**30, -(10**30), "0", " 1"]})
    assert scores(odd["results"][0]) == [None] * 5


@pytest.mark.parametrize(
    "body",
    [
        {"candidates": [{}] * 1000},
        {"candidates": [{"user": 1, "items": [{}] * 1000}]},
        {"candidates": [{"user": 1, "items": [1], **{f"x{i}": 1 for i in range(1000)}}]},
        {"candidates": [None] * 1000},
        {str(i): i for i in range(1000)},
    ],
)
def test_the_first_error_ends_the_check_of_a_body(body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as told:
        s.ScoreRequest.model_validate(body)
    assert told.value.error_count() <= 2, "one for each type an id may have"
    with pytest.raises(ValidationError, match="100001"):
        s.Candidates.model_validate({"user": 1, "items": [1] * 100_001})


def test_work_is_charged_and_bounded(run_dir: Path, model: Recommender) -> None:
    users = [model.users.external(i) for i in range(20)]

    def status(limits: ServeLimits, items: int) -> int:
        served = create_app(run_dir, limits=limits)
        entries = [{"user": user, "items": [1] * items} for user in users]
        return post(served, "/score", {"candidates": entries}).status_code

    # 20 units for each of 20 users, and one for every four items.
    assert status(ServeLimits(cost=500), 20) == 200
    assert status(ServeLimits(cost=500), 24) == 422
    assert status(ServeLimits(waiting=999), 20) == 503
    assert status(ServeLimits(waiting_per_client=999), 20) == 429
    assert status(ServeLimits(body_bytes=100), 20) == 413
    poor = create_app(run_dir, limits=ServeLimits(client_rate=1, client_burst=100))
    one = {"candidates": [{"user": users[0], "items": [1]}]}
    statuses = [post(poor, "/score", one).status_code for _ in range(8)]
    assert statuses[0] == 200
    assert statuses[-1] == 429


def test_nothing_is_computed_for_who_has_hung_up(
    app: Any, model: Recommender, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, scored = app.state.service, []
    plain = service.rank
    monkeypatch.setattr(service, "rank", lambda p: scored.append(len(p)) or plain(p))
    users = [model.users.external(i) for i in range(60)] * 4
    entries = [{"user": user, "items": [1] * 60} for user in users]
    request = s.ScoreRequest.model_validate({"candidates": entries})

    async def hang_up() -> None:
        await asyncio.sleep(0)

    async def main() -> None:
        with pytest.raises(HungUpError):
            await service.score(request, "a", hang_up)

    asyncio.run(main())
    assert sum(scored) <= service.limits.batch + 1


def test_the_document_describes_it(app: Any) -> None:
    document = get(app, "/openapi.json").json()
    operation = document["paths"]["/score"]["post"]
    body = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    assert body.endswith("/ScoreRequest")
    assert "4XX" in operation["responses"]
    found = document["components"]["schemas"]["ScoreAnswer"]["properties"]
    assert set(found) == set(ask(app, {"user": "nobody", "items": [1]}))
    assert get(app, "/score").status_code == 405
    entry = document["components"]["schemas"]["ScoreResult"]["properties"]
    assert set(entry) == set(ask(app, {"user": "nobody", "items": [1]})["results"][0])
    user = document["components"]["schemas"]["UserResult"]["properties"]
    result = post(app, "/recommend", {"users": ["nobody"]}).json()["results"][0]
    assert set(user) == set(result)
