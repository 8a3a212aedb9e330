"""`leporid embed` in a fresh process: before anything is compiled, and after.

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


def run(data: str | None = None) -> None:
    """Time both on MovieLens-1M (`data`, or the file in LEPORID_DATA) and write the record."""
    data = data or str(Path(os.environ["LEPORID_DATA"]) / "ml-1m-r3.parquet")
    cold, warm = [], []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            cold.append(_seconds(data, Path(folder)))
            warm.append(_seconds(data, Path(folder)))
    rows: list[dict[str, Any]] = [
        {"process": "nothing compiled", "seconds": min(cold)},
        {"process": "everything compiled", "seconds": min(warm)},
    ]
    for row in rows:
        print(row)
    write_record("first_call", rows, {"data": Path(data).name, "rounds": ROUNDS})


def _seconds(data: str, folder: Path) -> float:
    command = [sys.executable, "-m", "leporid", "embed", data, "--no-cache"]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "numba")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    began = time.perf_counter()
    subprocess.run(
        [*command, "-o", str(folder / "vectors")],
        env=environment,
        check=True,
        capture_output=True,
    )
    return time.perf_counter() - began


if __name__ == "__main__":
    run(*sys.argv[1:])
