"""`leporid embed` in a fresh process: before anything is compiled, after it, and a second time.

    python -m benchmarks first_call
    python -m benchmarks.bench_first_call [FILE] [--old FOLDER]

FOLDER is a checkout of another version, which takes turns with this one.
The first run has an empty folder for numba's cache, so every kernel is compiled in it. Python may
keep its byte code, as it does of an installed package.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.harness import write_record
from benchmarks.two_versions import version

ROOT = Path(__file__).parents[1]
ROUNDS = 3
PROCESSES = {
    "nothing compiled": False,
    "everything compiled": False,
    "the same call again in that process": True,
}
"""In this order, each with what the one before has compiled; True times a second call."""
TWICE = """
import sys, time
from leporid.cli.app import app
app(sys.argv[1:], standalone_mode=False)
began = time.perf_counter()
app(sys.argv[1:], standalone_mode=False)
print(time.perf_counter() - began)
"""


def run(data: str | None = None, old: Path | None = None) -> None:
    """Time both on MovieLens-1M (`data`, or the file in LEPORID_DATA) and write the record."""
    data = data or str(Path(os.environ["LEPORID_DATA"]) / "ml-1m-r3.parquet")
    sources = [ROOT] if old is None else [old.resolve(), ROOT]
    found: dict[tuple[Path, str], list[float]] = {}
    for _ in range(ROUNDS):
        for source in sources:
            with tempfile.TemporaryDirectory() as folder:
                for process, twice in PROCESSES.items():
                    seconds = _seconds(data, Path(folder), source, twice)
                    found.setdefault((source, process), []).append(seconds)
    rows: list[dict[str, Any]] = [
        {"version": version(source), "process": process, "seconds": min(seconds)}
        for (source, process), seconds in found.items()
    ]
    for row in rows:
        print(row)
    write_record("first_call", rows, {"data": Path(data).name, "rounds": ROUNDS})


def _seconds(data: str, folder: Path, source: Path, twice: bool) -> float:
    """Seconds of the process, or of its second call."""
    program = ["-c", TWICE] if twice else ["-m", "leporid"]
    command = [sys.executable, *program, "embed", data, "--no-cache"]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "numba")}
    environment["PYTHONPATH"] = str(source / "src")
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="?")
    parser.add_argument("--old", type=Path)
    run(**vars(parser.parse_args()))
