"""Ten million users and 500 million interactions, streamed from parquet, by landmarks.

    python -m benchmarks.bench_ten_million [scale ...] [--folder FOLDER]

The goal on two cores: 20 minutes and 12 GB. A scale of 0.01 has a hundredth of the users; several
give the growth exponent. The log is drawn in chunks into a folder as Spark writes it, which
--folder keeps. Each embedding is a process of its own, with `--memory` and `--landmarks`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.bench_scale import exponent, peak_mb
from benchmarks.harness import write_record

USERS, EACH, ITEMS = 10_000_000, 50, 20_000
GROUPS, OWN_GROUP = 200, 0.8
CHUNK_USERS = 100_000
LANDMARKS, DIM, K = 20_000, 64, 1000
MEMORY, MINUTES = "12GB", 20


def write_part(folder: Path, number: int, users: range) -> None:
    """The users of a part, in random order: most of their items are of one of 200 groups."""
    draws = np.random.default_rng(number)
    user = np.repeat(np.arange(users.start, users.stop), EACH)
    rank = (ITEMS / GROUPS) ** draws.random(len(user)) - 1.0  # popularity falls as 1 / rank
    own = draws.random(len(user)) < OWN_GROUP
    group = np.where(own, user % GROUPS, draws.integers(0, GROUPS, len(user)))
    order = draws.permutation(len(user))
    columns = {
        "user": user[order],
        "item": (rank.astype(np.int64) * GROUPS + group)[order],
        "time": draws.integers(1_600_000_000, 1_700_000_000, len(user)),
    }
    pq.write_table(pa.table(columns), folder / f"part-{number:05}.parquet")


def write_log(folder: Path, users: int) -> None:
    """Parts of 100,000 users, and the mark of success."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, first in enumerate(range(0, users, CHUNK_USERS)):
        write_part(folder, number, range(first, min(first + CHUNK_USERS, users)))
    (folder / "_SUCCESS").touch()


def embed(folder: Path) -> None:
    """One case; prints a line of JSON."""
    from leporid import initializers
    from leporid.embeddings import embed_stored

    initializer = initializers.get("leporid")(dim=DIM, k=K, landmarks=LANDMARKS)
    began, cpu = time.perf_counter(), time.process_time()
    vectors = embed_stored(initializer, folder, MEMORY, scratch=folder.parent)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    row = {"users": vectors.users.n, "items": vectors.items.n, "seconds": seconds}
    zero = float((~vectors.users.vectors.any(axis=1)).mean())
    print(json.dumps({**row, "processor s": cpu, "peak MB": peak_mb(), "without place": zero}))


def run(scales: tuple[float, ...] = (0.005, 0.01), folder: str | None = None) -> None:
    """Measure each scale and write the record, after each."""
    rows: list[dict[str, Any]] = []
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as name:
        for scale in scales:
            log = Path(folder or name) / f"log-{scale:g}"
            if not (log / "_SUCCESS").is_file():
                write_log(log, round(USERS * scale))
            command = [sys.executable, "-m", "benchmarks.bench_ten_million", "--embed", str(log)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(f"scale {scale:g} failed:\n{done.stderr[-3000:]}")
            measured = json.loads(done.stdout)
            rows.append({"method": "landmarks", "interactions": measured["users"] * EACH})
            rows[-1] |= measured
            print(json.dumps(rows[-1]), flush=True)
            write(rows)


def write(rows: list[dict[str, Any]]) -> None:
    """The record so far."""
    notes = [
        f"{what} grow as n^{slope:.2f}."
        for what in ("seconds", "processor s")
        if not np.isnan(slope := exponent(rows, "landmarks", what))
    ]
    if rows[-1]["users"] == USERS:
        inside = rows[-1]["seconds"] < 60 * MINUTES and rows[-1]["peak MB"] < 12_000
        notes.append(f"Ten million users: {'within' if inside else 'beyond'} {MINUTES} min, 12 GB.")
    notes.append(
        "Each case in a fresh process; peak MB counts the pages of mapped files too. Seconds are "
        "wall clock on a machine that others were using; processor s is what its cores spent."
    )
    print("\n".join(notes))
    settings = {"dim": DIM, "k": K, "landmarks": LANDMARKS, "memory": MEMORY, "items": ITEMS}
    write_record("ten_million", rows, settings, notes)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scales", nargs="*", type=float, default=[0.005, 0.01])
    parser.add_argument("--folder")
    parser.add_argument("--embed")
    given = parser.parse_args()
    if given.embed:
        embed(Path(given.embed))
    else:
        run(tuple(given.scales), given.folder)
