"""The demonstration, on a small log and with few steps: every stage really runs."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("torch")

from examples.demo import stages
from examples.demo.__main__ import app as demonstration
from examples.demo.__main__ import program_name
from examples.demo.page import headline, sentences
from examples.demo.stages import DemoResult
from leporid import Recommender, synthesize
from leporid.cli.app import app
from leporid.data import write_log
from leporid.errors import DataError
from leporid.evaluation import Comparison
from leporid.foundation import NullProgress
from leporid.runs import RunRecord

runner = CliRunner()


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("demo") / "films.csv"
    write_log(synthesize(90, 70, 2600, seed=4), path)
    return path


@pytest.fixture(scope="module")
def shown(log: Path) -> str:
    arguments = ["--data", log, "--core", 5, "--steps", 4, "-o", log.parent / "out"]
    env = {"LEPORID_PROGRESS": "on"}
    result = runner.invoke(
        demonstration, list(map(str, arguments)), catch_exceptions=False, env=env
    )
    assert result.exit_code == 0
    return result.output


def test_it_tells_five_parts_and_ends_with_the_headline(shown: str) -> None:
    words = " ".join(shown.split())  # a narrow terminal wraps titles
    parts = ["1. Embeddings in seconds", "2. In your own model", "3. The default model",
             "4. Ten recommendations for user", "5. The paper's own experiment"]  # fmt: skip
    positions = [words.index(part) for part in parts]
    assert positions == sorted(positions)
    assert re.search(r"\d+% of users have a hit in their top 10", words)
    for name in ("TopPop", "ItemKNN", "EASE"):
        assert re.search(
            rf"DLR2 (beats|loses to|ties with|against) {name} in NDCG@10(:| is inconclusive:) ",
            words,
        )


def test_the_page_begins_in_words_and_shows_both_pictures(shown: str, log: Path) -> None:
    page = (log.parent / "out" / "report.html").read_text(encoding="utf-8")
    assert page.count("role='img'") == 2
    assert not re.search(r"<h2[^>]*>\s*</h2>", page)
    assert page.index("of users have a hit") < page.index("<h2")
    assert "src=" not in page  # nothing from elsewhere


def test_it_names_every_stage(shown: str) -> None:
    stages = ["part 1 of 5", "part 2 of 5", "part 3 of 5", "  EASE  ", "part 5 of 5", "report"]
    positions = [shown.index(stage) for stage in stages]
    assert positions == sorted(positions)


def test_the_runs_can_be_compared_and_used(shown: str, log: Path) -> None:
    out = log.parent / "out"
    runs = [str(out / name) for name in ("dlr2", "paper-random", "paper-leporid")]
    told = json.loads(runner.invoke(app, ["compare", *runs, "--json"]).stdout)
    assert [row["init"] for row in told["runs"]] == ["leporid", "random", "leporid"]
    records = [RunRecord.read(Path(run) / "record.json") for run in runs]
    assert told["runs"][2]["HR@10"]["mean"] == records[2].metrics["HR@10"]
    assert [record.recipe for record in records] == ["general", "paper", "paper"]
    # Both runs of the paper's experiment differ in the initial embeddings alone.
    assert records[1].config == records[2].config
    assert records[1].config["steps"] == 4
    model = Recommender.load(out / "dlr2" / "model")
    arguments = ["recommend", runs[0], "--user", str(model.users.values[0]), "--json"]
    listed = runner.invoke(app, [*arguments, "--items", str(out / "items.parquet")])
    assert json.loads(listed.stdout)[0]["items"][0]["title"].startswith("item ")


def test_the_printed_command_serves_the_default_model(shown: str) -> None:
    from leporid.serve import create_app
    from tests.serve.conftest import get

    [line] = [line.strip() for line in shown.splitlines() if " serve " in line]
    served = create_app(shlex.split(line)[-1])
    [told] = get(served, "/health").json()["runs"]
    assert told["label"].startswith("dlr2")


def result(**changes: Any) -> DemoResult:
    """A result as a run would give it."""
    rows = [{"model": "TopPop", "users with a hit": 0.531}, {"model": "DLR2"}]
    rows[1]["users with a hit"] = 0.688
    found = Comparison(
        metric="NDCG@10", name_a="LEPORID", name_b="random", mean_a=0.2, mean_b=0.1, difference=0.1,
        low=0.05, high=0.15, p_value=0.01, n_users=9, n_seeds=(3, 3),
    )  # fmt: skip
    curves = {"random": {0: 0.1, 5: 0.2, 10: 0.3, 15: 0.25}, "LEPORID": {0: 0.1, 5: 0.3}}
    values: dict[str, Any] = {
        "source": "toy", "stats": {"users": 9, "items": 8}, "core": 5, "steps": 4,
        "vector_seconds": 0.1,
        "curves": curves, "everyone": found, "tail": found, "rows": rows, "comparisons": [],
        "user": "7", "history": ["A"], "picks": [], "paper_rows": rows, "seconds": 1.0,
    }  # fmt: skip
    return DemoResult(**{**values, **changes})


def test_the_sentences_follow_from_the_numbers() -> None:
    assert headline(result()).startswith("69% of users")
    assert headline(result()).endswith("(most popular items: 53%).")
    own = sentences(result())["2. In your own model"]
    assert "it is best after 10 of 15 steps" in own
    assert "it has that after 5." in own
    slow = {"random": {0: 0.1, 5: 0.2}, "LEPORID": {0: 0.1, 5: 0.1}}
    assert "it does not reach that." in sentences(result(curves=slow))["2. In your own model"]
    hits = sentences(result())["5. The paper's own experiment"]
    assert "53% of users have a hit from random embeddings, 69% from LEPORID's" in hits


def test_without_a_network_the_data_are_synthetic_and_it_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unreachable(name: str, progress: object = None) -> None:
        raise DataError("no route to host")

    monkeypatch.setattr(stages, "fetch", unreachable)
    data, titles, source = stages._data("ml-100k", 123, NullProgress())
    assert (data.n_users, titles) == (943, {})
    assert source.startswith("SYNTHETIC data")
    assert "no route to host" in source


def test_a_failure_is_not_exit_code_zero(tmp_path: Path) -> None:
    empty = tmp_path / "empty.csv"
    empty.write_text("user,item,timestamp\n")
    done = subprocess.run(
        [sys.executable, "-m", "examples.demo", "--data", str(empty), "-o", str(tmp_path / "o")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")


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


def test_without_torch_there_is_one_sentence_before_anything_is_done(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "class Hidden:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'torch':\n"
        "            raise ModuleNotFoundError(f'no {name}', name=name)\n"
        "sys.meta_path.insert(0, Hidden())\n"
        f"sys.argv = ['demo', '-o', {str(tmp_path)!r}]\n"
        "from examples.demo.__main__ import app, run\nrun(app, 'demo')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert re.search(r"pip install .*\[torch\]", done.stderr)
