"""The programs in examples/ run from top to bottom, without network; notebooks keep outputs."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from leporid import synthesize
from leporid.data import fetch, write_log
from leporid.errors import DataError

FOLDER = Path(__file__).parents[1] / "examples"
SLOW = ("which-initialisation", "my-own-torch-model", "my-log-in-ten-minutes")
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_the_four_notebooks_are_there() -> None:
    names = ["from-log-to-service", "my-log-in-ten-minutes", "my-own-torch-model"]
    names.append("which-initialisation")
    assert [path.stem for path in NOTEBOOKS] == names


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_its_outputs(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    # `python docs/make_notebooks.py` runs them in order.
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = json.dumps([cell["outputs"] for cell in cells])
    assert outputs.count("text/html") >= 1
    assert "ipywidgets" not in outputs
    assert not re.search(r"\d\.\d{6}", outputs)  # nobody reads so many digits


def test_the_program_compares_both_initialisations_on_a_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("LEPORID_CACHE", str(tmp_path))
    write_log(synthesize(150, 90, 4000, seed=5), tmp_path / "ratings.csv")
    main = runpy.run_path(str(FOLDER / "two_tower.py"))["main"]
    main(str(tmp_path / "ratings.csv"), steps=20)
    said = capsys.readouterr().out.splitlines()
    assert said[0].split() == ["step", "random", "LEPORID"]
    assert len(said) == 23
    assert said[-1].startswith("on test: ")


@pytest.mark.parametrize(
    "path",
    [pytest.param(p, marks=[pytest.mark.slow] * (p.stem in SLOW), id=p.stem) for p in NOTEBOOKS],
)
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    run_notebook(path, tmp_path, sys.executable, dict(os.environ))


def run_notebook(path: Path, folder: Path, python: str | Path, variables: dict[str, str]) -> None:
    """The code cells from top to bottom, as `python` runs them."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    code = "\n\n".join("".join(cell["source"]) for cell in cells)
    cache = {"LEPORID_CACHE": str(folder / "cache")}
    if "ml-100k" in code:
        try:
            fetch("ml-100k")
        except DataError as error:
            pytest.skip(f"MovieLens-100K cannot be fetched: {error}")
        cache = {}
    done = subprocess.run(
        [python, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**variables, **cache, "TMPDIR": str(folder)},
    )
    assert done.returncode == 0, done.stderr
