"""`import leporid` and `leporid --help` load no heavy package: counted, not timed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = {
    "numpy", "scipy", "numba", "pyarrow", "torch", "pandas", "polars", "optuna", "matplotlib",
    "fastapi", "uvicorn", "dask", "distributed", "sklearn", "safetensors", "threadpoolctl",
}  # fmt: skip


def loaded_after(code: str) -> set[str]:
    """Top-level names of the modules a fresh interpreter holds after running `code`."""
    tail = "\nimport json, sys\nprint('@' + json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code + tail], capture_output=True, text=True, check=True
    )
    names = json.loads(done.stdout.rsplit("@", 1)[1])
    return {name.partition(".")[0] for name in names}


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
