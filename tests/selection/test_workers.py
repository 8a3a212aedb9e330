"""Candidates evaluated elsewhere: by a pool, by a Dask cluster, by several processes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import leporid
from leporid.data import Split
from leporid.selection import Choice, schedule
from leporid.selection.candidates import Candidate
from tests.selection.clocks import Clock
from tests.selection.test_search import World, search_of

MODELS = ("toppop", "itemknn", "p3alpha")


def planted() -> Split:
    return leporid.temporal_split(leporid.synthesize(120, 70, 3000, seed=5))


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "_ROUNDS", 2)


def choose(folder: Path | None = None, workers: Any = None) -> Choice:
    how: dict[str, Any] = {"output": folder, "workers": workers, "progress": False}
    how["clock"] = Clock()
    return leporid.choose(planted(), 900, models=MODELS, **how)


def evaluated(choice: Choice) -> dict[tuple[str, str], float]:
    return {(row["model"], row["settings"]): row["NDCG@10"] for row in choice.table}


class Counting(ThreadPoolExecutor):
    """A pool that counts."""

    sent = 0

    def submit(self, *work: Any, **how: Any) -> Future[Any]:
        self.sent += 1
        return super().submit(*work, **how)


def test_workers_find_what_one_process_finds() -> None:
    alone = choose()
    with Counting(2) as pool:
        together = choose(workers=pool)
    assert pool.sent >= len(together.table) > len(MODELS)
    assert together.winner == alone.winner
    assert evaluated(together) == evaluated(alone)


class Busy(Future[Any]):
    """Work that is not done before the time is over."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def done(self) -> bool:
        self._world.now = 29.5
        return False


class Never(Executor):
    """Workers that never answer."""

    def __init__(self, world: World) -> None:
        self._world = world

    def submit(self, *work: Any, **how: Any) -> Future[Any]:  # type: ignore[override]
        return Busy(self._world)


def test_who_has_no_answer_at_the_deadline_is_late(tmp_path: Path) -> None:
    world = World({"a": 0.3, "b": 0.9}, {"a": 1.0, "b": 1.0})
    search = search_of(world, tmp_path, 30.0)
    entrants = [Candidate(model=name) for name in world.quality]
    search.round(entrants[:1])
    world.workers, world.now = Never(world), 0.0
    search.round(entrants)
    assert [c.model for c in search.late.values()] == ["b"]
    assert search.leader is not None
    assert search.leader.candidate.model == "a"


@pytest.fixture
def client() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
    )
    with cluster, distributed.Client(cluster, set_as_default=False) as client:
        yield client


def test_a_cluster_finds_what_one_process_finds(client: Any, tmp_path: Path) -> None:
    from leporid.distributed import Workers as DaskWorkers

    together = choose(tmp_path / "out", DaskWorkers(client))
    assert evaluated(together) == evaluated(choose())
    lines = (tmp_path / "out/search/journal.jsonl").read_text(encoding="utf-8").splitlines()
    assert not [line for line in lines if json.loads(line)["event"] == "failed"]


def test_two_searches_on_one_folder_share_the_work(tmp_path: Path) -> None:
    answers: list[Choice | Exception] = []

    def search() -> None:
        try:
            answers.append(choose(tmp_path / "out"))
        except leporid.errors.DataError as error:
            answers.append(error)

    threads = [threading.Thread(target=search) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = (tmp_path / "out/search/journal.jsonl").read_text(encoding="utf-8").splitlines()
    events = [json.loads(line) for line in lines]
    places = [(e["key"], e["rung"]) for e in events if e["event"] == "evaluated"]
    assert len(places) == len(set(places)), "an evaluation was repeated"
    assert any(isinstance(answer, Choice) for answer in answers)
