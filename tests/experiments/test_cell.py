"""`record_of` is the only maker of records: whoever trains, the record says the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from leporid.cli.app import app
from leporid.data import load, synthesize, temporal_split, write_log
from leporid.errors import UnknownNameError
from leporid.evaluation import MetricTable, evaluate
from leporid.models import train
from leporid.runs import Cell, RunRecord, load_split, record_of, run_cell
from tests.made_runs import run_of

FACTS = {"protocol", "data_digest", "skipped_users", "cold_users", "seen", "confidence_95"}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "toy.parquet"
    write_log(synthesize(users=60, items=40, interactions=1500, seed=3), path)
    return path


def cell(log: Path, **changes: object) -> Cell:
    values = {"dataset": "toy", "source": str(log), "experiment": "x", "core": 2}
    values |= {"protocol": "temporal", "model": "toppop", "init": None, "seed": 0}
    return Cell.from_dict({**values, **changes})


def test_grids_calls_and_the_command_line_record_the_same_facts(log: Path, tmp_path: Path) -> None:
    split = temporal_split(load(log).core(2))
    run = run_cell(cell(log))
    from_grid, outcomes = record_of(run), run.test
    direct = run_of(train("toppop", split, seed=0), split)
    arguments = ["train", log, "--model", "toppop", "--core", 2, "--seed", 0, "-o", tmp_path / "r"]
    result = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0
    from_shell = RunRecord.read(tmp_path / "r" / "record.json")
    for record in (record_of(direct), from_shell):
        for part in ("metrics", "valid_metrics", "tail_metrics", "config", "device"):
            assert getattr(record, part) == getattr(from_grid, part)
        assert {key: record.extra[key] for key in FACTS} == {
            key: from_grid.extra[key] for key in FACTS
        }
    table = evaluate(train("toppop", split), split)
    assert from_grid.extra["confidence_95"]["HR@10"] == list(table.confidence("HR@10")[1:])
    assert from_grid.extra["data_digest"] == split.digest
    hits = MetricTable.load_hits(tmp_path / "r" / "record.users.parquet")
    for found in (direct.test, hits):
        assert found.same_users(outcomes)
        assert found.hits[:, :10].tolist() == outcomes.hits.tolist()


def test_every_protocol_of_the_data_room_can_be_run(log: Path) -> None:
    record = record_of(run_cell(cell(log, protocol="global-time")))
    assert record.extra["protocol"].startswith("global-time(")
    table = evaluate(train("toppop", late := load_split(str(log), 2, "global-time")), late)
    assert record.extra["cold_users"] == table.cold
    assert ("cold_metrics" in record.extra) == (table.cold > 0)
    assert load_split(str(log), 2, "leave-last-out").protocol == "leave-last-out"
    with pytest.raises(UnknownNameError, match="temporal"):
        load_split(str(log), 2, "tempral")


def test_a_record_says_what_the_model_has_seen(log: Path) -> None:
    for model, seen in (("toppop", "train only"), ("itemknn", "train and validation")):
        record = record_of(run_cell(cell(log, model=model)))
        assert record.extra["seen"] == record.seen == seen


def test_what_selects_is_ndcg_unless_a_recipe_or_the_grid_says_otherwise(log: Path) -> None:
    pytest.importorskip("torch")
    small: dict[str, Any] = {"steps": 4, "eval_every": 2}
    about: dict[str, Any] = {"model": "bpr", "init": "random", "settings": small}
    for changes, metric in (
        ({}, "NDCG@10"),
        ({"metric": "HR@5"}, "HR@5"),
        ({"recipe": "paper"}, "F1@10"),
        ({"settings": {**small, "metric": "MRR@5"}}, "MRR@5"),
    ):
        record = record_of(run_cell(cell(log, **{**about, **changes}), device="cpu"))
        assert record.config["metric"] == metric


def test_initial_embeddings_have_the_dimensions_of_the_recipe(log: Path) -> None:
    pytest.importorskip("torch")
    small: dict[str, Any] = {"steps": 2, "eval_every": 0}
    for change, dim in (({"dim": 12}, 12), ({}, 64)):
        about: dict[str, Any] = {"model": "hgn", "init": "svd", "recipe": "general"}
        about["settings"] = small | change
        run = run_cell(cell(log, **about), device="cpu")
        fitted: Any = run.model
        record = record_of(run)
        assert record.config["dim"] == dim
        assert [table.weight.shape[1] for table in fitted.tables] == [dim] * len(fitted.tables)
