"""Answers against the model called directly; mistakes answered in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leporid.errors import DataError
from leporid.models import Recommender
from leporid.serve import ServeLimits, create_app
from tests.serve.conftest import get, history_of, post, talk


@pytest.fixture(scope="module")
def app(run_dir: Path) -> Any:
    return create_app(run_dir, compare=run_dir.parent / "toppop", limits=ServeLimits(n=30))


def ids(result: dict[str, Any]) -> list[Any]:
    return [item["id"] for item in result["items"]]


def test_known_users_get_what_the_model_says(app: Any, model: Recommender) -> None:
    users = [model.users.external(i) for i in (7, 0, 41)]
    answer = post(app, "/recommend", {"users": users, "n": 6}).json()["results"]
    items, scores = model.recommend(users, n=6)
    assert [row["user"] for row in answer] == users
    typed = post(app, "/recommend", {"users": [str(u) for u in users], "n": 6}).json()["results"]
    assert typed == answer  # ids are as the log has them, however they were asked for
    assert [ids(row) for row in answer] == items.tolist()
    np.testing.assert_allclose([[i["score"] for i in r["items"]] for r in answer], scores)


def test_many_requests_at_once_are_each_answered_for_themselves(
    app: Any, model: Recommender
) -> None:
    asked = [
        {"users": [model.users.external(i)], "n": 1 + i % 9}
        if i % 2
        else {"histories": [history_of(model.known, i)[:3]], "n": 1 + i % 9}
        for i in range(40)
    ]
    answers = talk(app, *({"method": "POST", "url": "/recommend", "json": a} for a in asked))
    for request, answer in zip(asked, answers, strict=True):
        if "users" in request:
            items, _ = model.recommend(request["users"][0], n=request["n"])
        else:
            items, _ = model.recommend_history(request["histories"][0], n=request["n"])
        assert ids(answer.json()["results"][0]) == items.tolist()


def test_excluded_items_candidates_and_seen_items(app: Any, model: Recommender) -> None:
    user = model.users.external(5)
    best = model.recommend(user, n=8)[0].tolist()
    less = post(app, "/recommend", {"users": [user], "n": 7, "exclude": best[:1]}).json()
    assert ids(less["results"][0]) == best[1:]
    among = best[2:6]
    some = post(app, "/recommend", {"users": [user], "n": 7, "candidates": among}).json()
    assert ids(some["results"][0]) == among
    seen = post(app, "/recommend", {"users": [user], "n": 9, "include_seen": True}).json()
    assert ids(seen["results"][0]) == model.recommend(user, n=9, include_seen=True)[0].tolist()


def test_a_reason_is_a_neighbour_on_the_item_graph(run_dir: Path) -> None:
    """Of a model without weights of its own."""
    app, model = (
        create_app(run_dir.parent / "toppop"),
        Recommender.load(run_dir.parent / "toppop" / "model"),
    )
    user = model.users.external(3)
    history = history_of(model.known, 3)
    answer = post(app, "/recommend", {"users": [user], "n": 5, "explain": True}).json()
    assert answer["results"][0]["reasons"] == "nearest by shared users"
    rows = model.known.csr().T.tocsr()
    told = 0
    for item in answer["results"][0]["items"]:
        near = []
        mine = set(rows[[model.items.index(item["id"])]].indices)
        for other in history:
            theirs = set(rows[[model.items.index(other)]].indices)
            near.append((len(mine & theirs) / len(mine | theirs), other))
        near.sort(key=lambda pair: (-pair[0], pair[1]))
        for reason, (similarity, _) in zip(item["because"], near, strict=False):
            assert reason["id"] in history
            assert reason["similarity"] == pytest.approx(similarity, abs=1e-6)
            told += 1
    assert told


def test_similar_items_users_search_and_map(app: Any, model: Recommender) -> None:
    item = model.items.external(11)
    similar = get(app, f"/similar/{item}", params={"n": 4}).json()
    assert similar["item"]["title"] == f"Film {item}, part {item % 7}"
    weights = [near["similarity"] for near in similar["similar"]]
    assert len(weights) == 4
    assert weights == sorted(weights, reverse=True)
    user = get(app, f"/users/{model.users.external(2)}").json()
    assert [i["id"] for i in user["recent"]] == history_of(model.known, 2)[-100:]
    assert user["known"]
    assert user["new_events"] == 0
    found = get(app, "/items", params={"query": "PART  3 film", "n": 30}).json()["items"]
    assert found
    assert all("3" in item["title"] for item in found)
    count = sum("3" in f"Film {i}, part {i % 7}" for i in model.items.ids.to_pylist())
    assert len(found) == min(30, count)


def test_the_second_run_answers_under_its_name(app: Any, model: Recommender, run_dir: Path) -> None:
    user = model.users.external(9)
    other = Recommender.load(run_dir.parent / "toppop" / "model")
    answer = post(app, "/recommend", {"users": [user], "n": 5, "run": "compare"}).json()
    assert ids(answer["results"][0]) == other.recommend(user, n=5)[0].tolist()
    infos = get(app, "/health").json()["runs"]
    assert [run["name"] for run in infos] == ["main", "compare"]
    assert all(run["fitted"].startswith("validated model, fitted on") for run in infos)
    runs = app.state.service.runs
    assert runs["main"].graph is runs["compare"].graph, "the same data, the same graph"


@pytest.mark.parametrize(
    ("request_", "word"),
    [
        ({"users": ["nobody"], "unknown": "error"}, "nobody"),
        ({"histories": [["no-such-film"]], "unknown": "error"}, "no-such-film"),
        ({"users": [1], "unknown": "guess"}, "unknown"),
        ({"users": [1], "exclude": ["left-out"]}, "left-out"),
        ({"users": [1], "candidates": ["no-candidate"]}, "no-candidate"),
        ({"users": [True]}, "users"),
        ({"users": [1], "n": 31}, "31"),
        ({"users": [1], "n": 0}, "n"),
        ({"users": [1], "colour": "red"}, "colour"),
        ({"histories": [[]], "unknown": "error"}, "history 0 is empty"),
        ({"users": [1] * 257}, "257"),
        ({"histories": [[1] * 1001]}, "1001"),
        ({}, "at least one"),
    ],
)
def test_a_mistake_is_answered_with_422_in_words(
    app: Any, request_: dict[str, Any], word: str
) -> None:
    answer = post(app, "/recommend", request_)
    assert answer.status_code == 422
    assert list(answer.json()) == ["error"]
    assert word in answer.json()["error"]


def test_unknown_ids_in_paths_are_422(app: Any) -> None:
    for url in ("/similar/gone", "/users/gone"):
        answer = get(app, url)
        assert answer.status_code == 422
        assert "'gone'" in answer.json()["error"]


def test_bodies_are_bounded_whether_announced_or_not(app: Any) -> None:
    large = b"[" + b" " * (1 << 20)
    assert post(app, "/recommend", content=large).status_code == 413

    async def in_pieces() -> Any:
        for _ in range(17):
            yield b" " * (1 << 16)

    assert post(app, "/recommend", content=in_pieces()).status_code == 413
    assert post(app, "/recommend", content=b"{").status_code == 400


def test_lone_surrogates_and_odd_numbers_are_no_5xx(app: Any) -> None:
    for body in (
        b'{"users": ["\\ud800"]}',
        b'{"users": [NaN]}',
        b'{"users": [1e999]}',
        b'{"histories": [["\\u0000"]], "unknown": "error"}',
        b"[" * 5000,
        b'{"users": [' + b"9" * 5000 + b"]}",
    ):
        assert 400 <= post(app, "/recommend", content=body).status_code < 500, body[:30]


def test_nothing_can_be_written_without_a_token(app: Any) -> None:
    event = {"events": [{"user": 1, "item": 1}]}
    assert post(app, "/events", event).status_code == 403
    assert post(app, "/reload").status_code == 403


def test_a_failure_inside_shows_no_trace(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = create_app(run_dir)

    def broken(*_: Any) -> Any:
        raise RuntimeError("a secret of the server")

    monkeypatch.setattr(app.state.service.runs["main"].model, "score", broken)
    answer = post(
        app, "/recommend", {"users": [app.state.service.runs["main"].model.users.external(0)]}
    )
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text


def test_metrics_are_prometheus_text(run_dir: Path) -> None:
    app = create_app(run_dir)
    get(app, "/health")
    get(app, "/nowhere")
    text = get(app, "/metrics").text
    assert 'leporid_requests_total{method="GET",path="/health",status="200"} 1' in text
    assert 'path="other",status="404"' in text
    assert 'leporid_request_seconds_bucket{le="+Inf",path="/health"} 1' in text
    for line in text.splitlines():
        assert line.startswith(("# TYPE ", "# HELP ")) or float(line.rpartition(" ")[2]) >= 0
    for name in ("events_total", "reloads_total", "waiting", "items"):
        assert f"\nleporid_{name} " in text
    for name in ("leporid_model_loaded_timestamp_seconds", "process_resident_memory_bytes"):
        assert float(text.partition(f"\n{name} ")[2].split()[0]) > 1e6


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no trained model"):
        create_app(tmp_path)


def test_the_page_asks_no_other_host_and_is_small(app: Any) -> None:
    size = 0
    for path in ("/", "/static/app.js", "/static/style.css", "/docs"):
        answer = get(app, path)
        assert answer.status_code == 200, path
        assert "http://" not in answer.text.replace("http://www.w3.org", "")
        assert "https://" not in answer.text
        size += len(answer.content)
    assert size < 300_000
    for path in ("/", "/docs"):
        [policy] = get(app, path).headers.get_list("content-security-policy")
        assert "default-src 'self'" in policy
        assert "script-src" not in policy
        assert "unsafe" not in policy
