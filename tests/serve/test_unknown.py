"""Users whom the model does not know and empty histories: popular items, no list or an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leporid.models import Recommender
from leporid.serve import create_app
from tests.serve.conftest import history_of, post

WRITE = {"Authorization": "Bearer write"}


@pytest.fixture(scope="module")
def app(run_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return create_app(
        run_dir,
        compare=run_dir.parent / "toppop",
        store=tmp_path_factory.mktemp("store") / "events.db",
        token="write",
        public_reading=True,
    )


@pytest.fixture(scope="module")
def popular(model: Recommender) -> list[Any]:
    counts = np.bincount(model.known.item, minlength=len(model.items))
    return model.items.externals(np.argsort(-counts, kind="stable")).tolist()


def ids(result: dict[str, Any]) -> list[Any]:
    return [item["id"] for item in result["items"]]


def test_nobody_fails_the_others(app: Any, model: Recommender, popular: list[Any]) -> None:
    known = model.users.external(5)
    history = history_of(model.known, 3)[:4]
    asked = {"users": ["nobody", known], "histories": [[], history, ["ghost"]], "n": 6}
    answer = post(app, "/recommend", asked).json()
    results = answer["results"]
    assert (answer["popular"], answer["skipped"]) == (3, 0)
    assert [r["fallback"] for r in results] == ["popular", None, "popular", None, "popular"]
    assert [r["user"] for r in results] == ["nobody", known, None, None, None]
    assert results[4]["unknown"] == ["ghost"]
    for place in (0, 2, 4):
        assert ids(results[place]) == popular[:6]
        assert not results[place]["folded_in"]
        counts = [np.sum(model.known.item == model.items.index(item)) for item in popular[:6]]
        assert [item["score"] for item in results[place]["items"]] == counts
    assert ids(results[1]) == model.recommend(known, 6)[0].tolist()
    assert ids(results[3]) == model.recommend_history(history, 6)[0].tolist()
    skipped = post(app, "/recommend", {**asked, "unknown": "skip"}).json()
    assert (skipped["popular"], skipped["skipped"]) == (0, 3)
    assert [r["fallback"] for r in skipped["results"]] == [
        *("skipped", None, "skipped", None, "skipped")
    ]
    assert [len(r["items"]) for r in skipped["results"]] == [0, 6, 0, 6, 0]
    for place in (1, 3):
        assert skipped["results"][place] == results[place]
    refused = post(app, "/recommend", {**asked, "unknown": "error"})
    assert refused.status_code == 422


def test_popular_lists_follow_the_request(app: Any, popular: list[Any]) -> None:
    asked = {"users": ["nobody"], "n": 3, "exclude": popular[:1], "explain": True}
    [result] = post(app, "/recommend", asked).json()["results"]
    assert ids(result) == popular[1:4]
    assert [item["because"] for item in result["items"]] == [[]] * 3
    assert result["reasons"] is None
    some = {"users": ["nobody"], "n": 9, "candidates": popular[::-1][:4]}
    assert ids(post(app, "/recommend", some).json()["results"][0]) == popular[-4:]
    rules = {"histories": [[]], "n": 9, "rules": {"max_per": {"genres": 1}}}
    [result] = post(app, "/recommend", rules).json()["results"]
    assert 0 < len(result["items"]) < 9
    assert result["items"][0]["id"] == popular[0]


def test_events_make_somebody_known(run_dir: Path, model: Recommender, tmp_path: Path) -> None:
    app = create_app(run_dir, store=tmp_path / "e.db", token="write", public_reading=True)
    item = model.items.external(7)

    def fallback() -> Any:
        return post(app, "/recommend", {"users": ["eve"]}).json()["results"][0]["fallback"]

    assert fallback() == "popular"
    post(app, "/events", {"events": [{"user": "eve", "item": item}]}, headers=WRITE)
    assert fallback() is None


def test_a_model_that_reads_no_history_fails_no_batch(
    run_dir: Path,
    model: Recommender,
    popular: list[Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A user known by events alone is unknown to it; a history is refused as ever."""
    app = create_app(run_dir, store=tmp_path / "e.db", token="write", public_reading=True)
    served = app.state.service.runs["main"].model
    monkeypatch.setattr(
        served, "score_histories", lambda histories: Recommender.score_histories(served, histories)
    )
    item = model.items.external(7)
    post(app, "/events", {"events": [{"user": "eve", "item": item}]}, headers=WRITE)
    known = model.users.external(5)
    answer = post(app, "/recommend", {"users": ["eve", known], "n": 5}).json()
    assert [result["fallback"] for result in answer["results"]] == ["popular", None]
    assert ids(answer["results"][0]) == [i for i in popular if i != item][:5]
    assert ids(answer["results"][1]) == model.recommend(known, 5)[0].tolist()
    skip = {"users": ["eve"], "unknown": "skip"}
    assert post(app, "/recommend", skip).json()["skipped"] == 1
    for asked in ({"users": ["eve"], "unknown": "error"}, {"histories": [[item]]}):
        refused = post(app, "/recommend", asked)
        assert refused.status_code == 422
        assert "history alone" in refused.json()["error"]
