"""Rules over HTTP: the lists of the library, and refusals in one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import leporid
from leporid.models import Recommender
from leporid.serve import ServeLimits, create_app
from tests.serve.conftest import history_of, post, talk

RULES = {"max_per": {"genre": 2}, "diversity": 0.2, "exclude": {"genre": "comedy"}}


@pytest.fixture(scope="module")
def app(run_dir: Path) -> Any:
    return create_app(run_dir)


def listed(result: dict[str, Any]) -> list[Any]:
    return [item["id"] for item in result["items"]]


@pytest.mark.parametrize(
    "rules",
    [
        RULES,
        {"only": {"genre": ["war"]}},
        {"max_per_rarest": {"genre": 1}},
        {"slots": {"2": 5}, "boost": {"recency": 0.5}},
        {},
    ],
    ids=str,
)
def test_lists_are_those_of_the_library(
    app: Any, model: Recommender, run_dir: Path, rules: dict[str, Any]
) -> None:
    bound = leporid.Rules.from_dict(rules).bind(
        model.item_columns(run_dir.parent / "items.parquet")
    )
    users, history = model.users.ids.to_pylist()[:4], history_of(model.known, 7)
    asked = {"users": users, "histories": [history], "n": 6, "rules": rules}
    results = post(app, "/recommend", asked).json()["results"]
    own = [model.recommend(user, 6, rules=bound)[0] for user in users]
    own.append(model.recommend_history(history, 6, rules=bound)[0])
    for result, items in zip(results, own, strict=True):
        assert listed(result) == [item for item in items if item is not None]


def test_requests_with_different_rules_and_lengths_do_not_mix(app: Any, model: Recommender) -> None:
    user = model.users.external(2)
    bodies = [
        {"users": [user], "n": n, **({} if rules is None else {"rules": rules})}
        for n in (3, 30)
        for rules in (None, RULES, {"only": {"genre": "war"}})
    ]
    together = talk(app, *({"method": "POST", "url": "/recommend", "json": b} for b in bodies))
    for body, answer in zip(bodies, together, strict=True):
        assert answer.json() == post(app, "/recommend", body).json()


@pytest.mark.parametrize(
    "rules",
    [
        [],
        "genre",
        {"onyl": {}},
        {"x" * 100_000: 1},
        {"only": {"colour": "red"}},
        {"only": {"x" * 100_000: 1}},
        {"only": {str(number): 1 for number in range(5000)}},
        {"only": {"genre": "Dramma"}},
        {"only": {"genre": {"below": 5}}},
        {"only": {"genre": {"below": {"below": 5}}}},
        {"only": {"genre": [[[[[]]]]]}},
        {"only": {"genre": None}},
        {"only": {"genre": "\ud800"}},
        {"only": {"item": {"above": 10**400}}},
        {"exclude": {"title": {"at_least": 1e999}}},
        {"max_per": {"genre": 10**30}},
        {"max_per": {"genre": -1}},
        {"max_per_rarest": {"genre": 10**30}},
        {"max_per_rarest": {str(number): 1 for number in range(5000)}},
        {"max_per_rarest": {"colour": 3}},
        {"diversity": 2},
        {"diversity": "1"},
        {"diversity": 10**400},
        {"boost": {"genres": 1}},
        {"boost": {"recency": 1e300}},
        {"slots": {"1": "nothing"}},
        {"slots": {"1": "\ud800"}},
        {"slots": {"1": 10**400}},
        {"slots": {"11": 5}},
        {"slots": {"9" * 5000: 5}},
        {"slots": {"²": 5}},
        {"slots": {str(rank): rank for rank in range(1, 1000)}},
    ],
    ids=lambda rules: str(rules).encode("ascii", "backslashreplace").decode()[:40],
)
def test_wrong_rules_are_a_422_of_one_short_sentence(app: Any, rules: Any) -> None:
    body = json.dumps({"users": [1], "rules": rules}).encode()
    answer = post(app, "/recommend", content=body)
    assert answer.status_code == 422, answer.text
    assert len(answer.json()["error"]) < 500


def test_rules_are_paid_for(run_dir: Path, model: Recommender) -> None:
    """Long diverse lists cost more than the plain ones that a request may just ask for."""
    users = model.users.ids.to_pylist()[:40]
    app = create_app(run_dir, limits=ServeLimits(cost=40 * 80))
    plain = {"users": users, "n": 60}
    assert post(app, "/recommend", plain).status_code == 200
    refused = post(app, "/recommend", {**plain, "rules": {"diversity": 0.5}})
    assert refused.status_code == 422
    assert "work" in refused.json()["error"]
    columns: dict[str, Any] = {"only": {"genre": "drama"}, "exclude": {"genre": "comedy"}}
    columns |= {"max_per": {"genre": 9}, "boost": {"recency": 1}}
    few = create_app(run_dir, limits=ServeLimits(cost=35))
    assert post(few, "/recommend", {"users": [1], "n": 10}).status_code == 200
    spelled = ("genre", "genres", "Genre", "GENRES")
    for dear in (
        columns,
        {"only": {"genre": ["drama"] * 200}},
        *({name: dict.fromkeys(spelled, 9)} for name in ("max_per", "max_per_rarest")),
    ):
        assert post(app, "/recommend", {"users": [1], "rules": dear}).status_code == 200
        refused = post(few, "/recommend", {"users": [1], "rules": dear})
        assert refused.status_code == 422
        assert "work" in refused.json()["error"]


def test_a_run_without_a_table_says_so(split: leporid.Split, tmp_path: Path) -> None:
    leporid.train("toppop", split).save(tmp_path / "model")
    bare = create_app(tmp_path)
    user = split.users.external(0)
    answer = post(bare, "/recommend", {"users": [user], "rules": {"max_per": {"genre": 1}}})
    assert answer.status_code == 422
    assert "--items" in answer.json()["error"]


def test_reasons_of_a_linear_model_are_its_own_weights(app: Any, model: Recommender) -> None:
    user = model.users.external(4)
    body = {"users": [user], "n": 5, "explain": True, "rules": {"max_per": {"genre": 2}}}
    [result] = post(app, "/recommend", body).json()["results"]
    assert result["reasons"] == "the model's own weights"
    for item in result["items"]:
        items, values = model.explain(user, item["id"])
        assert [reason["id"] for reason in item["because"]] == items.tolist()
        np.testing.assert_allclose([r["contribution"] for r in item["because"]], values, rtol=1e-5)
    assert post(app, "/recommend", {"users": [user]}).json()["results"][0]["reasons"] is None
