"""`leporid recommend` and `leporid tune`, as a person at a terminal runs them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from leporid.cli.app import app
from leporid.errors import ConfigError, DataError, UnknownIdError, UnknownNameError
from leporid.models.closed_form.ease import EASE
from tests.test_contract import make_split

runner = CliRunner()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return EASE(l2=5.0).fit(make_split()).save(tmp_path_factory.mktemp("run") / "model")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("data") / "toy.csv"
    rows = ["user,item,timestamp"]
    for user in range(40):
        size = int(rng.integers(10, 16))
        chosen = rng.choice(25, size=size, replace=False, p=_skew(25))
        rows += [f"{user},{item},{time}" for time, item in enumerate(chosen)]
    path.write_text("\n".join(rows) + "\n")
    return path


def _skew(n: int) -> np.ndarray:
    weights = 1.0 / np.arange(1, n + 1)
    return np.asarray(weights / weights.sum())


def test_a_known_user_gets_the_list_of_the_library(run: Path) -> None:
    out = runner.invoke(app, ["recommend", str(run), "--user", "u04", "-n", "3", "--json"])
    assert out.exit_code == 0, out.output
    (answer,) = json.loads(out.stdout)
    items, scores = EASE.load(run).recommend("u04", n=3)
    assert answer["user"] == "u04"
    assert [entry["item"] for entry in answer["items"]] == items.tolist()
    np.testing.assert_allclose([entry["score"] for entry in answer["items"]], scores, rtol=1e-6)


def test_a_history_gets_titles_from_a_file(run: Path, tmp_path: Path) -> None:
    items = tmp_path / "items.csv"
    rows = [f"{10 * number + 3},Film {number}" for number in range(17)]
    items.write_text("\n".join(["item_id,title", *rows]) + "\n")
    arguments = ["recommend", str(run.parent), "--history", "3,43", "-n", "2"]
    out = runner.invoke(app, [*arguments, "--items", str(items)])
    assert out.exit_code == 0, out.output
    best, _ = EASE.load(run).recommend_history([3, 43], n=2)
    for item in best:
        assert f"Film {(item - 3) // 10}" in out.stdout
    only = runner.invoke(app, [*arguments, "--only", "63", "--json"])
    assert [e["item"] for e in json.loads(only.stdout)[0]["items"]] == [63]


def test_questions_without_an_answer(run: Path, tmp_path: Path) -> None:
    for arguments, kind in (
        (["recommend", str(run)], ConfigError),
        (["recommend", str(run), "--user", "u01", "--history", "3"], ConfigError),
        (["recommend", str(tmp_path), "--user", "u01"], DataError),
        (["recommend", str(run), "--user", "nobody"], UnknownIdError),
        (["recommend", str(run), "--history", "4,5"], UnknownIdError),
        (["tune", "eas", "x.csv"], UnknownNameError),
    ):
        assert isinstance(runner.invoke(app, arguments).exception, kind), arguments


def test_tune_prints_the_best_settings(log: Path, tmp_path: Path) -> None:
    arguments = ["tune", "rp3beta", str(log), "--core", "2", "--trials", "3"]
    arguments += ["--set", "normalize=true", "--storage", str(tmp_path / "study.jsonl")]
    out = runner.invoke(app, [*arguments, "--json"])
    assert out.exit_code == 0, out.output
    result = json.loads(out.stdout)
    assert len(result["trials"]) == 3
    assert result["best_config"]["normalize"] is True
    table = runner.invoke(app, arguments)
    assert table.exit_code == 0, table.output
    assert "best of 3 trials" in table.stdout
    assert "None" not in table.stdout.partition("best:")[2]


def test_an_option_of_the_study_is_no_setting(log: Path) -> None:
    arguments = ["tune", "ease", str(log), "--core", "2", "--set", "inner_validation=true"]
    error = runner.invoke(app, arguments).exception
    assert isinstance(error, ConfigError)
    assert str(error) == "inner_validation is no setting of ease: use --inner-validation for it"


def test_inner_validation_is_another_study_and_says_what_it_evaluated_on(log: Path) -> None:
    arguments = ["tune", "ease", str(log), "--core", "2", "--trials", "2", "--set", "l2=3.5"]
    studies = []
    inner = "on the inner validation split"
    for more, part in (([], "on validation"), (["--inner-validation"], inner)):
        assert part in " ".join(runner.invoke(app, [*arguments, *more]).stdout.split())
        studies.append(json.loads(runner.invoke(app, [*arguments, *more, "--json"]).stdout))
    assert studies[0]["study"] != studies[1]["study"]
    assert studies[1]["best_config"]["l2"] == 3.5
