"""RecBole 1.2.1 in a virtual environment of its own, since it needs an older numpy.

`recbole_python()` builds the environment on first use (`.venv-recbole` in the repository root,
pins in `recbole-requirements.txt`). Scripts run there exchange arrays as .npy files and answer
with one line of JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ENVIRONMENT = HERE.parents[1] / ".venv-recbole"
REQUIREMENTS = HERE / "recbole-requirements.txt"


def installed() -> bool:
    """Whether the environment is there and was built from the present pins."""
    stamp = ENVIRONMENT / "requirements.txt"
    return stamp.is_file() and stamp.read_bytes() == REQUIREMENTS.read_bytes()


def recbole_python() -> Path:
    """The interpreter of RecBole's environment, built first where it is missing."""
    python = ENVIRONMENT / "bin" / "python"
    if not installed():
        print(f"building {ENVIRONMENT.name} for RecBole (a few minutes)", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True)
        quiet = ["--quiet", "--disable-pip-version-check"]
        install = [str(python), "-m", "pip", "install", *quiet, "-r", str(REQUIREMENTS)]
        subprocess.run(install, check=True)
        (ENVIRONMENT / "requirements.txt").write_bytes(REQUIREMENTS.read_bytes())
    return python


def run_recbole(script: Path, *arguments: str, threads: int) -> Any:
    """Run a script in the environment with so many threads; its last line of output is JSON."""
    limits = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    # -P: this module must not hide the package of the same name from a script beside it.
    done = subprocess.run(
        [str(recbole_python()), "-P", str(script), *arguments],
        env={**os.environ, **limits},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])
