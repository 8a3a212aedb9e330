"""Two runs side by side: the division of users, what is kept of their lists, and the result."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import shutil
import signal
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import leporid
from leporid.cli.app import app as command
from leporid.data import synthesize
from leporid.errors import ConfigError, DataError
from leporid.models import Recommender
from leporid.serve import Event, Impression, compare_live, create_app, open_store
from leporid.serve import schemas as s
from tests.serve.conftest import get, post
from tests.serve.test_kill import server
from tests.serve.test_store import postgres, where  # noqa: F401

WRITE = {"Authorization": "Bearer write"}


def side_by_side(run_dir: Path, store: Path | str, share: float = 0.4, **options: Any) -> Any:
    return create_app(
        run_dir,
        compare=run_dir.parent / "toppop",
        store=store,
        share=share,
        token="write",
        public_reading=True,
        clock=lambda: 1_000.9,
        **options,
    )


def ask(app: Any, body: dict[str, Any], headers: Any = WRITE) -> dict[str, Any]:
    answer = post(app, "/recommend", body, headers=headers)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def kept(app: Any) -> list[Impression]:
    return list(app.state.service.store.impressions())


def test_each_user_gets_one_run_and_what_is_shown_is_kept(
    run_dir: Path, model: Recommender, tmp_path: Path
) -> None:
    app, users = side_by_side(run_dir, tmp_path / "events.db"), model.users.ids.to_pylist()
    answer = ask(app, {"users": users, "n": 4})
    runs = [result["run"] for result in answer["results"]]
    assert set(answer["run"].split(" and ")) == {"itemknn", "toppop"}, "in the order of the users"
    assert 0.2 < runs.count("compare") / len(users) < 0.6
    main, other = str(run_dir), str(run_dir.parent / "toppop")
    assert kept(app) == [
        Impression(
            main, other, r["run"], str(r["user"]), tuple(str(i["id"]) for i in r["items"]), 1000
        )
        for r in answer["results"]
    ]
    assert answer["impressions"] == len(users)
    assert f"leporid_impressions_total {len(users)}.0" in get(app, "/metrics").text
    top = Recommender.load(run_dir.parent / "toppop" / "model")
    for user, result in list(zip(users, answer["results"], strict=True))[:12]:
        model_of = {"main": model, "compare": top}[result["run"]]
        shown = [item["id"] for item in result["items"]]
        assert shown == model_of.recommend([user], n=4)[0][0].tolist()
    again = side_by_side(run_dir, tmp_path / "other.db")
    text = [str(user) for user in reversed(users)]
    assert [r["run"] for r in ask(again, {"users": text})["results"]] == runs[::-1], "'42' is 42"
    more = [
        r["run"]
        for r in ask(side_by_side(run_dir, tmp_path / "x.db", 0.7), {"users": users})["results"]
    ]
    assert all(b == "compare" for a, b in zip(runs, more, strict=True) if a == "compare")
    assert more.count("compare") > runs.count("compare")


def test_another_pair_of_runs_divides_users_anew(
    run_dir: Path, model: Recommender, tmp_path: Path
) -> None:
    """Else the users who had the better run in one test would have it in the next one too."""
    other = shutil.copytree(run_dir.parent / "toppop", tmp_path / "other")
    asked = {"users": model.users.ids.to_pylist()}
    divided = []
    for number, compare in enumerate((run_dir.parent / "toppop", other)):
        how: dict[str, Any] = {"compare": compare, "share": 0.4, "token": "write"}
        app = create_app(run_dir, store=tmp_path / f"{number}.db", **how)
        divided.append([result["run"] for result in ask(app, asked)["results"]])
    first, second = divided
    assert first != second
    both = sum(a == b == "compare" for a, b in zip(first, second, strict=True))
    assert both < first.count("compare")


def test_what_takes_no_part_is_answered_by_the_run_that_was_asked_and_not_kept(
    run_dir: Path, model: Recommender, tmp_path: Path
) -> None:
    app, users = side_by_side(run_dir, tmp_path / "events.db"), model.users.ids.to_pylist()[:20]
    item = model.items.external(0)
    assert post(
        app, "/events", {"events": [{"user": "new", "item": item}]}, headers=WRITE
    ).is_success
    for body, run in [
        ({"users": users, "run": "main"}, "main"),
        ({"users": users, "run": "compare"}, "compare"),
        ({"users": ["new"]}, "main"),
        ({"histories": [[item]]}, "main"),
    ]:
        answer = ask(app, body)
        assert {result["run"] for result in answer["results"]} == {run}
        assert answer["impressions"] == 0
    stranger = ask(app, {"users": users}, headers=None)
    assert {r["run"] for r in stranger["results"]} == {"main", "compare"}
    assert stranger["impressions"] == 0, "who may not send events adds no impressions either"
    assert kept(app) == []


def test_without_a_share_nothing_is_kept(run_dir: Path, model: Recommender, tmp_path: Path) -> None:
    app = create_app(
        run_dir, compare=run_dir.parent / "toppop", store=tmp_path / "e.db", token="write"
    )
    answer = ask(app, {"users": model.users.ids.to_pylist()})
    assert {result["run"] for result in answer["results"]} == {"main"}
    assert answer["run"] == "itemknn"
    assert answer["impressions"] == 0
    assert kept(app) == []


def test_a_run_with_other_users_and_items_fails_no_request(
    run_dir: Path, model: Recommender, tmp_path: Path
) -> None:
    small = synthesize(70, 40, 1200, seed=9)
    leporid.train("toppop", leporid.temporal_split(small)).save(tmp_path / "small" / "model")
    other = Recommender.load(tmp_path / "small" / "model")
    app = create_app(
        run_dir,
        **{
            "compare": tmp_path / "small",
            "store": tmp_path / "e.db",
            "share": 0.9,
            "token": "write",
        },
    )
    both = set(other.users.ids.to_pylist())
    users, items = model.users.ids.to_pylist(), model.items.ids.to_pylist()
    assert set(items) - set(other.items.ids.to_pylist()), "items that only one run knows"
    answer = ask(app, {"users": users, "candidates": items[5:], "exclude": items[-9:]})
    for user, result in zip(users, answer["results"], strict=True):
        assert user in both or result["run"] == "main"
    assert "compare" in {result["run"] for result in answer["results"]}
    assert answer["impressions"] == len(both & set(users))
    only_here = next(item for item in items if item not in set(other.items.ids.to_pylist()))
    ruled = ask(app, {"users": users, "rules": {"slots": {"1": only_here}}})
    assert {result["run"] for result in ruled["results"]} == {"main"}, "the rule fits one run alone"
    assert ruled["impressions"] == 0
    ruled = ask(app, {"users": users, "rules": {"boost": {"recency": 0.1}}})
    assert ruled["impressions"] == len(both & set(users))
    unknown = post(app, "/recommend", {"users": users, "candidates": ["ghost"]}, headers=WRITE)
    assert unknown.status_code == 422


def test_a_user_whom_no_database_keeps_takes_no_part(tmp_path: Path) -> None:
    rows = [(user, item, when) for user in ("a\0b", "c", "d") for when, item in enumerate("pqrstu")]
    columns = dict(zip(("user_id", "item_id", "timestamp"), zip(*rows, strict=True), strict=True))
    split = leporid.temporal_split(leporid.load(pa.table({k: [*v] for k, v in columns.items()})))
    for name in ("toppop", "itemknn"):
        leporid.train(name, split, progress=False).save(tmp_path / name / "model")
    how: dict[str, Any] = {"compare": tmp_path / "toppop", "share": 0.999999, "token": "write"}
    app = create_app(tmp_path / "itemknn", store=tmp_path / "e.db", **how)
    answer = ask(app, {"users": ["a\0b", "c", "d"]})
    assert [result["run"] for result in answer["results"]] == ["main", "compare", "compare"]
    assert [row.user for row in kept(app)] == ["c", "d"]


@pytest.mark.parametrize("run", ["both", "", 0, True, [], {}, "main\0", "a" * 5000])
def test_a_run_that_is_none_is_refused(run: Any, run_dir: Path, tmp_path: Path) -> None:
    app = side_by_side(run_dir, tmp_path / "events.db")
    answer = post(app, "/recommend", {"users": [1], "run": run}, headers=WRITE)
    assert answer.status_code == 422
    assert answer.json()["error"].startswith("body.run")
    assert kept(app) == []


def test_a_store_that_is_full_broken_or_slow_costs_no_answer_and_is_counted(
    run_dir: Path, model: Recommender, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, users = side_by_side(run_dir, tmp_path / "events.db"), model.users.ids.to_pylist()
    store, asked = app.state.service.store, {"users": users, "n": 50}
    [(pages,)] = store._connections["write"].execute("PRAGMA page_count")
    store._connections["write"].execute(f"PRAGMA max_page_count = {pages}")
    assert ask(app, asked)["impressions"] == 0
    store._connections["write"].execute(f"PRAGMA max_page_count = {pages + 1000}")
    add = store.add
    monkeypatch.setattr(store, "add", lambda *_: 1 / 0)
    assert ask(app, asked)["impressions"] == 0
    lost = f"leporid_lost_impressions_total {2 * len(users)}.0"
    assert lost in get(app, "/metrics").text
    go = threading.Event()
    monkeypatch.setattr(store, "add", lambda *rows: go.wait(60) and add(*rows))

    async def slow() -> dict[str, Any]:
        service = app.state.service
        answer = await service.recommend(s.RecommendRequest(users=users[:3]), writes=True)
        assert kept(app) == []
        go.set()
        while not kept(app):
            await asyncio.sleep(0.001)
        return json.loads(answer)  # type: ignore[no-any-return]

    assert asyncio.run(slow())["impressions"] == 0, "not yet on disk"
    assert [row.user for row in kept(app)] == [str(user) for user in users[:3]], "but soon after"


@pytest.mark.parametrize(
    ("options", "about"),
    [
        ({"share": 0.0}, "between 0 and 1"),
        ({"share": 1.5}, "between 0 and 1"),
        ({"share": math.nan}, "between 0 and 1"),
        ({"compare": None}, "--compare"),
        ({"store": None}, "--store"),
        ({"token": None}, "LEPORID_TOKEN"),
        ({"compare": "itself"}, "itself"),
    ],
)
def test_a_share_without_two_runs_a_store_and_a_writer_is_refused(
    options: dict[str, Any], about: str, run_dir: Path, tmp_path: Path
) -> None:
    if options.get("compare") == "itself":
        options = {"compare": f"{run_dir}/"}
    given = {"share": 0.5, "compare": "b", "store": tmp_path / "e.db", "token": "t", **options}
    with pytest.raises(ConfigError, match=about):
        create_app(run_dir, **given)


def test_impressions_that_were_answered_as_stored_survive_sigkill(
    where: str,  # noqa: F811
    run_dir: Path,
    model: Recommender,
) -> None:
    users, answered = model.users.ids.to_pylist(), 0
    more = ["--compare", str(run_dir.parent / "toppop"), "--share", "0.5"]
    with server(run_dir, where, *more) as (process, address):

        def stream() -> None:
            nonlocal answered
            with httpx.Client(base_url=address, headers=WRITE) as http:
                while True:
                    try:
                        answer = http.post("/recommend", json={"users": users[:3]}, timeout=300)
                    except httpx.HTTPError:
                        return
                    answered += answer.json()["impressions"]

        asking = threading.Thread(target=stream)
        asking.start()
        began = time.monotonic()
        while answered < 60 and time.monotonic() - began < 300:
            time.sleep(0.002)
        os.kill(process.pid, signal.SIGKILL)
        asking.join()
    assert answered >= 60
    found = list(open_store(where).impressions())
    assert answered <= len(found) <= answered + 3, "at most the request in flight besides"
    assert {row.user for row in found} == {str(user) for user in users[:3]}


def shown(user: str, run: str, items: tuple[str, ...], when: int, pair: str = "b") -> Impression:
    return Impression("a", pair, run, user, items, when)


def test_a_hit_is_an_event_of_a_shown_item_after_the_list_and_within_days(
    where: str,  # noqa: F811
) -> None:
    day, store = 86400, open_store(where)
    store.add(
        [
            Event("u1", "x", 99),  # before the list
            Event("u1", "y", 100),
            Event("u1", "y", 101),  # the same item again
            Event("u1", "z", 100 + 2 * day),
            Event("u1", "unseen", 105),
            Event("u2", "x", 101 + 2 * day),  # too late
            Event("u3", "x", 100),  # in the second of the list
        ],
        [
            shown("u1", "compare", ("x", "y", "z", "y"), 100),
            shown("u1", "compare", ("x",), 100),
            shown("u2", "main", ("x",), 100),
            shown("u3", "main", ("x",), 100),
            shown("u4", "main", ("x",), 100),
            shown("both", "main", ("x",), 100),
            shown("both", "compare", ("x",), 100),
            shown("u9", "compare", ("x",), 100, "c"),
            shown("u8", "main", ("x",), 100, "c"),
        ],
    )
    store.close()
    first, second = compare_live(where, days=2)
    assert (first.comparison.name_a, first.comparison.name_b) == ("b", "a")
    assert first.users == (1, 3)
    assert first.lists == (2, 3)
    assert first.left_out == 1
    assert first.comparison.mean_a == pytest.approx(1.0), "2 hits in 2 lists"
    assert first.comparison.mean_b == pytest.approx(1 / 3)
    assert second.comparison.name_a == "c"
    assert second.users_needed is None
    assert "too few users" in second.sentence()
    store = open_store(where)
    store.add([], [shown("u1", "main", ("x",), 100, "d")])
    store.close()
    assert compare_live(where)[2].users == (0, 1), "nobody was shown the other yet"
    assert "NaN" not in json.dumps(second.comparison.to_dict())


def fill(path: Path, n: int, rates: tuple[float, float]) -> Path:
    """As many users of each run; a share (of main, of compare) has an event of the item shown."""
    events, lists = [], []
    for run, rate in zip(("main", "compare"), rates, strict=True):
        lists += [shown(f"{run}{i}", run, ("x",), 100) for i in range(n)]
        events += [Event(f"{run}{i}", "x", 200) for i in range(round(rate * n))]
    store = open_store(path)
    store.add(events, lists)
    store.close()
    return path


def test_the_users_needed_are_enough_and_fewer_are_not(tmp_path: Path) -> None:
    [few] = compare_live(fill(tmp_path / "few.db", 200, (0.20, 0.26)))
    assert few.comparison.outcome == "inconclusive"
    needed = few.users_needed or 0
    assert f"about {needed:,} more users" in few.sentence()
    enough = (400 + needed) // 2
    for n, outcome in ((enough + 20, "better"), (enough - 60, "inconclusive")):
        [found] = compare_live(fill(tmp_path / f"{n}.db", n, (0.20, 0.26)))
        assert found.comparison.outcome == outcome
        assert (found.users_needed == 0) == (outcome == "better")


def test_the_command_prints_both_runs_and_one_sentence(tmp_path: Path) -> None:
    fill(tmp_path / "e.db", 300, (0.1, 0.4))
    told = CliRunner().invoke(command, ["compare", "--live", str(tmp_path / "e.db")])
    assert told.exit_code == 0, told.output
    assert "b beats a in hits per list" in told.output.replace("\n", " ")
    assert "enough data to decide" in told.output.replace("\n", " ")
    told = CliRunner().invoke(command, ["compare", "--live", str(tmp_path / "e.db"), "--json"])
    [report] = json.loads(told.output)
    assert [row["run"] for row in report["runs"]] == ["a", "b"]
    assert report["users_needed"] == 0
    assert report["difference"]["outcome"] == "better"


def test_what_is_no_store_of_impressions_is_said_in_words(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such store"):
        compare_live(tmp_path / "none.db")
    open_store(tmp_path / "e.db").close()
    with pytest.raises(DataError, match="no impressions"):
        compare_live(tmp_path / "e.db")
    for wrong in (["a", "--live", "e.db"], ["--live", "e.db", "--days", "0"], []):
        assert isinstance(CliRunner().invoke(command, ["compare", *wrong]).exception, ConfigError)


@pytest.mark.parametrize(
    ("run", "items"),
    [("main", "not JSON"), ("main", "5"), ("main", b"\xff"), ("other", '["x"]')],
)
def test_a_row_that_is_no_impression_is_named(tmp_path: Path, run: str, items: Any) -> None:
    open_store(tmp_path / "e.db").close()
    link = sqlite3.connect(tmp_path / "e.db")
    row = ("a", "b", run, "u", items, 5)
    link.execute("INSERT INTO impressions VALUES (NULL, ?, ?, ?, ?, ?, ?)", row)
    link.commit()
    link.close()
    with pytest.raises(DataError, match=r"e\.db holds an impression that is not one"):
        compare_live(tmp_path / "e.db")


def test_a_store_of_before_is_opened_as_it_is(tmp_path: Path) -> None:
    store = open_store(tmp_path / "old.db")
    store.add([Event("ana", "1", 1)])
    store.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "old.db")) as link:
        link.execute("DROP TABLE impressions")
    store = open_store(tmp_path / "old.db")
    store.add([], [shown("ana", "main", ("1",), 1)])
    assert len(list(store.impressions())) == len(list(store.events())) == 1
    store.close()
