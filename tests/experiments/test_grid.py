"""The grid runner on a real, tiny data set: resume, failure, and two workers."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import leporid
from leporid.data import write_log
from leporid.evaluation import MetricTable
from leporid.experiments import ExperimentSpec, Results, RunRecord, run_grid
from leporid.experiments.grid import grid_status, work


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("data") / "toy.parquet"
    write_log(leporid.synthesize(users=60, items=40, interactions=1500, seed=3), path)
    return str(path)


def spec(log: str, **changes: object) -> ExperimentSpec:
    values = {
        "name": "baselines",
        "dataset": "toy",
        "source": log,
        "core": 2,
        "models": ["toppop", "itemknn"],
        "seeds": [1],
    }
    return ExperimentSpec.from_dict({**values, **changes})


def test_every_cell_leaves_a_record_that_evaluation_confirms(log: str, tmp_path: Path) -> None:
    experiment = spec(log)
    status = run_grid([experiment], tmp_path)
    assert status.count("done") == 2
    cell = experiment.cells()[0]
    path = Results(tmp_path).path(cell.key)
    record = RunRecord.read(path)
    assert record.key == cell.key
    split = leporid.temporal_split(leporid.load(log).core(2))
    table = leporid.evaluate(leporid.train("toppop", split), split)
    assert record.metrics == pytest.approx(table.mean())
    outcomes = MetricTable.load_hits(path.with_suffix(".users.parquet"))
    assert outcomes.per_user("HR@10").mean() == pytest.approx(record.metrics["HR@10"])
    assert outcomes.per_user("HR@1").mean() == pytest.approx(record.metrics["HR@1"])
    assert outcomes.per_user("UserF1@10").mean() == pytest.approx(record.metrics["UserF1@10"])


def test_a_second_start_runs_nothing(log: str, tmp_path: Path) -> None:
    cells = spec(log).cells()
    ran: list[str] = []
    work(cells, tmp_path, on_done=lambda cell, _: ran.append(cell.model))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")}
    work(cells, tmp_path, on_done=lambda cell, _: ran.append(cell.model))
    assert ran == ["toppop", "itemknn"]
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")} == before
    assert Results(tmp_path).pack() == 2
    work(cells, tmp_path, on_done=lambda cell, _: ran.append(cell.model))
    assert ran == ["toppop", "itemknn"]
    assert grid_status(cells, tmp_path).count("done") == 2


def test_a_failing_cell_is_recorded_and_the_rest_goes_on(log: str, tmp_path: Path) -> None:
    experiment = spec(log, settings={"itemknn": {"neighbors": 3}}, models=["itemknn", "toppop"])
    status = run_grid([experiment], tmp_path)
    states = [status.states[cell.spec_hash] for cell in experiment.cells()]
    assert states == ["failed", "done"]
    (failure,) = tmp_path.rglob("*.error.json")
    assert "neighbors" in failure.read_text()
    assert work(experiment.cells(), tmp_path) == 0
    assert work(experiment.cells(), tmp_path, retry_failed=True) == 1


def test_two_workers_share_the_cells(log: str, tmp_path: Path) -> None:
    experiment = spec(log, seeds=[1, 2])
    ran: list[str] = []
    done = {"on_done": lambda cell, _: ran.append(cell.key)}
    how: dict[str, Any] = {"target": work, "args": (experiment.cells(), tmp_path), "kwargs": done}
    workers = [threading.Thread(**how) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(ran) == sorted(cell.key for cell in experiment.cells())
    assert not list(tmp_path.rglob("*.claim"))


def test_status_of_an_empty_directory_is_waiting(log: str, tmp_path: Path) -> None:
    assert grid_status(spec(log).cells(), tmp_path).count("waiting") == 2
