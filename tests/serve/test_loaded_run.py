"""What a run folder may hold is checked before it is served."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import leporid
from leporid.data import Interactions
from leporid.errors import DataError
from leporid.models.neural.dlr2.model import DLR2
from leporid.ranking import ItemNeighbours
from leporid.serve import create_app, loaded_run
from leporid.serve.loaded_run import load_run
from tests.serve.conftest import get, post, run_loop
from tests.training.toy import make_split


def test_what_takes_long_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    leporid.train("toppop", make_split(), progress=False).save(tmp_path / "model")
    load_run(tmp_path)
    assert capsys.readouterr().err == ""
    monkeypatch.delenv("LEPORID_PROGRESS")
    graph = load_run(tmp_path).graph
    assert capsys.readouterr().err == f"reading the model in {tmp_path / 'model'}\n"
    assert graph.neighbours() is graph.neighbours()
    assert capsys.readouterr().err == "finding the neighbours of 14 items\n"


@pytest.mark.parametrize(
    ("inference", "expected"), [("mixture", "two_stages"), ("generative", "score")]
)
def test_threads_are_chosen_by_what_requests_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inference: str, expected: str
) -> None:
    tiny = {"steps": 1, "dim": 4, "batch_size": 8, "eval_every": 0, "inference": inference}
    model = leporid.train("dlr2", make_split(), init="random", recipe="softmax", **tiny)
    model.save(tmp_path / "model")
    called: list[str] = []

    def noted(name: str) -> Callable[..., Any]:
        function = getattr(DLR2, name)
        return lambda *args, **how: (called.append(name), function(*args, **how))[1]

    def choose(answer: Callable[[], None]) -> int:
        called.clear()
        answer()
        return 1

    for name in ("two_stages", "score"):
        monkeypatch.setattr(DLR2, name, noted(name))
    monkeypatch.setattr(loaded_run, "choose_torch_threads", choose)
    assert load_run(tmp_path).threads == 1
    assert called == [expected]


def test_a_loaded_network_needs_no_compiler(tmp_path: Path) -> None:
    """Torch imports its own for arithmetic on tensors without memory: a second of silence."""
    tiny = {"steps": 1, "dim": 4, "batch_size": 8, "eval_every": 0, "linear_weight": 1.0}
    model = leporid.train("dlr2", make_split(), init="random", recipe="general", **tiny)
    model.save(tmp_path / "model")
    code = f"from leporid.serve.loaded_run import load_run; load_run({str(tmp_path)!r})"
    code += "; import sys; sys.exit('torch._dynamo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class Slow:
    """`ItemNeighbours` that are there when `go` is set; how often they are computed is counted."""

    def __init__(self) -> None:
        self.go, self.begun, self.count = threading.Event(), threading.Event(), 0

    def __call__(self, known: Interactions) -> ItemNeighbours:
        self.count += 1
        self.begun.set()
        assert self.go.wait(60)
        return ItemNeighbours(known)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    made = Slow()
    monkeypatch.setattr(loaded_run, "ItemNeighbours", made)
    return made


def test_the_first_requests_wait_for_the_graph_and_others_do_not(run_dir: Path, slow: Slow) -> None:
    app = create_app(run_dir)
    user = app.state.service.runs["main"].model.users.external(3)
    item = app.state.service.runs["main"].ids[0]
    assert slow.count == 0

    async def traffic() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            explained = client.post("/recommend", json={"users": [user], "explain": True})
            similar = client.get(f"/similar/{item}")
            waiting = [asyncio.create_task(sent) for sent in (explained, similar)]
            await asyncio.to_thread(slow.begun.wait, 60)
            plain = await client.post("/recommend", json={"users": [user]})
            assert not any(task.done() for task in waiting)
            slow.go.set()
            return [plain, *await asyncio.gather(*waiting)]

    answers = run_loop(traffic())
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert any(item["because"] for item in answers[1].json()["results"][0]["items"])
    assert answers[2].json()["similar"]
    assert slow.count == 1


def test_a_reload_computes_the_graph_before_the_swap(run_dir: Path, slow: Slow) -> None:
    slow.go.set()
    app = create_app(run_dir, admin_token="admin")
    assert post(app, "/reload", headers={"Authorization": "Bearer admin"}).status_code == 200
    assert slow.count == 1
    item = app.state.service.runs["main"].ids[0]
    assert get(app, f"/similar/{item}").status_code == 200
    assert slow.count == 1


def test_a_cancelled_request_does_not_cancel_the_graph_for_others(
    run_dir: Path, slow: Slow
) -> None:
    first, second = load_run(run_dir).graph, load_run(run_dir).graph

    async def ask() -> ItemNeighbours:
        before = asyncio.create_task(first.ready())
        queued = asyncio.create_task(second.ready())
        await asyncio.to_thread(slow.begun.wait, 60)
        queued.cancel()
        await asyncio.wait([queued])
        slow.go.set()
        await before
        return await second.ready()

    assert run_loop(ask()).similar(0, 3)


def test_a_record_that_is_no_object_is_refused_in_one_sentence(tmp_path: Path) -> None:
    leporid.train("toppop", make_split(), progress=False).save(tmp_path / "model")
    (tmp_path / "record.json").write_text("[1]")
    with pytest.raises(DataError, match=r"record\.json"):
        load_run(tmp_path)
