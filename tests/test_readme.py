"""The README's lines, executed literally and in order in a clean folder, on a small log."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import leporid
from leporid.data import write_log
from tests.test_docs import write_repeats

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(python|)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = [(language or "shell", text) for language, text in BLOCK.findall(README)]
SHORT = """
import leporid.models.neural.trainer as loop

spread = loop.limit_epochs

def short(config, sampler):
    config = spread(config, sampler)
    return config.replace(steps=min(config.steps, 12), eval_every=min(config.eval_every, 6))

loop.limit_epochs = short
"""
"""Read by every Python that a line starts: training stops after a dozen steps, the rest is real."""

MODULE = """
import torch
my_module = torch.nn.ModuleDict(
    {"user_emb": torch.nn.Embedding(150, 64), "item_emb": torch.nn.Embedding(90, 64)}
)
"""


SMALLER = {
    "runs/dlr2": "run",
    "log.csv --include-seen -o run": "log.csv --include-seen -o repeats",
    "evaluate run --data log.csv": "evaluate repeats --data log.csv",
    "--core 20": "",
    "[--json]": "--json",
    "47143 --items 6535 --interactions 6143751": "90 --items 60 --interactions 1800",
    "leporid data fetch ml-100k": "",
}
"""What a page says about a large log, as it is said about a small one without network."""


def test_no_line_embeds_a_log_that_has_not_been_split() -> None:
    for line in re.findall(r"^leporid embed (\S+)", README, re.MULTILINE):
        assert re.search(rf"^leporid data split .* -o {line}\b", README, re.MULTILINE), line


def environment(folder: Path, python: str | Path = sys.executable) -> dict[str, str]:
    """For the lines of a page: commands beside `python`, short trainings, a cache of their own."""
    hook = folder / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(SHORT, encoding="utf-8")
    path = f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"
    # Another environment has a package of its own.
    own = os.environ.get("PYTHONPATH") if python == sys.executable else None
    modules = os.pathsep.join(filter(None, [str(hook), own, str(ROOT)]))
    cache = str(folder / "cache")
    return {**os.environ, "PATH": path, "PYTHONPATH": modules, "LEPORID_CACHE": cache}


def run(command: list[str], name: str, folder: Path, variables: dict[str, str]) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=folder, env=variables
    )
    assert done.returncode == 0, f"{name}\n{done.stdout}\n{done.stderr}"


def run_lines(text: str, folder: Path, variables: dict[str, str]) -> None:
    """Every line of a block of commands, in order; a service is asked whether it serves."""
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("leporid serve "):
            serve(line, folder, variables)
        elif line.startswith(("leporid ", "$ leporid ", "printf ", "python -m ")):
            short = line.removeprefix("$ ").replace("--budget 10m", "--budget 10s")
            short = short.replace("--trials 20", "--trials 2")
            run(["bash", "-c", short], line, folder, variables)


def follow(folder: Path, python: str | Path = sys.executable) -> None:
    """Every block of the README, in order, on a small log in a folder of its own."""
    write_log(leporid.synthesize(150, 90, 4000, seed=5), folder / "ratings.csv")
    variables = environment(folder, python)
    for language, text in BLOCKS:
        if language == "python":
            # The module of the second block is the reader's.
            code = f"{MODULE}{text}" if "my_module" in text else text
            run([str(python), "-c", code], text, folder, variables)
        else:
            run_lines(text, folder, variables)
    assert (folder / "recs.parquet").stat().st_size > 0


@pytest.mark.slow
def test_the_lines_run_in_order_in_a_clean_folder(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    follow(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", ["index.md", "data.md", "own-model.md", "choose.md", "shop.md", "train.md"]
)
def test_the_commands_of_a_page_run_in_order(page: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("optuna")
    log = leporid.synthesize(150, 90, 4000, seed=5)
    write_log(log, tmp_path / "ratings.csv")
    write_repeats(log, tmp_path / "log.csv")
    recs = leporid.train("toppop", leporid.temporal_split(leporid.load(tmp_path / "ratings.csv")))
    leporid.ranking.write_recommendations(recs, tmp_path / "recs.csv", n=10)
    variables = environment(tmp_path)
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if language in ("", "console"):
            for before, after in SMALLER.items():
                block = block.replace(before, after)
            run_lines(block, tmp_path, variables)


def serve(line: str, folder: Path, variables: dict[str, str]) -> None:
    """The service of that line says that it serves, and stops when told to."""
    words = [*shlex.split(line, comments=True), "--port", "0"]
    words[0] = shutil.which(words[0], path=variables["PATH"]) or words[0]
    process = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=variables,
    )
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert "serving" in first or "http://" in first, first + process.communicate(timeout=60)[1]
    finally:
        process.terminate()
        process.wait(timeout=60)
