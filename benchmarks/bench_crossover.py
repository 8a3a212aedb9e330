"""Exact or landmarks: the seconds of both over growing sizes, and where `landmarks="auto"` changes.

    python -m benchmarks.bench_crossover [users ...]

20,000 items, 50 interactions per user, D = 64, K = 1000; each case a fresh process. `auto` fits all
rows up to the size at which that costs `EXACT_IS_WORTH` times as much as landmarks. The size is
read off the measured points, between two of them.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bench_scale import (
    DIM,
    EACH,
    ITEMS,
    LANDMARKS,
    K,
    compared,
    exponent,
    run_in_process,
)
from benchmarks.harness import write_record
from leporid.spectral.landmarks import EXACT_IS_WORTH, EXACT_UP_TO

USERS = (25_000, 50_000, 100_000, 200_000)
COST = "processor s"


def crossover(rows: Sequence[Mapping[str, Any]], factor: float) -> float:
    """Rows at which exact costs `factor` times landmarks; an error outside what was measured."""
    cost = {(row["method"], row["users"]): row[COST] for row in rows}
    sizes = sorted({users for _, users in cost})
    ratios = [cost["exact", users] / cost["landmarks", users] for users in sizes]
    if not ratios[0] <= factor <= ratios[-1]:
        raise SystemExit(f"{factor} lies outside the measured ratios {ratios}: measure other sizes")
    return float(np.exp(np.interp(np.log(factor), np.log(ratios), np.log(sizes))))


def run(users: Sequence[int] = USERS) -> None:
    """Measure, and write the record."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        for size in users:
            run_in_process("data", str(size), name)
            for method in ("exact", "landmarks"):
                measured = json.loads(run_in_process("fit", method, str(size), name))
                rows.append({"users": size, "method": method, **measured})
                rows[-1] |= compared(method, size, Path(name))
                print(json.dumps(rows[-1]), flush=True)
    at = crossover(rows, EXACT_IS_WORTH)
    growth = [f"{what} n^{exponent(rows, what, COST):.2f}" for what in ("exact", "landmarks")]
    notes = [
        f"{COST} grow as {', '.join(growth)}.",
        f"Exact costs {EXACT_IS_WORTH:g} times landmarks at {at:,.0f} rows; "
        f'`landmarks="auto"` changes at {EXACT_UP_TO:,}.',
        "processor s is the time the cores spent: the machine had other work.",
    ]
    print("\n".join(notes))
    settings = {"items": ITEMS, "interactions a user": EACH, "dim": DIM, "k": K}
    write_record("crossover", rows, {**settings, "landmarks": LANDMARKS}, notes)


if __name__ == "__main__":
    run([int(size) for size in sys.argv[1:]] or USERS)
