"""`leporid evaluate` from the outside."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import leporid
from leporid.cli.app import app
from leporid.errors import ConfigError, DataError, UnknownIdError, UnknownNameError
from leporid.evaluation import Recommendations


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Twelve users with 5 to 16 of 20 items each, in time order."""
    rng = np.random.default_rng(0)
    lines = ["user,item,time"]
    for u in range(12):
        items = rng.permutation(20)[: 5 + u]
        lines += [f"u{u:02d},i{i:02d},{t}" for t, i in enumerate(items)]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def recommendations(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    lines = ["user,item,score"]
    for u in range(12):
        lines += [f"u{u:02d},i{i:02d},{10 - r}" for r, i in enumerate(rng.permutation(20)[:10])]
    path = tmp_path / "recs.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def run(*arguments: Any) -> str:
    result = CliRunner().invoke(app, ["evaluate", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_recommendations_as_json(log: Path, recommendations: Path) -> None:
    output = run("--recommendations", recommendations, "--data", log, "--json", "--at", "2,5")
    report = json.loads(output)
    split = leporid.temporal_split(leporid.load(log))
    table = leporid.evaluate(Recommendations.read(recommendations), split, at=(2, 5))
    assert report["metrics"] == table.mean()
    assert report["strata"]["tail-users"] == table.mean(stratum="tail-users")
    assert report["intervals"]["F1@5"] == list(table.confidence("F1@5")[1:])
    assert (report["users"], report["skipped"]) == (12, 0)
    assert report["warnings"] == []


def test_table_and_export(log: Path, recommendations: Path, tmp_path: Path) -> None:
    export = tmp_path / "users.csv"
    arguments = ["--recommendations", recommendations, "--data", log, "--metrics", "HR, F1"]
    output = run(*arguments, "--export", export, "--protocol", "leave-last-out", "--core", 2)
    assert "HR@10" in output
    assert "NDCG@10" not in output
    assert "tail-users" in output
    assert (
        "12 users evaluated, 0 of them cold (without training interactions); 0 left out" in output
    )
    assert "cold-users" not in output
    assert export.read_text().startswith('"user","train_interactions","test_items","HR@1"')


def test_skipped_users_and_warnings_are_shown(log: Path, tmp_path: Path) -> None:
    with log.open("a") as file:
        file.write("lonely,i01,0\n")
    recs = tmp_path / "few.csv"
    recs.write_text("user,item,score\nu00,i01,1\nu00,zzz,0\n")
    arguments = ["--recommendations", recs, "--data", log, "--protocol", "leave-last-out"]
    report = json.loads(run(*arguments, "--json"))
    assert report["skipped"] == 1
    assert any("1 recommended items" in note for note in report["warnings"])
    assert any("11 users with items" in note for note in report["warnings"])


def test_cold_users_are_a_number_and_a_column(log: Path, tmp_path: Path) -> None:
    with log.open("a") as file:
        file.writelines(f"late,i{item:02d},{90 + item}\n" for item in range(3))
    model = tmp_path / "model"
    split = leporid.global_time_split(leporid.load(log))
    leporid.models.get("toppop")().fit(split).save(model)
    arguments = [model, "--data", log, "--protocol", "global-time"]
    report = json.loads(run(*arguments, "--json"))
    expected = leporid.evaluate(leporid.Recommender.load(model), split)
    assert report["cold"] == expected.cold > 0
    assert report["strata"]["cold-users"] == expected.mean(stratum="cold-users")
    assert "cold-users" in run(*arguments)


def test_saved_model(log: Path, tmp_path: Path) -> None:
    pytest.importorskip("leporid.models.closed_form.toppop")
    split = leporid.temporal_split(leporid.load(log))
    model = leporid.models.get("toppop")().fit(split)
    expected = leporid.evaluate(model, split).mean()
    model.save(tmp_path / "run" / "model")
    for place in (tmp_path / "run", tmp_path / "run" / "model"):
        assert json.loads(run(place, "--data", log, "--json"))["metrics"] == expected
    other = tmp_path / "other.csv"
    other.write_text(log.read_text().replace("u00,", "u99,"))
    with pytest.raises(DataError, match="fitted on other users"):
        run(tmp_path / "run", "--data", other)


@pytest.mark.parametrize(
    ("extra", "error", "match"),
    [
        (["--at", "1,ten"], ConfigError, "--at"),
        (["--at", "0"], ConfigError, "at least 1"),
        (["--protocol", "temporl"], UnknownNameError, "'temporal'"),
        (["--part", "tst"], UnknownNameError, "'test'"),
        (["--metrics", "hr"], UnknownNameError, "'HR'"),
        (["--stratum", "tail-user"], UnknownNameError, "'tail-users'"),
        (["--columns", "user,item"], ConfigError, "three names"),
        (["--export", "x.xlsx"], ConfigError, "x.xlsx"),
        (["somewhere"], ConfigError, "either"),
        (["--core", "14"], DataError, "14-core"),
    ],
)
def test_mistakes(
    log: Path, recommendations: Path, extra: list[str], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        run("--recommendations", recommendations, "--data", log, *extra)


def test_unknown_user_and_missing_model(log: Path, recommendations: Path, tmp_path: Path) -> None:
    with recommendations.open("a") as file:
        file.write("ghost,i01,1\n")
    with pytest.raises(UnknownIdError, match="'ghost'"):
        run("--recommendations", recommendations, "--data", log)
    with pytest.raises(DataError, match="holds no trained model"):
        run(tmp_path, "--data", log)
    with pytest.raises(ConfigError, match="either"):
        run("--data", log)


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom leporid.cli.app import app\n"
        "try:\n    app(['evaluate', '--help'])\nexcept SystemExit:\n    pass\n"
        "assert not {'numba', 'torch', 'pyarrow', 'scipy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_repeats_are_evaluated_where_known_items_may_come_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    lines = [f"u{u},i{rng.integers(6)},{t},{1 + t % 3}" for u in range(9) for t in range(20)]
    (tmp_path / "log.csv").write_text("\n".join(["user,item,time,plays", *lines, ""]))
    keep = ["--duplicates", "all", "--weight", "plays"]
    split = leporid.temporal_split(
        leporid.load(tmp_path / "log.csv", duplicates="all", weight="plays")
    )
    model = leporid.train("itemknn", split, progress=False)
    model.save(tmp_path / "model")
    arguments = [tmp_path / "model", "--data", tmp_path / "log.csv", *keep, "--metrics", "HR"]
    pairs = set(zip(split.test.user.tolist(), split.test.item.tolist(), strict=True))
    have = split.train_valid.csr().toarray() > 0
    known = sum(bool(have[pair]) for pair in pairs)
    assert 0 < known < len(pairs)
    assert f"{known} test items are not evaluated" in run(*arguments)
    report = json.loads(run(*arguments, "--include-seen", "--json"))
    assert (report["users"], report["repeated"]) == (9, 0)
    table = leporid.evaluate(model, split, include_seen=True, metrics=["HR"])
    assert report["metrics"] == table.mean()


def test_each_rule_is_compared_with_the_lists_without(log: Path, tmp_path: Path) -> None:
    split = leporid.temporal_split(leporid.load(log))
    model = leporid.train("itemknn", split)
    model.save(tmp_path / "model")
    items, rules = tmp_path / "items.csv", tmp_path / "rules.json"
    items.write_text("item_id,kind\n" + "".join(f"i{i:02d},{'ab'[i % 2]}\n" for i in range(20)))
    rules.write_text('{"max_per": {"kind": 2}, "diversity": 0.5}')
    asked = (tmp_path / "model", "--data", log, "--at", "2,5", "--rules", rules, "--items", items)
    costs = json.loads(run(*asked, "--json"))["rules"]
    assert {cost["name_a"] for cost in costs} == {"max_per", "diversity", "all"}
    bound = leporid.Rules.read(rules).bind(model.item_columns(items))
    both = leporid.evaluate(model, split, at=(2, 5), rules=bound).mean()
    plain = leporid.evaluate(model, split, at=(2, 5)).mean()
    [found] = [c for c in costs if c["name_a"] == "all" and c["metric"] == "NDCG@5"]
    assert found["mean_a"] == pytest.approx(both["NDCG@5"])
    assert found["difference"] == pytest.approx(both["NDCG@5"] - plain["NDCG@5"])
    shown = run(*asked, "--metrics", "NDCG")
    assert "lists with the rules and without" in " ".join(shown.split())
    recs = tmp_path / "recs.csv"
    recs.write_text("user,item\nu00,i00\n")
    with pytest.raises(ConfigError, match="as given"):
        run("--recommendations", recs, "--data", log, "--rules", rules)
