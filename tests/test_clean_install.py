"""The core alone: a clean environment without torch installs, imports and embeds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
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


@pytest.mark.slow
def test_the_core_works_without_torch(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "env")], check=True)
    python = tmp_path / "env" / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, "--constraint", ROOT / "constraints.txt", ROOT], check=True)
    done = subprocess.run(
        [python, "-c", USE], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "pip install 'leporid[torch]'" in done.stdout
