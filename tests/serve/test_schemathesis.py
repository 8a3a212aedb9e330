"""An outside fuzzer reads the OpenAPI document and finds no 5xx."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.serve.test_kill import server


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("schemathesis") is None,
    reason="no schemathesis: pip install it into an environment of its own, on the PATH",
)
def test_schemathesis_finds_no_server_error(run_dir: Path, tmp_path: Path) -> None:
    with server(run_dir, tmp_path / "events.db") as (_, address):
        told = subprocess.run(
            [
                "schemathesis",
                "run",
                f"{address}/openapi.json",
                "--checks=not_a_server_error",
                "--max-examples=25",
                "--header=Authorization: Bearer write",
            ],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=600,
        )
    assert told.returncode == 0, told.stdout[-3000:]
