"""The real RecBole, in an environment of its own: its files, its models, one step."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.peers.environment import python_of
from leporid.embeddings import InitialEmbeddings, standardize
from leporid.embeddings.svd import SVD
from leporid.interop import write_embeddings
from tests.initializers.helpers import planted

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).parent / "recbole_script.py"


NEEDED = ("pyarrow==17.0.0", "safetensors", "lazy_loader", "platformdirs", "numba", "llvmlite")
"""Packages of ours that RecBole's environment lacks; an older numpy is all it runs on."""


def interpreter() -> Path:
    """RecBole's interpreter with what we need there; else a skip that says why."""
    try:
        python = python_of("recbole")
        names = ", ".join(name.partition("==")[0] for name in NEEDED)
        check = [str(python), "-c", f"import {names}"]
        if subprocess.run(check, check=False, capture_output=True).returncode != 0:
            quiet = ["--quiet", "--no-deps", "--force-reinstall"]
            install = [str(python), "-m", "pip", "install", *quiet, *NEEDED]
            subprocess.run(install, check=True, capture_output=True)
    except (subprocess.CalledProcessError, OSError) as error:
        pytest.skip(f"RecBole's environment cannot be built here: {error}")
    return python


def run(model: str, folder: Path, made: InitialEmbeddings, log: str) -> dict[str, Any]:
    """Lay out RecBole's files and run the script there."""
    data, out = folder / "data", folder / "out"
    (data / "toy").mkdir(parents=True)
    out.mkdir()
    (data / "toy" / "toy.inter").write_text(log)
    write_embeddings(made, data / "toy", "recbole", name="toy")
    write_embeddings(made, folder / "vectors", "parquet")
    arguments = [model, str(data), str(folder / "vectors"), str(out)]
    done = subprocess.run(
        [str(interpreter()), "-P", str(SCRIPT), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    arrays = {path.stem: np.load(path) for path in out.glob("*.npy")}
    return {**answer, **arrays}


@pytest.mark.slow
@pytest.mark.parametrize("model", ["BPR", "NGCF"])
def test_recbole_trains_from_our_vectors(tmp_path: Path, model: str) -> None:
    train = planted(40, 25)
    made = SVD(dim=6).fit(train)
    lines = ["user_id:token\titem_id:token"]
    lines += [
        f"{train.users.external(u)}\t{train.items.external(i)}"
        for u, i in zip(train.user, train.item, strict=True)
    ]
    # RecBole numbers ids in order of appearance: reversed, nothing is where we have it.
    found = run(model, tmp_path, made, "\n".join([lines[0], *lines[:0:-1]]) + "\n")
    sides = {"users": (made.users, train.users), "items": (made.items, train.items)}
    for side, (embedding, ids) in sides.items():
        rows = ids.indices(found["ids"][side][1:])
        assert not np.array_equal(rows, np.arange(len(ids)))
        # Its own reader understands the files and the configuration lines.
        np.testing.assert_allclose(found[f"preload_{side}"][1:], embedding.vectors[rows], rtol=1e-6)
        start = found[f"start_{side}"]
        np.testing.assert_array_equal(start[1:], standardize(embedding.vectors, 0.1)[rows])
        # One step of gradient descent from exactly there.
        slope = found[f"slope_{side}"]
        assert np.abs(slope).max() > 0
        np.testing.assert_allclose(found[f"after_{side}"], start - 0.5 * slope, atol=1e-7)
    assert found["written"] == {"user_embedding": 40, "item_embedding": 25}
