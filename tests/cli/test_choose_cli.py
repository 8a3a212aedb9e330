"""`leporid choose`: its words, its JSON, and that its folder is served like any run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

import leporid
from leporid.cli import choose as choose_command
from leporid.cli.app import app
from leporid.errors import ConfigError, LeporidError
from tests.selection.clocks import Clock


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = leporid.synthesize(60, 40, 1200, seed=2, min_activity=8)
    rows = [f"u{u},i{i},{t}" for u, i, t in zip(data.user, data.item, data.time, strict=True)]
    path = tmp_path_factory.mktemp("data") / "log.csv"
    path.write_text("\n".join(["user,item,time", *rows]) + "\n")
    return path


def call(*arguments: Any, fails: bool = False) -> Result:
    result = CliRunner(env={"COLUMNS": "120"}).invoke(app, [*map(str, arguments)])
    assert fails or result.exit_code == 0, result.output
    return result


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time passes by looking at the clock, as often on every machine."""
    monkeypatch.setattr(choose_command, "_clock", Clock(0.01))


def test_the_answer_is_printed_and_its_folder_recommends(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEPORID_PROGRESS", "on")
    folder = tmp_path / "chosen"
    arguments = ("choose", log, "--budget", "3s", "--models", "toppop,itemknn", "-o", folder)
    done = call(*arguments)
    assert "Deploy " in done.stdout
    assert f"leporid train {log} --model" in done.stdout
    assert f"leporid evaluate {folder} --data {log}" in done.stdout
    assert "toppop: NDCG@10" in done.stderr
    assert "left]" in done.stderr
    assert call("recommend", folder, "--user", "u3").exit_code == 0
    files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    repeated = call(*arguments, "--json")
    assert f"nothing was written: {folder} keeps " in repeated.stderr
    assert files == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    again = json.loads(repeated.stdout)
    assert again["winner"] in done.stdout
    assert {"why", "table", "tested", "commands", "elapsed"} <= again.keys()


def test_the_same_again_repeats_every_option_of_the_data(log: Path, tmp_path: Path) -> None:
    folder = tmp_path / "chosen"
    options = ("--core", "3", "--duplicates", "all", "--protocol", "leave-last-out")
    models = ("--models", "toppop,itemknn")
    done = call("choose", log, "--budget", "3s", *models, *options, "-o", folder, "--json")
    answer = json.loads(done.stdout)
    for command in answer["commands"]:
        assert f"{log} --core 3 --duplicates all --protocol leave-last-out" in command
    command = answer["commands"][0].removeprefix("leporid ").split()
    again = json.loads(call(*command, "--json").stdout)
    assert again["metrics"]["NDCG@10"] == pytest.approx(answer["tested"][0]["NDCG@10"])


def test_a_wrong_budget_is_one_sentence(log: Path, tmp_path: Path) -> None:
    error = call("choose", log, "--budget", "soon", "-o", tmp_path / "x", fails=True).exception
    assert isinstance(error, ConfigError)
    assert "90s, 10m or 1h30m" in str(error)


@pytest.mark.parametrize("rows", ["1,7,1", "\n".join(f"{u},7,{u}" for u in range(30))])
def test_a_log_with_one_item_is_one_sentence(tmp_path: Path, rows: str) -> None:
    (tmp_path / "log.csv").write_text(f"user,item,time\n{rows}\n")
    done = call("choose", tmp_path / "log.csv", "-o", tmp_path / "x", fails=True)
    assert isinstance(done.exception, LeporidError)


@pytest.mark.parametrize(
    "header",
    [
        pytest.param("user,item,time", id="five users"),
        pytest.param("user,item", id="without times", marks=pytest.mark.slow),
    ],
)
@pytest.mark.filterwarnings("ignore::leporid.errors.LeporidWarning")
def test_five_users_and_five_seconds_have_an_answer(tmp_path: Path, header: str) -> None:
    rows = [(u, (3 * u + 5 * k) % 17, k) for u in range(5) for k in range(8)]
    lines = [",".join(map(str, row[: header.count(",") + 1])) for row in rows]
    (tmp_path / "log.csv").write_text("\n".join([header, *lines]) + "\n")
    done = call("choose", tmp_path / "log.csv", "--budget", "5s", "-o", tmp_path / "x")
    assert "Deploy " in done.stdout
    assert call("recommend", tmp_path / "x", "--user", "3").exit_code == 0
