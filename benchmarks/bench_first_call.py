"""`leporid embed` in a fresh process: before anything is compiled, after it, and a second time.

The first run has an empty folder for numba's cache, so every kernel is compiled in it. Python may
keep its byte code, as it does of an installed package.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.harness import write_record

ROUNDS = 3
TWICE = """
import sys, time
from leporid.cli.app import app
app(sys.argv[1:], standalone_mode=False)
began = time.perf_counter()
app(sys.argv[1:], standalone_mode=False)
print(time.perf_counter() - began)
"""


def run(data: str | None = None) -> None:
    """Time both on MovieLens-1M (`data`, or the file in LEPORID_DATA) and write the record."""
    data = data or str(Path(os.environ["LEPORID_DATA"]) / "ml-1m-r3.parquet")
    cold, warm, again = [], [], []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            cold.append(_seconds(data, Path(folder)))
            warm.append(_seconds(data, Path(folder)))
            again.append(_seconds(data, Path(folder), twice=True))
    rows: list[dict[str, Any]] = [
        {"process": "nothing compiled", "seconds": min(cold)},
        {"process": "everything compiled", "seconds": min(warm)},
        {"process": "the same call again in that process", "seconds": min(again)},
    ]
    for row in rows:
        print(row)
    note = (
        f"The goal for compiled loops is 2 s. Reading, computing and writing alone take "
        f"{min(again):.1f} s; importing libraries and loading the loops is the rest."
    )
    write_record("first_call", rows, {"data": Path(data).name, "rounds": ROUNDS}, [note])


def _seconds(data: str, folder: Path, twice: bool = False) -> float:
    """Seconds of the process, or of its second call."""
    program = ["-c", TWICE] if twice else ["-m", "leporid"]
    command = [sys.executable, *program, "embed", data, "--no-cache"]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "numba")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    began = time.perf_counter()
    done = subprocess.run(
        [*command, "-o", str(folder / "vectors")],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return float(done.stdout.split()[-1]) if twice else time.perf_counter() - began


if __name__ == "__main__":
    run(*sys.argv[1:])
