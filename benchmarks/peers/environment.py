"""Peers in virtual environments of their own, since they need other versions than we do.

`python_of(peer)` builds the environment on first use: `.venv-<peer>` in the repository root, pins
in `<peer>-requirements.txt`. Scripts run there exchange arrays as .npy files and answer with one
line of JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
QUIET = ("--quiet", "--disable-pip-version-check")


def _pins(peer: str) -> Path:
    return HERE / f"{peer}-requirements.txt"


def _folder(peer: str) -> Path:
    return HERE.parents[1] / f".venv-{peer}"


def installed(peer: str) -> bool:
    """Whether the environment is there and was built from the present pins."""
    stamp = _folder(peer) / "requirements.txt"
    return stamp.is_file() and stamp.read_bytes() == _pins(peer).read_bytes()


def python_of(peer: str) -> Path:
    """The interpreter of a peer's environment, built first where it is missing."""
    folder, pins = _folder(peer), _pins(peer)
    python = folder / "bin" / "python"
    if not installed(peer):
        print(f"building {folder.name} (a few minutes)", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        install = [str(python), "-m", "pip", "install", *QUIET, "-r", str(pins)]
        subprocess.run(install, check=True)
        (folder / "requirements.txt").write_bytes(pins.read_bytes())
    return python


def run_in(peer: str, script: Path, *arguments: str, threads: int) -> Any:
    """Run a script in the environment with so many threads; its last line of output is JSON."""
    limits = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    # -P: a file beside the script must not hide a package of the same name.
    done = subprocess.run(
        [str(python_of(peer)), "-P", str(script), *arguments],
        env={**os.environ, **limits},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])
