"""`--include-seen` from the outside: trained, recorded, and what a saved run does by itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import leporid
from leporid.cli.app import app
from leporid.data import Split, write_log
from leporid.errors import LeporidWarning
from leporid.models import Recommender
from tests.models.test_repeats import events


def call(*arguments: Any) -> Any:
    result = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_log(events(), tmp_path_factory.mktemp("log") / "log.csv")


@pytest.fixture(scope="module")
def run(log: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    call("train", log, "--model", "itemknn", "--include-seen", "-o", folder)
    return folder


def test_a_run_keeps_it_and_is_compared_with_frequency(run: Path) -> None:
    record = json.loads((run / "record.json").read_text())
    assert record["extra"]["include_seen"] is True
    assert "frequency" in record["extra"]["baselines"]["models"]
    model = Recommender.load(run / "model")
    assert model.fitting.include_seen
    split = leporid.temporal_split(events())
    assert len(model.known) == len(split.train_valid)  # repeats were kept
    table = leporid.evaluate(model, split, include_seen=True)
    assert record["metrics"] == table.mean()


def test_evaluate_and_recommend_do_as_the_run_was_trained(run: Path, log: Path) -> None:
    record = json.loads((run / "record.json").read_text())
    found = json.loads(call("evaluate", run, "--data", log, "--json").stdout)
    assert found["metrics"] == record["metrics"]
    hidden = ("--no-include-seen", "--duplicates", "all", "--json")
    assert json.loads(call("evaluate", run, "--data", log, *hidden).stdout)["repeated"] > 0
    model = Recommender.load(run / "model")
    for option, seen in (((), True), (("--no-include-seen",), False)):
        answer = call("recommend", run, "--user", 3, "-n", 17, *option, "--json").stdout
        items = [entry["item"] for entry in json.loads(answer)[0]["items"]]
        assert items == [i for i in model.recommend(3, 17, include_seen=seen)[0] if i is not None]
        assert (len(items) == 17) == seen


def test_tune_and_a_saved_split_know_it(log: Path, tmp_path: Path) -> None:
    call("data", "split", log, "-o", tmp_path / "split", "--include-seen")
    assert Split.load(tmp_path / "split").include_seen
    options = ("--trials", 2, "--json")
    asked = (
        ("tune", "frequency", log, "--include-seen", *options),
        ("tune", "frequency", tmp_path / "split", *options),
    )
    values = [json.loads(call(*one).stdout)["best_value"] for one in asked]
    assert values[0] == values[1]
    less = ("tune", "frequency", tmp_path / "split", "--no-include-seen", *options)
    assert json.loads(call(*less).stdout)["best_value"] < values[0]


def test_stats_count_repeats_and_advise(log: Path, tmp_path: Path) -> None:
    every = events()
    said = f"repeats: {every.repeats} of {len(every)} interactions"
    for option in ("first", "sum", "all"):
        output = call("data", "stats", log, "--duplicates", option).stdout
        assert said in output
        assert "--include-seen" in output
    assert json.loads(call("data", "stats", log, "--json").stdout)["repeats"] == every.repeats
    once = write_log(every.select(every.is_first), tmp_path / "once.csv")
    output = call("data", "stats", once).stdout
    assert "repeats: 0 of" in output
    assert "--include-seen" not in output


def test_repeats_are_those_of_target_events_and_choose_says_where_they_are_rare(
    tmp_path: Path,
) -> None:
    """Users view an item three times and buy it once; the first item they buy a second time."""
    lines = ["user_id,item_id,event,timestamp"]
    for user in range(40):
        for time in range(0, 80, 8):
            item = (user * 7 + time) % 31
            lines += [f"{user},{item},view,{time + k}" for k in range(3)]
            lines.append(f"{user},{item},purchase,{time + 4}")
    once, twice = tmp_path / "once.csv", tmp_path / "twice.csv"
    once.write_text("\n".join(lines) + "\n")
    lines += [f"{user},{user * 7 % 31},purchase,90" for user in range(40)]
    twice.write_text("\n".join(lines) + "\n")
    kinds = ("--event", "event", "--target-events", "purchase")
    assert "repeats: 0 of 400 interactions" in call("data", "stats", once, *kinds).stdout
    output = call("data", "stats", twice, *kinds).stdout
    assert "repeats: 40 of 440 interactions (9.1%)" in output
    assert "--include-seen" in output
    options = (*kinds, "--include-seen", "--budget", "3s", "--models", "toppop")
    with pytest.warns(LeporidWarning, match="repeats are rare, 0 of 400 interactions"):
        call("choose", once, *options, "-o", tmp_path / "once")
    call("choose", twice, *options, "-o", tmp_path / "twice")  # a warning would be an error


def test_choose_prints_the_option_again(log: Path, tmp_path: Path) -> None:
    options = ("--budget", "3s", "--models", "toppop,frequency")
    done = call("choose", log, "--include-seen", *options, "-o", tmp_path / "run")
    assert f"leporid train {log} --include-seen --model" in done.stdout
    assert Recommender.load(tmp_path / "run" / "model").fitting.include_seen
