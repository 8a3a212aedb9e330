"""The fast tests as other machines would run them: `make test-portable`.

Each row imitates another processor, number of threads, hash seed, order, time zone and home folder.
A busy loop runs beside it, since a test that depends on the clock often passes on an idle machine.
A processor that lacks the instructions of a row cannot imitate it, and the row is left out.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROWS: tuple[dict[str, str], ...] = (
    {
        "OPENBLAS_CORETYPE": "Haswell",
        "ATEN_CPU_CAPABILITY": "avx2",
        "threads": "1",
        "PYTHONHASHSEED": "1",
        "TZ": "Asia/Kathmandu",
        "order": "1",
    },
    {
        "OPENBLAS_CORETYPE": "SkylakeX",
        "threads": "2",
        "PYTHONHASHSEED": "2",
        "LC_ALL": "C",
        "order": "2",
    },
    {
        "OPENBLAS_CORETYPE": "Zen",
        "threads": "2",
        "PYTHONHASHSEED": "3",
        "TZ": "America/St_Johns",
        "order": "3",
    },
    {
        "OPENBLAS_CORETYPE": "Prescott",
        "ATEN_CPU_CAPABILITY": "default",
        "NUMBA_CPU_NAME": "generic",
        "threads": "1",
        "PYTHONHASHSEED": "1",
        "order": "4",
    },
)
"""Environment variables; `threads` is the number of threads, `order` the seed of the test order."""

_NEEDS = {"SkylakeX": "avx512f", "Haswell": "avx2", "Zen": "avx2"}
"""Instructions without which the code of a core type does not run."""
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def run(row: dict[str, str], arguments: list[str]) -> tuple[int, str, float]:
    """Exit code, pytest's closing line and seconds of the tests under one row."""
    with tempfile.TemporaryDirectory() as home:
        environment = os.environ | {k: v for k, v in row.items() if k not in ("threads", "order")}
        environment |= dict.fromkeys(_THREADS, row["threads"])
        # Threads that wait for another one leave the core to the busy loop.
        environment["OMP_WAIT_POLICY"] = "passive"
        environment["HOME"] = home
        environment.pop("XDG_CACHE_HOME", None)
        command = [sys.executable, "-m", "pytest", f"--randomly-seed={row['order']}", *arguments]
        began = time.monotonic()
        busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        try:
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
        finally:
            busy.kill()
            busy.wait()
    if done.returncode:
        print(done.stdout, flush=True)
    closing = re.findall(r"^=+ (.*?) in .*=+$", done.stdout, re.MULTILINE)
    return done.returncode, closing[-1] if closing else "no result", time.monotonic() - began


def main() -> int:
    """Run every row, print the table, and fail if any row failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1, help="how often to run all rows")
    parser.add_argument("pytest", nargs="*", help="further arguments of pytest")
    options = parser.parse_args()
    cpu = Path("/proc/cpuinfo")
    flags = set(cpu.read_text(encoding="utf-8").split()) if cpu.exists() else set()
    failed, table = 0, []
    for number in range(1, options.rounds + 1):
        for row in ROWS:
            core = row["OPENBLAS_CORETYPE"]
            if flags and _NEEDS.get(core, "") not in flags | {""}:
                table.append(f"round {number}  {core}: left out, this processor lacks it")
                continue
            # Every round has an order of its own.
            turn = row | {"order": str(int(row["order"]) + 100 * (number - 1))}
            code, closing, seconds = run(turn, options.pytest)
            failed += code != 0
            settings = " ".join(f"{key}={value}" for key, value in turn.items())
            table.append(f"round {number}  {settings}: {closing}, {seconds:.0f} s")
            print(table[-1], flush=True)
    print("\n".join(["", "All rows:", *table]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
