"""`leporid train`: its table, the baselines beside it, and the final model."""

from __future__ import annotations

import csv
import json
import re
import signal
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

import leporid
from leporid.cli.app import app
from leporid.errors import ConfigError, DataError, LeporidWarning
from leporid.models import Recommender, get
from leporid.models.neural import cuda_graph
from leporid.runs import RunRecord


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = leporid.synthesize(60, 40, 1200, seed=2, min_activity=8)
    rows = [f"u{u},i{i},{t}" for u, i, t in zip(data.user, data.item, data.time, strict=True)]
    path = tmp_path_factory.mktemp("data") / "log.csv"
    path.write_text("\n".join(["user,item,time", *rows]) + "\n")
    return path


def call(*arguments: Any, fails: bool = False, **environment: str) -> Result:
    result = CliRunner(env={"COLUMNS": "80", **environment}).invoke(app, [*map(str, arguments)])
    assert fails or result.exit_code == 0, result.output
    return result


def test_the_table_can_be_read_at_80_columns(log: Path, tmp_path: Path) -> None:
    out = call("train", log, "--model", "userknn", "-o", tmp_path / "r").stdout
    table = [line for line in out.splitlines() if "│" in line or "┃" in line]
    heads = ["model", "HR@10", "F1@10", "NDCG@10", "seconds"]
    assert [cell.strip() for cell in table[0].strip("┃").split("┃")] == heads
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in table[1:]]
    assert [row[0] for row in rows] == ["userknn", *(f"{n} (baseline)" for n in NAMES)]
    assert max(map(len, out.splitlines())) <= 80 + len(str(tmp_path))
    record = RunRecord.read(tmp_path / "r" / "record.json")
    assert float(rows[0][1]) == pytest.approx(record.metrics["HR@10"], abs=1e-4)


NAMES = ("TopPop", "ItemKNN", "Transitions", "EASE")


def test_the_baselines_are_printed_and_recorded(log: Path, tmp_path: Path) -> None:
    out = call("train", log, "--model", "userknn", "-o", tmp_path / "r").stdout
    kept = RunRecord.read(tmp_path / "r" / "record.json").extra["baselines"]
    assert list(kept["models"]) == ["ease", "itemknn", "toppop", "transitions"]
    assert {"metrics", "settings", "seconds", "comparison"} <= set(kept["models"]["ease"])
    assert kept["models"]["ease"]["comparison"]["metric"] == "NDCG@10"
    assert kept["verdict"] in out
    assert "default settings" in out
    quiet = call("train", log, "--model", "userknn", "-o", tmp_path / "r", "--no-baselines").stdout
    assert "TopPop" not in quiet
    assert "baselines" not in RunRecord.read(tmp_path / "r" / "record.json").extra


@pytest.mark.parametrize("model", ["ease", "bpr"])
def test_a_final_run_keeps_both_models(log: Path, tmp_path: Path, model: str) -> None:
    run = tmp_path / "r"
    options = ["--model", model, "-o", run, "--no-baselines"]
    if model == "bpr":
        options += ["--steps", 6, "--set", "eval_every=2", "--set", "dim=4", "--device", "cpu"]
    done = call("train", log, *options, "--final")
    data = leporid.load(log)
    assert f"final model, fitted on all {len(data):,} interactions" in done.stdout
    record = json.loads((run / "record.json").read_text())
    assert record["extra"]["final"]["interactions"] == len(data)
    assert ("steps" in record["extra"]["final"]) == (model == "bpr")

    final, validated = (Recommender.load(run / name) for name in ("model", "validated"))
    owned = set(zip(data.user.tolist(), data.item.tolist(), strict=True))
    for fitted, repeats in ((final, False), (validated, True)):
        lists = fitted.top_k(np.arange(data.n_users, dtype=np.int32), 10).items
        pairs = {(user, int(item)) for user, row in enumerate(lists) for item in row}
        assert bool(pairs & owned) == repeats

    asked = call("recommend", run, "--user", "u1")
    assert "final model, fitted on all" in asked.stderr
    best = call("recommend", run, "--user", "u1", "--json")
    assert best.stderr == ""
    judged = call("evaluate", "--data", log, run, "--json")
    assert "the validated model is evaluated" in judged.stderr
    assert json.loads(judged.stdout)["metrics"] == record["metrics"]
    refused = call("evaluate", "--data", log, run / "model", fails=True)
    assert isinstance(refused.exception, DataError)

    with warnings.catch_warnings(action="ignore", category=LeporidWarning):  # its checkpoint
        again = call("train", log, *options)
    assert "validated model, fitted on" in again.stdout
    assert not (run / "validated").exists()
    assert "validated model" in call("recommend", run, "--user", "u1").stderr


