"""Events: kept, counted at once, exported; and the swap of a run under traffic."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from typer.testing import CliRunner

import leporid
from leporid.cli.app import app as command
from leporid.models import Recommender
from leporid.serve import Event, create_app, open_store
from tests.serve.conftest import get, history_of, post, run_loop

WRITE = {"Authorization": "Bearer write"}
ADMIN = {"Authorization": "Bearer admin"}


def serve(run_dir: Path, store: Path | None = None) -> Any:
    return create_app(run_dir, store=store, token="write", admin_token="admin", public_reading=True)


def recommended(app: Any, user: Any, n: int = 8) -> dict[str, Any]:
    answer = post(app, "/recommend", {"users": [user], "n": n})
    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()["results"][0]
    return result


def ids(result: dict[str, Any]) -> list[Any]:
    return [item["id"] for item in result["items"]]


def test_an_event_counts_for_the_next_recommendation(
    run_dir: Path, model: Recommender, tmp_path: Path
) -> None:
    app = serve(run_dir, tmp_path / "events.db")
    user = model.users.external(4)
    before = recommended(app, user)
    chosen = ids(before)[:2]
    events = {"events": [{"user": str(user), "item": item} for item in chosen]}
    assert post(app, "/events", events, headers=WRITE).json() == {"stored": 2}
    after = recommended(app, user)
    longer = history_of(model.known, 4) + chosen
    assert ids(after) == model.recommend_history(longer, n=8)[0].tolist()
    assert after["folded_in"]
    assert after["new_events"] == 2
    assert not before["folded_in"]
    assert get(app, f"/users/{user}").json()["new_events"] == 2


def test_a_user_known_only_by_events_gets_recommendations(
    run_dir: Path, model: Recommender, tmp_path: Path
) -> None:
    app = serve(run_dir, tmp_path / "events.db")
    items = [model.items.external(i) for i in (3, 17, 5)]
    # Sent out of order: time decides.
    sent = [{"user": "ana", "item": items[i], "time": 100 + i} for i in (2, 0, 1)]
    assert post(app, "/events", {"events": sent}, headers=WRITE).status_code == 200
    assert ids(recommended(app, "ana")) == model.recommend_history(items, n=8)[0].tolist()
    shown = get(app, "/users/ana").json()
    assert [item["id"] for item in shown["recent"]] == items
    assert not shown["known"]
    again = serve(run_dir, tmp_path / "events.db")
    assert ids(recommended(again, "ana")) == ids(recommended(app, "ana"))


def test_a_model_without_fold_in_still_leaves_out_what_is_new(
    run_dir: Path, tmp_path: Path
) -> None:
    class Deaf(type(Recommender.load(run_dir / "model"))):  # type: ignore[misc]
        """Knows its users only."""

        def score_histories(self, histories: Any) -> Any:
            return Recommender.score_histories(self, histories)

    app = serve(run_dir, tmp_path / "events.db")
    model = app.state.service.runs["main"].model
    model.__class__ = Deaf
    user, best = model.users.external(6), ids(recommended(app, model.users.external(6)))
    post(app, "/events", {"events": [{"user": user, "item": best[0]}]}, headers=WRITE)
    after = recommended(app, user, n=7)
    assert ids(after) == best[1:]
    assert not after["folded_in"]
    refused = post(app, "/recommend", {"histories": [best[:1]]})
    assert refused.status_code == 422
    assert "history" in refused.json()["error"]


def test_a_wrong_token_writes_nothing(run_dir: Path, model: Recommender, tmp_path: Path) -> None:
    app = serve(run_dir, tmp_path / "events.db")
    event = {"events": [{"user": 1, "item": model.items.external(0)}]}
    for headers in ({}, *({"Authorization": sent} for sent in ("Bearer wrong", "Basic write", ""))):
        answer = post(app, "/events", event, headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert post(app, "/reload", headers={**headers, **WRITE}).status_code == 401
    assert list(open_store(tmp_path / "events.db").events()) == []


def test_one_unknown_item_stores_none_of_the_request(
    run_dir: Path, model: Recommender, tmp_path: Path
) -> None:
    app = serve(run_dir, tmp_path / "events.db")
    events = [{"user": 1, "item": model.items.external(0)}, {"user": 1, "item": "ghost"}]
    answer = post(app, "/events", {"events": events}, headers=WRITE)
    assert answer.status_code == 422
    assert "ghost" in answer.json()["error"]
    assert list(open_store(tmp_path / "events.db").events()) == []


def test_events_become_part_of_the_next_log(split: leporid.Split, tmp_path: Path) -> None:
    from leporid.data import write_log

    write_log(split.train, tmp_path / "log.csv")
    store = open_store(tmp_path / "events.db")
    user, item = split.train.users.external(0), split.test.items.external(int(split.test.item[0]))
    seen = split.train.items.external(int(split.train.item[0]))
    store.add([Event("9001", str(item), 10**10), Event(str(user), str(seen), 10**10)])
    store.close()
    fetch = ["data", "import", "--from-store", str(tmp_path / "events.db")]
    told = CliRunner().invoke(
        command, [*fetch, str(tmp_path / "log.csv"), "-o", str(tmp_path / "next.parquet"), "--json"]
    )
    assert told.exit_code == 0, told.output
    merged = leporid.load(tmp_path / "next.parquet")
    # The second pair was in the log already.
    assert len(merged) == len(split.train) + 1
    new = merged.users.index(9001)
    assert merged.items.externals(merged.sequences().of(new)).tolist() == [item]
    alone = CliRunner().invoke(command, [*fetch, "-o", str(tmp_path / "events.csv")])
    assert alone.exit_code == 0, alone.output
    assert len(leporid.load(tmp_path / "events.csv")) == 2


def test_a_run_is_swapped_without_a_failed_request(
    run_dir: Path, model: Recommender, split: leporid.Split, tmp_path: Path
) -> None:
    served = tmp_path / "run"
    shutil.copytree(run_dir, served)
    app = serve(served)
    users = [model.users.external(i) for i in range(30)]
    old = model.recommend(users, n=5)[0].tolist()
    other = leporid.train("toppop", split)
    new = other.recommend(users, n=5)[0].tolist()
    assert old != new
    other.save(served / "model")

    async def traffic() -> list[list[Any]]:
        transport = httpx.ASGITransport(app=app)
        answers: list[list[Any]] = []
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            swapped = asyncio.Event()

            async def ask() -> None:
                while True:
                    last = swapped.is_set()
                    answer = await client.post("/recommend", json={"users": users, "n": 5})
                    assert answer.status_code == 200
                    answers.append([ids(row) for row in answer.json()["results"]])
                    if last:
                        return

            async def swap() -> None:
                while not answers:
                    await asyncio.sleep(0.001)
                answer = await client.post("/reload", headers=ADMIN)
                assert answer.status_code == 200, answer.text
                assert answer.json()["runs"][0]["model"] == "toppop"
                swapped.set()

            await asyncio.gather(ask(), ask(), ask(), swap())
        return answers

    answers = run_loop(traffic())
    assert answers[0] == old
    assert answers[-1] == new
    assert all(answer in (old, new) for answer in answers)


def test_a_broken_folder_leaves_the_old_run_in_place(run_dir: Path, tmp_path: Path) -> None:
    served = tmp_path / "run"
    shutil.copytree(run_dir, served)
    app = serve(served)
    # Replaced, not cut in place: the served weights are the file's own pages.
    (tmp_path / "half").write_bytes(b"half a file")
    (tmp_path / "half").replace(served / "model" / "weights.safetensors")
    answer = post(app, "/reload", headers=ADMIN)
    assert answer.status_code == 409
    assert "still served" in answer.json()["error"]
    user = app.state.service.runs["main"].model.users.external(0)
    assert len(recommended(app, user)["items"]) == 8
    assert np.isfinite([item["score"] for item in recommended(app, user)["items"]]).all()
