"""The notebooks in examples/ run from top to bottom, without network and without outputs kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"
SLOW = ("which-start", "from-log-to-service")
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_the_four_notebooks_are_there() -> None:
    names = ["from-log-to-service", "my-log-in-ten-minutes", "my-own-torch-model", "which-start"]
    assert [path.stem for path in NOTEBOOKS] == names


@pytest.mark.parametrize(
    "path",
    [pytest.param(p, marks=[pytest.mark.slow] * (p.stem in SLOW), id=p.stem) for p in NOTEBOOKS],
)
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] or cell["execution_count"] for cell in cells)
    code = "\n\n".join("".join(cell["source"]) for cell in cells)
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "LEPORID_CACHE": str(tmp_path / "cache"), "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
