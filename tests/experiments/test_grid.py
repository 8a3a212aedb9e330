"""The grid runner on a real, tiny data set: resume, failure, and two workers."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

import pytest

import leporid
from leporid.data import write_log
from leporid.errors import TrainingInterruptedError
from leporid.evaluation import MetricTable
from leporid.foundation import ProgressLike, sigterm_interrupts
from leporid.models.closed_form.itemknn import ItemKNN
from leporid.models.neural.cuda_graph import Backward
from leporid.runs import Cell, ExperimentSpec, Results, RunRecord, run_grid, try_lock
from leporid.runs import grid as module
from reproduction.store import PackedResults


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
    assert all(isinstance(found, RunRecord) for found in status.values())
    assert len(status) == 2
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


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys of the cells that are run, in order."""
    seen: list[str] = []
    run_cell = module.run_cell

    def watched(cell: Cell, **how: Any) -> Any:
        seen.append(cell.key)
        return run_cell(cell, **how)

    monkeypatch.setattr(module, "run_cell", watched)
    return seen


def test_a_second_start_runs_nothing(log: str, tmp_path: Path, ran: list[str]) -> None:
    experiment = spec(log)
    run_grid([experiment], tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")}
    run_grid([experiment], tmp_path)
    assert ran == [cell.key for cell in experiment.cells()]
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")} == before
    assert PackedResults(tmp_path).pack() == 2
    found = run_grid([experiment], PackedResults(tmp_path))
    assert [isinstance(record, RunRecord) for record in found.values()] == [True, True]
    assert len(ran) == 2


def test_a_failing_cell_is_recorded_and_the_rest_goes_on(
    log: str, tmp_path: Path, ran: list[str]
) -> None:
    experiment = spec(log, settings={"itemknn": {"neighbors": 3}}, models=["itemknn", "toppop"])
    status = run_grid([experiment], tmp_path)
    failed, done = (status[cell.spec_hash] for cell in experiment.cells())
    assert failed == "failed"
    assert isinstance(done, RunRecord)
    (failure,) = tmp_path.rglob("*.error.json")
    assert "neighbors" in failure.read_text()
    assert len(ran) == 2
    run_grid([experiment], tmp_path)
    assert len(ran) == 2
    run_grid([experiment], tmp_path, retry_failed=True)
    assert len(ran) == 3


def test_two_workers_share_the_cells(log: str, tmp_path: Path, ran: list[str]) -> None:
    experiment = spec(log, seeds=[1, 2])
    how: dict[str, Any] = {"target": run_grid, "args": ([experiment], tmp_path)}
    workers = [threading.Thread(**how) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(ran) == sorted(cell.key for cell in experiment.cells())
    assert not list(tmp_path.rglob("*.lock"))


def test_a_cell_that_another_process_has_is_waiting(
    log: str, tmp_path: Path, ran: list[str]
) -> None:
    experiment = spec(log)
    first, second = (cell.key for cell in experiment.cells())
    with try_lock(Results(tmp_path).path(first, ".lock")):
        status = run_grid([experiment], tmp_path)
    waiting, done = status.values()
    assert waiting == "waiting"
    assert isinstance(done, RunRecord)
    assert ran == [second]


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("in_training", [False, True])
def test_an_interrupted_grid_keeps_its_cells_and_goes_on(
    log: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: signal.Signals,
    in_training: bool,
) -> None:  # fmt: skip
    models = ["toppop", "itemknn", "ease"]
    if in_training:
        models[1] = "bpr"
    settings = {"bpr": {"dim": 4, "steps": 3, "eval_every": 0, "batch_size": 8}}
    experiment = spec(log, models=models, inits=["random"], settings=settings)
    owner, method = (Backward, "__call__") if in_training else (ItemKNN, "_fit")
    plain = getattr(owner, method)

    def interrupted(self: Any, *arguments: Any) -> Any:
        signal.raise_signal(kind)
        return plain(self, *arguments)

    with monkeypatch.context() as patch, sigterm_interrupts():
        patch.setattr(owner, method, interrupted)
        with pytest.raises(TrainingInterruptedError, match="1 of 3 cells") as caught:
            run_grid([experiment], tmp_path, device="cpu")
    assert caught.value.by is kind
    outcomes = caught.value.so_far
    assert isinstance(outcomes, dict)
    toppop, stopped, ease = (outcomes[cell.spec_hash] for cell in experiment.cells())
    assert isinstance(toppop, RunRecord)
    assert (stopped, ease) == ("waiting", "waiting")
    assert not list(tmp_path.rglob("*.error.json"))
    after = run_grid([experiment], tmp_path, device="cpu")
    assert all(isinstance(outcome, RunRecord) for outcome in after.values())


def test_a_grid_says_what_came_out_of_each_cell(log: str, tmp_path: Path) -> None:
    said: list[str] = []

    class Reporter(ProgressLike):
        def say(self, line: str) -> None:
            said.append(line)

    experiment = spec(log)
    outcomes = run_grid([experiment], tmp_path, progress=Reporter())
    assert len(said) == 4
    for number, cell in enumerate(experiment.cells()):
        assert said[2 * number] == f"cell {number + 1} of 2: {cell.label}"
        record = outcomes[cell.spec_hash]
        assert isinstance(record, RunRecord)
        assert f"NDCG@10 {record.valid_metrics['NDCG@10']:.4f} " in said[2 * number + 1]
