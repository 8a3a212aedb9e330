"""Growth: the users' embedding from 50,000 to a million synthetic users, two ways.

    python -m benchmarks.bench_scale [smallest largest]

20,000 items, 50 interactions per user, D = 64. Exact with K = 1000 while n x K fits in memory, and
landmarks.
Every case is a fresh process: its stages are timed apart and its peak memory is its own.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks.harness import write_record
from leporid.embeddings.landmarks import EXACT_UP_TO

USERS = (50_000, 100_000, 200_000, 500_000, 1_000_000)
ITEMS, EACH = 20_000, 50
DIM, K = 64, 1000
LANDMARKS = 20_000
EXACT_FITS = 200_000
"""Beyond, K = 1000 takes more than 8 GB (n x K neighbours, then the graph of them)."""
MEMORY_GB, MINUTES = 8, 15
EXACT_IS_WORTH = 4.0
"""Exact vectors may cost this many times as much as landmarks before `auto` takes landmarks."""


class Stages:
    """Seconds of each stage an estimator reports: a progress bar that only looks at the clock."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._current: tuple[str, float] | None = None

    def start(self, description: str, total: int | None = None) -> None:
        """The stage before ends here."""
        self.close()
        self._current = (description, time.perf_counter())

    def advance(self, steps: int = 1, **fields: Any) -> None:
        """Nothing to show."""

    def close(self) -> None:
        """End the current stage."""
        if self._current is not None:
            name, began = self._current
            spent = time.perf_counter() - began
            self.seconds[name] = self.seconds.get(name, 0.0) + spent
        self._current = None


def settings_of(method: str) -> dict[str, Any]:
    """The arguments of `Leporid` for a case."""
    return {"k": K, "landmarks": LANDMARKS} if method == "landmarks" else {"k": K}


def fit(method: str, users: int, folder: Path) -> None:
    """One case, in a process of its own; prints a line of JSON."""
    import leporid

    X = sparse.load_npz(folder / f"{users}.npz")
    # Compiled code comes from the disk cache after this, as it does in a second call anywhere.
    small = leporid.Leporid(dim=8, **{**settings_of(method), "k": 20})
    if method == "landmarks":
        small.set_params(landmarks=300)
    small.fit(X[:2000])
    before = peak_mb()
    stages = Stages()
    began, cpu = time.perf_counter(), time.process_time()
    model = leporid.Leporid(dim=DIM, device="cpu", **settings_of(method))
    model.fit(X, progress=stages)
    stages.close()
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    named = {
        "neighbours s": stages.seconds.get("neighbours", 0.0),
        "eigenvectors s": stages.seconds.get("eigenvectors", 0.0),
        "other rows s": stages.seconds.get("other rows", 0.0),
    }
    row = {"seconds": seconds, "processor s": cpu, **named}
    row |= {"peak MB": peak_mb(), "MB before": before}
    row["K"] = model.graph_.k
    np.save(folder / f"{method}-{users}.npy", model.embedding_)
    print(json.dumps(row))


def peak_mb() -> float:
    """Peak resident memory of this process alone."""
    text = Path("/proc/self/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+)", text)
    return int(found[1]) / 1024 if found else 0.0


def angles(one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float64]:
    """Principal angles in degrees between the spaces of the columns, ascending."""
    bases = [np.linalg.qr(vectors.astype(np.float64))[0] for vectors in (one, other)]
    cosines = np.linalg.svd(bases[0].T @ bases[1], compute_uv=False)
    return np.degrees(np.arccos(np.clip(cosines, 0.0, 1.0)))


def compared(method: str, users: int, folder: Path) -> dict[str, float]:
    """Angles to the exact embedding, where there is one."""
    exact = folder / f"exact-{users}.npy"
    if method == "exact" or not exact.is_file():
        return {}
    one, other = np.load(folder / f"{method}-{users}.npy"), np.load(exact)
    whole = angles(one, other)
    return {
        "mean angle": float(whole.mean()),
        "largest angle": float(whole.max()),
        "mean angle, first 16": float(angles(one[:, :16], other[:, :16]).mean()),
    }


def exponent(rows: list[dict[str, Any]], method: str, what: str) -> float:
    """The slope of log seconds over log users: 1 is linear, 2 quadratic."""
    points = [(row["users"], row[what]) for row in rows if row["method"] == method]
    if len(points) < 2:
        return float("nan")
    users, seconds = np.log(np.asarray(points, dtype=np.float64)).T
    return float(np.polyfit(users, seconds, 1)[0])


