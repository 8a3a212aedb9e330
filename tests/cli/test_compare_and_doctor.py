"""`leporid compare` against scipy and the evaluation room, and `leporid doctor`."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from scipy.stats import ttest_rel
from typer.testing import CliRunner

import leporid
from leporid.cli.app import app
from leporid.data import write_log
from leporid.errors import ConfigError, DataError, UnknownNameError, install_command
from leporid.evaluation import compare_all
from leporid.runs import Results, RunRecord, paired_tests, read_run

runner = CliRunner()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models on one log, and one on a smaller core of it."""
    root = tmp_path_factory.mktemp("runs")
    write_log(leporid.synthesize(80, 60, 2200, seed=9), root / "log.csv")
    for name, model, core in (("a", "itemknn", 5), ("b", "toppop", 5), ("c", "toppop", 20)):
        arguments = ["train", root / "log.csv", "--model", model, "--core", core, "-o", root / name]
        result = runner.invoke(app, list(map(str, arguments)), catch_exceptions=False)
        assert result.exit_code == 0, result.output
    return root


def test_it_agrees_with_the_evaluation_room(runs: Path) -> None:
    result = runner.invoke(app, ["compare", str(runs / "a"), str(runs / "b"), "--json"])
    told = json.loads(result.stdout)
    split = leporid.temporal_split(leporid.load(runs / "log.csv").core(5))
    tables = {
        name: leporid.evaluate(leporid.train(model, split), split, at=(1, 5, 10))
        for name, model in (("a", "itemknn"), ("b", "toppop"))
    }
    assert [row["seen"] for row in told["runs"]] == ["train and validation", "train only"]
    expected = compare_all(
        {str(runs / name): table for name, table in tables.items()}, ["NDCG@10", "HR@10"]
    )
    for test, wanted in zip(told["tests"], expected, strict=True):
        right = wanted.to_dict()
        assert test.pop("n_seeds") == right.pop("n_seeds")
        assert test == pytest.approx(right)
    for row, table in zip(told["runs"], tables.values(), strict=True):
        interval = table.confidence("NDCG@10")
        assert row["NDCG@10"]["mean"] == pytest.approx(interval.value)
        assert [row["NDCG@10"]["low"], row["NDCG@10"]["high"]] == pytest.approx(interval[1:])
        assert row["NDCG@10"]["tail"] == table.mean(stratum="tail-users")["NDCG@10"]


def test_values_per_user_are_those_scipy_is_given(runs: Path) -> None:
    first, second = read_run(runs / "a"), read_run(runs / "b")
    assert first.outcomes is not None
    assert second.outcomes is not None
    values = [run.outcomes.per_user("MRR@5") for run in (first, second) if run.outcomes]
    (found,) = paired_tests([first, second], ["MRR@5", "Coverage@5"])
    assert found.p_value == pytest.approx(float(ttest_rel(*values).pvalue))
    assert found.mean_a == pytest.approx(first.record.metrics["MRR@5"])


def test_one_run_can_be_the_reference(runs: Path) -> None:
    shown = runner.invoke(
        app, ["compare", str(runs / "a"), str(runs / "b"), "--against", f"{runs / 'a'}/", "--json"]
    )
    tests = json.loads(shown.stdout)["tests"]
    assert {(Path(t["name_a"]).name, Path(t["name_b"]).name) for t in tests} == {("b", "a")}
    assert tests[0]["difference"] < 0 < -tests[0]["low"]


def test_without_json_there_are_tables(runs: Path) -> None:
    shown = runner.invoke(app, ["compare", "a", "b"], env={"COLUMNS": "160"})
    assert isinstance(shown.exception, DataError)
    folders = [str(runs / "a"), str(runs / "b")]
    shown = runner.invoke(app, ["compare", *folders], env={"COLUMNS": "300"})
    assert "paired by user" in shown.output
    assert "history" in shown.output
    assert "95% intervals" in shown.output


