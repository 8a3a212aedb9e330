"""What the page asks for: somebody to begin with, two runs side by side, pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import leporid
from leporid.models import Recommender
from leporid.serve import create_app
from tests.serve.conftest import get, history_of, post

FAR = "https://pictures.example"


def test_a_number_draws_a_user_with_a_history(run_dir: Path, model: Recommender) -> None:
    app = create_app(run_dir)
    drawn = [get(app, f"/users?draw={number}").json() for number in range(8)]
    assert get(app, "/users").json() == drawn[0] == get(app, "/users?draw=0").json()
    assert len({user["id"] for user in drawn}) > 4
    for user in drawn:
        assert user["known"]
        index = model.users.index(user["id"])
        assert [item["id"] for item in user["recent"]] == history_of(model.known, index)[-100:]
    assert get(app, "/users?draw=-1").status_code == 422


def test_a_drawn_user_is_known_to_both_runs(
    run_dir: Path, split: leporid.Split, tmp_path: Path
) -> None:
    few = split.train.select(np.isin(split.train.user, np.arange(30)))
    columns = {"user": few.users.values[few.user], "item": few.items.values[few.item]}
    small = leporid.load({**columns, "time": few.time})
    leporid.train("toppop", leporid.temporal_split(small)).save(tmp_path / "small" / "model")
    app = create_app(run_dir, compare=tmp_path / "small")
    known = {str(user) for user in small.users.ids.to_pylist()}
    drawn = {str(get(app, f"/users?draw={number}").json()["id"]) for number in range(10)}
    assert len(drawn) > 3
    assert drawn <= known


def test_what_one_run_knows_is_hidden_in_both_lists(split: leporid.Split, tmp_path: Path) -> None:
    validated = leporid.train("itemknn", split)
    validated.save(tmp_path / "validated" / "model")
    leporid.train("itemknn", split, final=True).save(tmp_path / "final" / "model")
    app = create_app(tmp_path / "validated", compare=tmp_path / "final")
    assert [run["fitted"].split()[0] for run in get(app, "/health").json()["runs"]] == [
        "validated",
        "final",
    ]
    later = split.test.sequences()
    found = 0
    for user in range(20):
        body = {"users": [validated.users.external(user)], "n": 10}
        chosen = {split.items.external(int(item)) for item in later.of(user)}
        plain, fair = (
            [item["id"] for item in post(app, "/recommend", asked).json()["results"][0]["items"]]
            for asked in (body, {**body, "exclude_seen_by_other": True})
        )
        kept = [item for item in plain if item not in chosen]
        assert fair[: len(kept)] == kept
        assert not chosen & set(fair)
        found += len(chosen & set(plain))
    assert found > 5, "the validated model alone recommends what the user then chose"


def test_pictures_are_shown_and_only_their_hosts_allowed(
    run_dir: Path, model: Recommender, tmp_path: Path
) -> None:
    first, second, third = model.items.ids.to_pylist()[:3]
    table = tmp_path / "films.csv"
    table.write_text(
        f"item_id,title,image_url\n{first},A,{FAR}/a.jpg\n{second},B,javascript:alert(1)\n{third},C,\n"
    )
    app = create_app(run_dir, items=table)
    found = {i["id"]: i["picture"] for i in get(app, "/items?n=60").json()["items"]}
    assert [found[key] for key in (first, second, third)] == [f"{FAR}/a.jpg", "", ""]
    assert f"img-src 'self' data: {FAR};" in get(app, "/").headers["content-security-policy"]
    plain = create_app(run_dir)
    assert "example" not in get(plain, "/").headers["content-security-policy"]
    assert get(plain, "/items?n=1").json()["items"][0]["picture"] == ""