def crossover(rows: Sequence[Mapping[str, Any]], factor: float) -> float:
    """Rows at which exact costs `factor` times landmarks, between two sizes that were measured."""
    cost = {(row["method"], row["users"]): row["processor s"] for row in rows}
    sizes = sorted(users for method, users in cost if method == "exact")
    ratios = [cost["exact", users] / cost["landmarks", users] for users in sizes]
    if not sizes or not ratios[0] <= factor <= ratios[-1]:
        raise ValueError(
            f"{factor:g} lies outside the measured ratios {ratios}: measure more sizes"
        )
    return float(np.exp(np.interp(np.log(factor), np.log(ratios), np.log(sizes))))


def make_data(users: int, folder: Path) -> None:
    """Write the interactions as a scipy file, in a process of its own: drawing takes memory."""
    import leporid

    X = leporid.synthesize(users, ITEMS, users * EACH, seed=0).csr()
    sparse.save_npz(folder / f"{users}.npz", X, compressed=False)


def _in_process(*arguments: str) -> str:
    command = [sys.executable, "-m", "benchmarks.bench_scale", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed:\n{done.stderr[-3000:]}")
    return done.stdout


def cases() -> list[tuple[str, int]]:
    """What is measured, the largest first: it says whether the rest is worth waiting for."""
    landmarks = [("landmarks", users) for users in reversed(USERS)]
    return landmarks + [("exact", users) for users in USERS if users <= EXACT_FITS]


def run(smallest: int = 0, largest: int = 10**9) -> None:
    """Measure every case and write the record, after each."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wanted = [case for case in cases() if smallest <= case[1] <= largest]
        for method, users in wanted:
            if not (folder / f"{users}.npz").is_file():
                _in_process("data", str(users), name)
            row: dict[str, Any] = {"users": users, "method": method}
            measured = json.loads(_in_process("fit", method, str(users), name))
            row |= {key: value for key, value in measured.items() if value is not None}
            rows.append(row)
            print(json.dumps(row), flush=True)
            for other in rows:
                other |= compared(other["method"], other["users"], folder)
            rows.sort(key=lambda row: (row["users"], row["method"]))
            write(rows)


def write(rows: list[dict[str, Any]]) -> None:
    """The record so far."""
    notes = [
        f"{what} of {method} grow as n^{slope:.2f}."
        for method in ("exact", "landmarks")
        for what in ("seconds", "processor s")
        if not np.isnan(slope := exponent(rows, method, what))
    ]
    for row in rows:
        if row["users"] == USERS[-1]:
            inside = row["seconds"] < 60 * MINUTES and row["peak MB"] < 1024 * MEMORY_GB
            notes.append(
                f"A million users, {row['method']}: {row['seconds'] / 60:.1f} minutes, "
                f"{row['peak MB'] / 1024:.1f} GB; "
                f"{'within' if inside else 'beyond'} {MINUTES} minutes and {MEMORY_GB} GB."
            )
    with contextlib.suppress(ValueError, KeyError):
        at = crossover(rows, EXACT_IS_WORTH)
        notes.append(
            f"Exact costs {EXACT_IS_WORTH:g} times landmarks (processor s) at {at:,.0f} users; "
            f'`landmarks="auto"` changes at {EXACT_UP_TO:,}.'
        )
    notes.append(
        "Each case in a fresh process; peak MB is of that process, data and libraries included "
        "('MB before' is what they take). Seconds are wall clock on a machine that others were "
        "using too; processor s is the time its cores spent on the case."
    )
    notes.append(
        "K is that of the graph: landmarks take 1000 x m / n, at least 50. Angles in degrees to "
        "the exact embedding of the same users."
    )
    settings = {"items": ITEMS, "interactions a user": EACH, "dim": DIM, "landmarks": LANDMARKS}
    write_record("scale", rows, settings, notes)


if __name__ == "__main__":
    if sys.argv[1:2] == ["fit"]:
        fit(sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
    elif sys.argv[1:2] == ["data"]:
        make_data(int(sys.argv[2]), Path(sys.argv[3]))
    else:
        run(*map(int, sys.argv[1:]))
