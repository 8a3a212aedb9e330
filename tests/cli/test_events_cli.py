"""`--event`, `--event-weights` and `--target-events` from the outside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import leporid
from leporid.cli.app import app
from leporid.models import Recommender
from tests.data.event_log import WEIGHTS, frame, rows

KINDS = ("--event", "kind", "--event-weights", "view=1,cart=3,purchase=5,dislike=-1")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("log") / "log.csv"
    lines = (",".join(map(str, row)) for row in rows())
    file.write_text("\n".join(["user,item,kind,time", *lines]) + "\n")
    return file


def call(*arguments: Any) -> Any:
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.mark.filterwarnings("ignore::leporid.errors.LeporidWarning")  # a baseline without weights
def test_train_evaluate_and_recommend_know_the_target_events(log: Path, tmp_path: Path) -> None:
    run, targets = tmp_path / "run", ("--target-events", "purchase")
    result = call("train", log, "--model", "ease", *KINDS, *targets, "-o", run)
    assert result.exit_code == 0, result.output
    how: Any = {"event": "kind", "weights": WEIGHTS, "target_events": "purchase"}
    split = leporid.temporal_split(leporid.load(frame(rows()), **how, progress=False))
    wanted = leporid.evaluate(leporid.train("ease", split, progress=False), split).mean()
    record = json.loads((run / "record.json").read_text())
    assert record["metrics"] == pytest.approx(wanted)
    again = call("evaluate", run, "--data", log, *KINDS, *targets, "--json")
    assert json.loads(again.stdout)["metrics"] == pytest.approx(wanted)
    model = Recommender.load(run / "model")
    answer = call("recommend", run, "--user", 3, "-n", 20, "--json").stdout
    items = [entry["item"] for entry in json.loads(answer)[0]["items"]]
    excluded = model.known.excluded_items().of(model.users.index(3))
    assert set(items) == set(model.items.ids.to_pylist()) - set(model.items.externals(excluded))


def test_several_target_events_and_counts_by_kind(log: Path) -> None:
    result = call("data", "stats", log, *KINDS, "--target-events", "purchase,cart", "--json")
    assert json.loads(result.stdout)["dropped"]["event spam"] > 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--event-weights", "view=1"), "--event"),
        (("--event", "kind", "--event-weights", "view"), "--event-weights takes view=1"),
        (("--event", "kind", "--target-events", "order"), "kinds found: cart, dislike"),
    ],
)
def test_errors_are_one_sentence(log: Path, options: Any, says: str) -> None:
    result = call("data", "stats", log, *options)
    assert result.exit_code != 0
    assert says in str(result.exception) + result.output


def test_a_log_in_pieces_refuses_kinds(log: Path, tmp_path: Path) -> None:
    result = call("embed", log, *KINDS, "--memory", "2GB", "-o", tmp_path / "out")
    assert result.exit_code != 0
    assert "--memory and --event do not go together" in str(result.exception) + result.output


def test_the_catalogue_says_which_models_use_weights() -> None:
    assert "uses weights: yes" in call("models", "ease").output
    assert "uses weights: no" in call("models", "bpr").output