SHORT = ("--model", "bpr", "--no-baselines", "--device", "cpu", "--steps", 6)
SHORT += ("--set", "eval_every=2", "--set", "dim=4")


def test_a_finished_run_is_not_trained_again_to_make_it_final(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[int] = []
    step = cuda_graph.Backward.__call__

    def counted(self: Any, *batch: Any) -> Any:
        trained.append(1)
        return step(self, *batch)

    monkeypatch.setattr(cuda_graph.Backward, "__call__", counted)
    call("train", log, *SHORT, "-o", tmp_path / "r")
    first = RunRecord.read(tmp_path / "r" / "record.json")
    with (tmp_path / "r" / "history.csv").open() as file:
        seconds = float(list(csv.DictReader(file))[-1]["seconds"])
    assert len(trained) == 6
    trained.clear()
    call("train", log, *SHORT, "-o", tmp_path / "r", "--final")
    record = RunRecord.read(tmp_path / "r" / "record.json")
    assert len(trained) == record.extra["final"]["steps"] <= 6
    assert record.metrics == first.metrics
    assert record.seconds >= seconds  # those of the training, not of reading it
    trained.clear()
    with pytest.warns(LeporidWarning, match="holds a checkpoint, which this run replaces"):
        call("train", log, *SHORT, "--seed", 5, "-o", tmp_path / "r", "--final")
    record = RunRecord.read(tmp_path / "r" / "record.json")
    assert len(trained) == 6 + record.extra["final"]["steps"]


def test_a_rerun_says_that_it_replaces_a_checkpoint(log: Path, tmp_path: Path) -> None:
    call("train", log, *SHORT, "-o", tmp_path / "r")
    folder = re.escape(str(tmp_path / "r" / "checkpoint"))
    with pytest.warns(LeporidWarning, match=rf"{folder} holds a checkpoint.*--resume"):
        call("train", log, *SHORT, "-o", tmp_path / "r")
    call("train", log, *SHORT, "-o", tmp_path / "r", "--resume")


def test_a_run_stopped_in_its_final_fit_is_a_run(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Recommender, "refit", stopped)
    call("train", log, "--model", "ease", "-o", tmp_path / "r", "--final", fails=True)
    assert "final" not in RunRecord.read(tmp_path / "r" / "record.json").extra
    assert not Recommender.load(tmp_path / "r" / "model").fitting.final
    assert "validated model" in call("recommend", tmp_path / "r", "--user", "u1").stderr


def test_a_folder_is_loaded_as_it_is_served(log: Path, tmp_path: Path) -> None:
    run = tmp_path / "r"
    call("train", log, "--model", "ease", "-o", run, "--final", "--no-baselines")
    for cls in (Recommender, get("ease")):
        assert cls.load(run).fitting.final
        assert not cls.load(run / "validated").fitting.final
    with pytest.raises(DataError, match="holds an ease model, not an ItemKNN"):
        get("itemknn").load(run)


def interrupt_step(
    monkeypatch: pytest.MonkeyPatch,
    step: int,
    kind: signal.Signals = signal.SIGINT,
    times: int = 1,
) -> None:
    """A signal arrives, once or several times, while a step is computed."""
    plain = cuda_graph.Backward.__call__
    steps = 0

    def interrupted(self: Any, *batch: Any) -> Any:
        nonlocal steps
        steps += 1
        if steps == step:
            for _ in range(times):
                signal.raise_signal(kind)
        return plain(self, *batch)

    monkeypatch.setattr(cuda_graph.Backward, "__call__", interrupted)


@pytest.mark.parametrize(("kind", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_is_tested_and_saved_and_goes_on_as_if_unbroken(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: signal.Signals, code: int
) -> None:
    whole, run = tmp_path / "whole", tmp_path / "r"
    call("train", log, *SHORT, "-o", whole)
    with monkeypatch.context() as patch:
        interrupt_step(patch, 5, kind)
        stopped = call("train", log, *SHORT, "--final", "-o", run, fails=True)
    assert stopped.exit_code == code
    assert "NDCG@10" in stopped.stdout
    assert "--resume" in stopped.stderr
    record = RunRecord.read(run / "record.json")
    assert record.extra["training"]["ended"] == kind.name
    assert record.extra["training"]["steps"] == 5
    assert record.extra["interrupted"].startswith(f"the training was interrupted by {kind.name}")
    assert "final" not in record.extra
    page = (run / "report.html").read_text(encoding="utf-8")
    assert record.extra["interrupted"] in page
    model = Recommender.load(run)
    table = leporid.evaluate(model, leporid.temporal_split(leporid.load(log)), part="valid")
    assert table.mean()["NDCG@10"] == pytest.approx(record.extra["training"]["best_metric"])

    # Without --resume, --final does not take the part for the whole.
    with pytest.warns(LeporidWarning, match="holds a checkpoint, which this run replaces"):
        call("train", log, *SHORT, "--final", "-o", run)
    with monkeypatch.context() as patch:
        interrupt_step(patch, 5, kind)
        with warnings.catch_warnings(action="ignore", category=LeporidWarning):
            call("train", log, *SHORT, "-o", run, fails=True)
    call("train", log, *SHORT, "--resume", "-o", run)
    resumed, unbroken = (RunRecord.read(folder / "record.json") for folder in (run, whole))
    assert "interrupted" not in resumed.extra
    assert (resumed.metrics, resumed.valid_metrics) == (unbroken.metrics, unbroken.valid_metrics)
    assert resumed.extra["training"]["best_step"] == unbroken.extra["training"]["best_step"]
    users = np.arange(20, dtype=np.int32)
    np.testing.assert_array_equal(
        Recommender.load(run).score(users), Recommender.load(whole).score(users)
    )


def test_a_final_fit_that_is_interrupted_leaves_the_tested_run(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "r"
    with monkeypatch.context() as patch:
        interrupt_step(patch, 7)  # the first step of the final fit
        stopped = call("train", log, *SHORT, "--final", "-o", run, fails=True)
    assert stopped.exit_code == 130
    record = RunRecord.read(run / "record.json")
    assert "fit on everything" in record.extra["interrupted"]
    assert record.extra["training"]["ended"] == "steps"
    assert not Recommender.load(run).fitting.final
    call("train", log, *SHORT, "--final", "--resume", "-o", run)
    assert Recommender.load(run).fitting.final


def test_lines_of_json_replace_progress_or_go_into_a_file(log: Path, tmp_path: Path) -> None:
    arguments = ("train", log, *SHORT, "-o", tmp_path / "r")
    with warnings.catch_warnings(action="ignore", category=LeporidWarning):  # its checkpoint
        err = call(*arguments, "--log-every", 3, LEPORID_PROGRESS="").stderr.splitlines()
        lines = [json.loads(line) for line in err if line.startswith("{")]
        assert [line["step"] for line in lines[1:-1]] == [2, 3, 4, 6]
        assert not any(line.startswith("training") for line in err)
        file = tmp_path / "log.jsonl"
        shown = call(*arguments, "--log-file", file, LEPORID_PROGRESS="").stderr
    assert "training bpr" in shown
    assert "{" not in shown
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    with (tmp_path / "r" / "history.csv").open() as rows:
        losses = [float(row["loss"]) for row in csv.DictReader(rows)]
    assert [line["loss"] for line in lines if line["event"] == "log"] == losses
    refused = call("train", log, "--model", "ease", "-o", tmp_path, "--log-every", 3, fails=True)
    assert isinstance(refused.exception, ConfigError)


def test_a_folder_without_a_model_is_told_apart_by_how_it_came_about(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "r"
    often = ("--set", "checkpoint_every=1")
    with monkeypatch.context() as patch:
        interrupt_step(patch, 3, times=2)
        stopped = call("train", log, *SHORT, *often, "-o", run, fails=True)
        assert stopped.exit_code == 130
        assert "--resume" in stopped.stderr
    (tmp_path / "empty").mkdir()
    told = {
        run: "same `leporid train` command again with --resume",
        tmp_path / "nowhere": "no such folder",
        tmp_path / "empty": "holds no trained model: give a folder that",
        log: "is a file: give the folder",
    }
    for path, sentence in told.items():
        with pytest.raises(DataError, match=sentence) as of_load:
            Recommender.load(path)
        assert str(path) in str(of_load.value)
        for command in (("recommend", path, "--user", "u1"), ("serve", path, "--port", "0")):
            assert str(call(*command, fails=True).exception) == str(of_load.value)
    call("train", log, *SHORT, *often, "-o", run, "--resume")
    assert Recommender.load(run).name == "bpr"


def test_an_item_table_is_used_where_validation_says_so(log: Path, tmp_path: Path) -> None:
    items = tmp_path / "items.csv"
    rows = [f"i{i},{'drama' if i % 3 else 'war'}" for i in range(40)]
    items.write_text("\n".join(["item_id,genres", *rows]) + "\n")
    quick = ["--init", "content", "--set", "dim=8", "--set", "eval_every=5", "--no-baselines"]
    command = ["train", log, "--model", "sasrec", "--steps", 10, *quick, "--items", items]
    out = call(*command, "-o", tmp_path / "auto").stdout
    tried = RunRecord.read(tmp_path / "auto" / "record.json").extra["training"]["features"]
    said = f"validation: {tried['with']:.4f} with, {tried['without']:.4f} without;"
    assert said in " ".join(out.split())
    call(*command, "--features", "-o", tmp_path / "on")
    asked = RunRecord.read(tmp_path / "on" / "record.json")
    assert asked.config["item_table"] == str(items)
    assert "features" not in asked.extra["training"]


@pytest.mark.parametrize("init", ["content", "leporid_content"])
def test_an_initialiser_without_its_item_table_is_refused_before_the_log_is_read(
    init: str, tmp_path: Path
) -> None:
    arguments = ["train", tmp_path / "none.csv", "-o", tmp_path / "r", "--init", init]
    error = call(*arguments, fails=True).exception
    assert isinstance(error, ConfigError)
    assert str(error).startswith(f"{init} needs a file about the items")
    assert "--init-set items=items.parquet" in str(error)


def test_a_log_without_a_terminal_says_what_is_going_on(log: Path, tmp_path: Path) -> None:
    arguments = ["train", log, "--model", "ease", "-o", tmp_path / "r"]
    lines = call(*arguments, LEPORID_PROGRESS="").stderr.splitlines()
    words = ["baselines:", "TopPop", "ItemKNN", "Transitions", "ease", "ease:"]
    assert [line.split()[0] for line in lines[-6:]] == words
    assert "ease" not in call(*arguments).stderr.splitlines()
    assert call(*arguments, "--json", LEPORID_PROGRESS="").stderr == ""


@pytest.mark.slow
def test_the_deployed_model_recommends_nothing_of_the_history(
    real_data: Path, tmp_path: Path
) -> None:
    source = real_data / "lastfm.parquet"
    done = call("train", source, "--model", "ease", "--final", "-o", tmp_path / "r")
    assert "ItemKNN (baseline)" in done.stdout
    assert " in NDCG@10: " in done.stdout
    data, model = leporid.load(source), Recommender.load(tmp_path / "r" / "model")
    users = np.arange(data.n_users, dtype=np.int32)
    rows = model.top_k(users, 10).items
    asked = users[:, None] * np.int64(data.n_items) + rows
    assert not np.isin(asked, data.user * np.int64(data.n_items) + data.item).any()
    validated = Recommender.load(tmp_path / "r" / "validated").top_k(users, 10).items
    asked = users[:, None] * np.int64(data.n_items) + validated
    owned = np.isin(asked, data.user * np.int64(data.n_items) + data.item).any(axis=1)
    assert owned.sum() > 100


@pytest.mark.parametrize("init", [["--model", "toppop"], ["--init", "none"]])
def test_settings_of_no_initialiser_are_refused(init: list[str], tmp_path: Path) -> None:
    done = CliRunner().invoke(
        app, ["train", "log.csv", "-o", str(tmp_path), *init, "--init-set", "k=5"]
    )
    assert isinstance(done.exception, ConfigError)
    assert "--init-set" in str(done.exception)
