"""`import leporid` and `leporid --help` load no heavy package: counted, not timed."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys

import pytest

from leporid.graph import uses_gpu
from leporid.graph.knn import may_have_gpu

HEAVY = {
    "numpy", "scipy", "numba", "pyarrow", "torch", "pandas", "polars", "optuna", "matplotlib",
    "fastapi", "uvicorn", "dask", "distributed", "sklearn", "safetensors", "threadpoolctl",
}  # fmt: skip


def loaded_after(code: str) -> set[str]:
    """Packages, and slow parts of scipy, that a fresh interpreter holds after running `code`."""
    tail = "\nimport json, sys\nprint('@' + json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code + tail], capture_output=True, text=True, check=True
    )
    names = json.loads(done.stdout.rsplit("@", 1)[1])
    slow = {"scipy.stats", "scipy.sparse.linalg"}
    return {name.partition(".")[0] for name in names} | slow.intersection(names)


def test_the_import_is_light() -> None:
    code = "import leporid; dir(leporid); leporid.__version__"
    loaded = loaded_after(code)
    assert not loaded & HEAVY
    assert "typer" not in loaded


def test_the_catalogues_are_light() -> None:
    code = "import leporid; leporid.models.available(); leporid.initializers.available()"
    assert not loaded_after(code) & {"torch", "numba", "pandas", "optuna", "matplotlib"}


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"], ["--version"]])
def test_help_is_light(arguments: list[str]) -> None:
    code = (
        f"import sys; sys.argv = {['leporid', *arguments]!r}\n"
        "from leporid.cli import main\n"
        "try:\n    main()\nexcept SystemExit as done:\n    assert not done.code"
    )
    assert not loaded_after(code) & HEAVY


def test_the_first_use_loads_what_it_needs() -> None:
    loaded = loaded_after("import leporid; leporid.Leporid")
    assert "numpy" in loaded
    assert "torch" not in loaded


def test_leporid_does_not_load_solvers_it_does_not_use() -> None:
    code = "from leporid import initializers; initializers.get('leporid')"
    assert "scipy.sparse.linalg" not in loaded_after(code)


def test_fitting_vectors_without_a_driver_does_not_load_torch() -> None:
    """torch takes 2 s to say that there is no GPU."""
    code = (
        "import sys, types\n"
        "from leporid import Leporid\n"
        "from leporid.graph.knn import uses_gpu\n"
        "from scipy import sparse\n"
        "def no_driver(name): raise OSError(name)\n"
        "here = sys.modules['leporid.graph.knn']\n"
        "here.ctypes = types.SimpleNamespace(CDLL=no_driver)\n"
        "assert not uses_gpu('auto', 10**6)\n"
        "Leporid(dim=4, k=5, device='auto').fit(sparse.random_array((60, 30), density=0.3, rng=0))"
    )
    assert not loaded_after(code) & {"torch", "scipy.stats"}


def test_torch_is_asked_where_there_is_a_driver_or_torch_already(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert uses_gpu("auto", 10**6)
    assert not uses_gpu("auto", 10)
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setattr(ctypes, "CDLL", lambda name: name)
    assert may_have_gpu()


def test_a_classical_model_is_trained_and_judged_without_torch() -> None:
    code = (
        "import leporid, numpy as np\n"
        "from leporid.runs import against_baselines, execute\n"
        "rng = np.random.default_rng(0)\n"
        "log = {'user': rng.integers(0, 40, 900), 'item': rng.integers(0, 30, 900),\n"
        "       'time': np.arange(900)}\n"
        "split = leporid.temporal_split(leporid.load(log))\n"
        "leporid.evaluate(leporid.train('itemknn', split), split)"
    )
    assert not loaded_after(code) & {"torch", "scipy.stats", "optuna", "matplotlib"}
