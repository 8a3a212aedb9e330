"""The demonstration, on a small log and with few steps: every stage really runs."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("torch")
pytest.importorskip("matplotlib")

from leporid import Recommender, load, synthesize, temporal_split
from leporid.cli.app import app
from leporid.cli.demo import program_name
from leporid.data import write_log
from leporid.demo import DemoSettings, run_demo
from leporid.errors import ConfigError, DataError
from leporid.experiments import RunRecord
from leporid.progress import NullProgress

runner = CliRunner()


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("demo") / "films.csv"
    write_log(synthesize(90, 70, 2600, seed=4), path)
    return path


@pytest.fixture(scope="module")
def shown(log: Path) -> str:
    arguments = ["demo", "--data", log, "--core", 5, "--steps", 4, "-o", log.parent / "out"]
    env = {"LEPORID_PROGRESS": "on"}
    result = runner.invoke(app, list(map(str, arguments)), catch_exceptions=False, env=env)
    assert result.exit_code == 0
    return result.output


def test_it_prints_the_table_the_list_and_the_report(shown: str, log: Path) -> None:
    words = " ".join(shown.split())  # a narrow terminal wraps titles
    for name in ("TopPop", "ItemKNN", "random", "LEPORID", "recommends to user"):
        assert name in words
    assert "DLR2 took 4 steps of" in shown
    page = (log.parent / "out" / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 1
    assert not re.search(r"<h2[^>]*>\s*</h2>", page)
    assert page.index("With LEPORID&#39;s initial embeddings") < page.index("<h2")
    assert "src=" not in page  # nothing from elsewhere


def test_it_names_every_stage(shown: str) -> None:
    stages = ["neighbours", "measuring", "fitting TopPop", "fitting ItemKNN",
              "training DLR2, random init", "training DLR2, LEPORID init", "report"]  # fmt: skip
    positions = [shown.index(stage) for stage in stages]
    assert positions == sorted(positions)


def test_the_runs_can_be_compared_and_used(shown: str, log: Path) -> None:
    out = log.parent / "out"
    runs = [str(out / name) for name in ("toppop", "random", "leporid")]
    told = json.loads(runner.invoke(app, ["compare", *runs, "--json"]).stdout)
    assert [row["init"] for row in told["runs"]] == [None, "random", "leporid"]
    record = RunRecord.read(out / "leporid" / "record.json")
    assert told["runs"][2]["HR@10"]["mean"] == record.metrics["HR@10"]
    model = Recommender.load(out / "leporid" / "model")
    arguments = ["recommend", runs[2], "--user", str(model.users.values[0]), "--json"]
    listed = runner.invoke(app, [*arguments, "--items", str(out / "items.parquet")])
    assert json.loads(listed.stdout)[0]["items"][0]["title"].startswith("item ")


def test_the_printed_command_serves_both_runs_side_by_side(shown: str) -> None:
    from leporid.serve import create_app
    from tests.serve.conftest import get, post

    [line] = [line.strip() for line in shown.splitlines() if " serve " in line]
    *_, run, option, other = shlex.split(line)
    assert option == "--compare"
    served = create_app(run, compare=other)
    told = get(served, "/health").json()["runs"]
    assert [row["label"] for row in told] == [
        "dlr2, leporid initialisation",
        "dlr2, random initialisation",
    ]
    history = [row["id"] for row in get(served, "/items?n=3").json()["items"]]
    for name in ("main", "compare"):
        answer = post(served, "/recommend", {"histories": [history], "run": name, "explain": True})
        assert len(answer.json()["results"][0]["items"]) == 10


def test_both_initialisations_get_the_same_number_of_steps(shown: str, log: Path) -> None:
    out = log.parent / "out"
    configs = [RunRecord.read(out / n / "record.json").config for n in ("random", "leporid")]
    assert configs[0] == configs[1]
    assert configs[0]["steps"] == 4


def test_without_a_network_the_data_are_synthetic_and_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from leporid.demo import stages

    def unreachable(name: str, progress: object = None) -> None:
        raise DataError("no route to host")

    def smaller(users: int, items: int, interactions: int, seed: int) -> object:
        assert (users, items, interactions) == (943, 1682, 100_000)
        return synthesize(90, 70, 2600, seed=seed)

    monkeypatch.setattr(stages, "fetch", unreachable)
    monkeypatch.setattr(stages, "synthesize", smaller)
    settings = DemoSettings(steps=1, seconds=0, core=5)
    result = run_demo(tmp_path, settings, NullProgress())
    assert "SYNTHETIC" in result.source
    assert "no route to host" in result.source
    assert result.steps == 1


def test_a_slow_machine_makes_fewer_steps(log: Path) -> None:
    from leporid.demo.stages import _affordable_steps

    split = temporal_split(load(log).core(5))
    settings = DemoSettings(data=str(log), batch_size=8, steps=10**6, seconds=0.3)
    assert 1 <= _affordable_steps(split, settings, NullProgress()) < 1000
    unlimited = settings.replace(seconds=0)
    assert _affordable_steps(split, unlimited, NullProgress()) == 10**6


def test_a_failure_is_not_exit_code_zero(tmp_path: Path) -> None:
    empty = tmp_path / "empty.csv"
    empty.write_text("user,item,timestamp\n")
    done = subprocess.run(
        [sys.executable, "-m", "leporid", "demo", "--data", str(empty), "-o", str(tmp_path / "o")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    with pytest.raises(ConfigError, match="steps must be at least 1"):
        DemoSettings(steps=0)


def test_the_printed_commands_work_when_pasted(
    shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [line for line in shown.partition("next:\n")[2].splitlines() if " serve " not in line]
    assert len(lines) == 2
    for line in lines:
        done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    bin_folder = tmp_path / "env" / "bin"
    bin_folder.mkdir(parents=True)
    (bin_folder / "leporid").touch(0o755)
    monkeypatch.setattr(sys, "executable", str(bin_folder / "python"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert program_name() == f"{bin_folder / 'python'} -m leporid"
    monkeypatch.setenv("PATH", f"{bin_folder}:/usr/bin")
    assert program_name() == "leporid"


@pytest.mark.parametrize(("package", "extra"), [("torch", "torch"), ("matplotlib", "plots")])
def test_a_missing_extra_is_one_sentence_before_anything_is_done(
    package: str, extra: str, tmp_path: Path
) -> None:
    code = (
        "import sys\n"
        "class Hidden:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] == {package!r}:\n"
        "            raise ModuleNotFoundError(f'no {name}', name=name)\n"
        "sys.meta_path.insert(0, Hidden())\n"
        f"sys.argv = ['leporid', 'demo', '-o', {str(tmp_path)!r}]\n"
        "from leporid.cli import main\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert f"pip install 'leporid[{extra}]'" in done.stderr
