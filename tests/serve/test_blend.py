"""What `leporid choose` leaves where a blend wins, served: asked, told of events, reloaded."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import leporid
from leporid.models import Blend, Recommender
from leporid.runs import save_run
from leporid.serve import create_app
from tests.made_runs import run_of
from tests.serve.conftest import get, history_of, post

ADMIN = {"Authorization": "Bearer admin"}
WRITE = {"Authorization": "Bearer write"}


@pytest.fixture(scope="module")
def chosen(split: leporid.Split, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as `choose` writes it: a neighbourhood and a network, fitted on everything."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("choose") / "chosen"
    members = [
        leporid.train("itemknn", split),
        leporid.train("bpr", split, init="random", steps=20, batch_size=32, device="cpu"),
    ]
    about = [{"model": m.name, "settings": m.config.to_dict(), "weight": 1.0} for m in members]
    blend = Blend.of(members, about)
    run = run_of(blend, split)
    run.final = blend.refit(split)
    run.final_cost = run.cost
    save_run(run, folder)
    return folder


def ids(app: Any, **asked: Any) -> list[Any]:
    answer = post(app, "/recommend", {"n": 6, **asked})
    assert answer.status_code == 200, answer.text
    return [item["id"] for item in answer.json()["results"][0]["items"]]


def test_a_blend_answers_as_it_does_in_python(chosen: Path, tmp_path: Path) -> None:
    app = create_app(
        chosen,
        store=tmp_path / "events.db",
        token="write",
        admin_token="admin",
        public_reading=True,
    )
    blend = Recommender.load(chosen / "model")
    user, history = blend.users.external(4), history_of(blend.known, 4)
    best = blend.recommend(user, n=6)[0].tolist()
    assert ids(app, users=[user]) == best
    assert ids(app, histories=[history[:5]]) == blend.recommend_history(history[:5], 6)[0].tolist()
    [about] = get(app, "/health").json()["runs"]
    assert (about["model"], about["label"]) == ("blend", "itemknn + bpr")
    assert about["metrics"]
    assert app.state.service.runs["main"].threads is not None, "one of its members is a network"
    events = {"events": [{"user": user, "item": item} for item in best[:2]]}
    assert post(app, "/events", events, headers=WRITE).status_code == 200
    after = ids(app, users=[user])
    assert not set(after) & {*best[:2], *history}
    assert after == blend.recommend_history([*history, *best[:2]], 6)[0].tolist()


def test_a_run_becomes_a_blend_and_another_one_by_reloading(
    run_dir: Path, chosen: Path, split: leporid.Split, tmp_path: Path
) -> None:
    served = tmp_path / "run"
    shutil.copytree(run_dir, served)
    app = create_app(served, admin_token="admin")
    blend = Recommender.load(chosen / "model")
    user = blend.users.external(7)
    other = Blend.of(
        [leporid.train(name, split) for name in ("toppop", "ease")],
        [{"model": "toppop"}, {"model": "ease", "weight": 3.0}],
    )
    for model, label in ((blend, "itemknn + bpr"), (other, "toppop + ease")):
        model.save(served / "model")
        reloaded = post(app, "/reload", headers=ADMIN)
        assert reloaded.status_code == 200, reloaded.text
        assert reloaded.json()["runs"][0]["label"] == label
        assert ids(app, users=[user]) == model.recommend(user, n=6)[0].tolist()