def test_record_files_without_outcomes_are_shown_and_not_tested(runs: Path) -> None:
    record = RunRecord.read(runs / "a" / "record.json")
    alone = Results(runs / "results").add(record)
    result = runner.invoke(app, ["compare", str(alone), str(runs / "b"), "--json"])
    told = json.loads(result.stdout)
    assert told["tests"] == []
    assert told["runs"][0]["HR@10"]["low"] == record.extra["confidence_95"]["HR@10"][0]


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (["a"], ConfigError, "at least two"),
        (["a", "a"], ConfigError, "given twice"),
        (["a", "c"], DataError, "same users and items"),
        (["a", "log.csv"], DataError, "not valid JSON"),
        (["a", "b", "--metrics", "HR@11"], UnknownNameError, "did you mean 'HR@1"),
        (["a", "b", "--against", "c"], UnknownNameError, "unknown run"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    runs: Path, arguments: list[str], error: type[Exception], says: str
) -> None:
    full = [str(runs / a) if (runs / a).exists() else a for a in arguments]
    result = runner.invoke(app, ["compare", *full])
    assert isinstance(result.exception, error)
    assert says in str(result.exception)


def test_a_log_too_small_for_a_tail_can_still_be_trained(tmp_path: Path) -> None:
    log = tmp_path / "tiny.csv"
    rows = [f"{user},{item},{item}" for user in "ab" for item in range(10)]
    log.write_text("user,item,timestamp\n" + "\n".join([*rows, "c,1,1", "c,2,2"]) + "\n")
    arguments = ["train", str(log), "--model", "toppop", "-o", str(tmp_path / "run")]
    result = runner.invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output


def test_doctor_finds_a_healthy_installation() -> None:
    result = runner.invoke(app, ["doctor", "--json"], catch_exceptions=False)
    told = json.loads(result.stdout)
    assert result.exit_code == 0
    assert [row["ok"] for row in told["self_tests"]] == [True, True, True]
    assert told["versions"]["leporid"] == leporid.__version__
    assert {row["extra"] for row in told["extras"]} == {
        "torch", "tune", "plots", "serve", "distributed",
    }  # fmt: skip


def test_doctor_advises_extras_that_exist() -> None:
    from leporid.diagnostics import doctor

    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    extras = tomllib.loads(text)["project"]["optional-dependencies"]
    for extra, modules in doctor.EXTRAS.items():
        brought = " ".join(extras[extra]).replace("-", "_")
        assert all(module in brought for module in modules), extra


def test_doctor_notices_a_broken_kernel_and_a_missing_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from leporid.diagnostics import doctor

    monkeypatch.setattr(doctor, "_graph_error", lambda: 0.5)
    monkeypatch.setitem(doctor.EXTRAS, "tune", ("no_such_module",))
    result = runner.invoke(app, ["doctor"], env={"COLUMNS": "160"})
    assert result.exit_code == 1
    assert "FAILED" in result.output
    assert "missing no_such_module: pip install " in result.output


@pytest.mark.parametrize(
    ("note", "command"),
    [
        (None, "pip install 'leporid[tune]'"),
        ({"url": "file:///a%20b", "dir_info": {}}, "pip install 'leporid[tune] @ file:///a%20b'"),
        (
            {"url": "file:///a%20b", "dir_info": {"editable": True}},
            "pip install -e '/a b[tune]'",
        ),
        (
            {"url": "https://x.example/l.git", "vcs_info": {"vcs": "git"}},
            "pip install 'leporid[tune] @ git+https://x.example/l.git'",
        ),
    ],
)
def test_an_extra_is_installed_from_where_the_package_came_from(
    note: dict[str, object] | None, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Installed:
        def read_text(self, name: str) -> str | None:
            return json.dumps(note) if note and name == "direct_url.json" else None

    monkeypatch.setattr("importlib.metadata.distribution", lambda _: Installed())
    assert install_command("tune") == command
