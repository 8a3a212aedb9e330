from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from leporid import Split, load, synthesize
from leporid.cli.app import app
from leporid.errors import DataError, UnknownNameError

runner = CliRunner()


def run(*arguments: object) -> str:
    result = runner.invoke(app, ["data", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "ratings.csv"
    run("synth", "--users", 40, "--items", 30, "--interactions", 600, "--seed", 3, "-o", path)
    return path


def test_synth_writes_what_synthesize_makes(log: Path, tmp_path: Path) -> None:
    assert load(log).time is not None
    assert load(log).digest == synthesize(40, 30, 600, seed=3).core(1).digest
    told = json.loads(run("synth", "--users", 9, "--items", 5, "--interactions", 20,
                          "-o", tmp_path / "a.parquet", "--json"))  # fmt: skip
    assert told["interactions"] == len(load(tmp_path / "a.parquet")) == 20


def test_stats_says_what_it_guessed(log: Path) -> None:
    result = runner.invoke(app, ["data", "stats", str(log), "--core", "5"])
    assert "guessed: user=user_id, item=item_id, time=timestamp" in result.output
    told = json.loads(run("stats", log, "--core", 5, "--json"))
    core = load(log).core(5)
    assert {name: told[name] for name in core.stats().as_dict()} == core.stats().as_dict()
    assert told["dropped"] == dict(core.dropped)
    assert told["source"]["columns"]["user"] == "user_id"


def test_columns_can_be_given(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("x\ty\tz\nb\ta\t1\nb\tc\t\n")
    told = json.loads(run("stats", path, "--user", "y", "--item", "x", "--time", "z",
                          "--separator", "tab", "--json"))  # fmt: skip
    assert (told["users"], told["items"], told["dropped"]) == (1, 1, {"missing time": 1})


@pytest.mark.parametrize("protocol", ["temporal", "leave-last-out", "global-time"])
def test_split_can_be_loaded(log: Path, tmp_path: Path, protocol: str) -> None:
    told = json.loads(run("split", log, "-o", tmp_path / "s", "--protocol", protocol, "--json"))
    split = Split.load(tmp_path / "s")
    assert told["digest"] == split.digest
    assert told["train"] + told["valid"] + told["test"] == 600
    assert split.protocol.startswith(protocol)


def test_errors_name_the_problem(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEPORID_CACHE", str(tmp_path))
    with pytest.raises(UnknownNameError, match="did you mean 'temporal'"):
        run("split", log, "-o", tmp_path / "s", "--protocol", "tempral")
    with pytest.raises(DataError, match="licence click"):
        run("fetch", "anime")
    listed = json.loads(run("list", "--json"))
    assert listed["datasets"][0]["name"] == "ml-100k"
    assert listed["cache"] == str(tmp_path)
