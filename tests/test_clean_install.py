"""A stranger's machine: clean environments in which the checkout is installed as README says.

The core alone embeds without torch. With the extras the README's lines and the notebooks run
literally, trainings of the README shortened. Without network these tests are skipped.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_examples import NOTEBOOKS, run_notebook
from tests.test_readme import follow

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
USE = """
import importlib.util
import leporid
import numpy as np
from scipy import sparse

assert importlib.util.find_spec("torch") is None
rows = sparse.csr_array((np.random.default_rng(0).random((60, 40)) < 0.2).astype("float32"))
vectors = leporid.Leporid(dim=8, k=20).fit(rows).embedding_
assert vectors.shape == (60, 8) and np.isfinite(vectors).all()
split = leporid.temporal_split(leporid.synthesize(60, 40, 900, seed=1))
table = leporid.evaluate(leporid.train("itemknn", split), split, at=(10,))
assert 0 < table.mean()["HR@10"] <= 1
try:
    leporid.train("dlr2", split)
except leporid.errors.MissingExtraError as error:
    print(error)
"""


def made(folder: Path, extras: str = "") -> Path:
    """The Python of a new environment that holds the checkout, and nothing it does not ask for."""
    subprocess.run([sys.executable, "-m", "venv", str(folder / "env")], check=True)
    python = folder / "env" / "bin" / "python"
    pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    flags = shlex.split(os.environ.get("PIP_FLAGS", ""))  # as in the Makefile
    [first] = re.findall(r"^packaging==.*$", CONSTRAINTS.read_text(encoding="utf-8"), re.MULTILINE)
    tried = subprocess.run(
        [*pip, "download", *flags, "--no-deps", "--dest", str(folder), first],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if tried.returncode:
        pytest.skip(
            f"no package index: {(tried.stderr.strip().splitlines() or ['pip failed'])[-1]}"
        )
    install = [*pip, "install", *flags, "--constraint", str(CONSTRAINTS), f"{ROOT}{extras}"]
    subprocess.run(install, check=True)
    return python


@pytest.mark.slow
def test_the_core_works_without_torch(tmp_path: Path) -> None:
    python = made(tmp_path)
    done = subprocess.run(
        [python, "-c", USE],
        capture_output=True, text=True, check=False, cwd=tmp_path, env=variables(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    # Nobody can install it by its name alone.
    assert f"pip install 'leporid[torch] @ {ROOT.as_uri()}'" in done.stdout


def variables() -> dict[str, str]:
    """Without a way back to the package of this checkout."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with what README and the notebooks name."""
    return made(tmp_path_factory.mktemp("stranger"), "[all,notebooks]")


@pytest.mark.slow
def test_a_stranger_follows_the_readme(stranger: Path, tmp_path: Path) -> None:
    follow(tmp_path, stranger)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_stranger_runs_a_notebook(path: Path, stranger: Path, tmp_path: Path) -> None:
    run_notebook(path, tmp_path, stranger, variables())
