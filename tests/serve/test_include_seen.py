"""A run that was trained with `include_seen` serves known items, unless it is told otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import leporid
from leporid.models import Recommender
from leporid.serve import create_app
from tests.models.test_repeats import events
from tests.serve.conftest import post


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("seen") / "run"
    split = leporid.temporal_split(events())
    leporid.train("frequency", split, include_seen=True).save(path / "model")
    return path


def items(app: Any, **request: Any) -> list[Any]:
    answer = post(app, "/recommend", {"n": 17, **request}).json()["results"][0]
    return [item["id"] for item in answer["items"]]


def test_lists_show_known_items_by_default_and_hide_them_on_request(folder: Path) -> None:
    app, model = create_app(folder), Recommender.load(folder / "model")
    for seen in (None, False, True):
        shown = model.recommend(5, 17, include_seen=seen)[0]
        best = [item for item in shown if item is not None]
        assert items(app, users=[5], include_seen=seen) == best
        old = None if seen is None else not seen  # the name it had
        assert items(app, users=[5], exclude_seen=old) == best
    both = {"users": [5], "include_seen": True, "exclude_seen": False}
    refused = post(app, "/recommend", both)
    assert refused.status_code == 422
    assert "give include_seen alone" in refused.json()["error"]
    assert len(items(app, users=[5])) == 17
    told = create_app(folder, include_seen=False)
    assert items(told, users=[5]) == items(app, users=[5], include_seen=False)


def test_a_history_counts_what_it_repeats(folder: Path) -> None:
    app = create_app(folder)
    assert items(app, histories=[[4, 9, 9, 2]])[:3] == [9, 2, 4]
    because = {"n": 3, "histories": [[4, 9, 9, 2]], "explain": True}
    for item in post(app, "/recommend", because).json()["results"][0]["items"]:
        named = [reason["id"] for reason in item["because"]]
        assert len(named) == len(set(named))
