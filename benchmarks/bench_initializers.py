"""Seconds and peak memory of every initialiser on Anime-shaped data, each in its own process.

`python -m benchmarks.bench_initializers METHOD` measures one and prints JSON; `run()` measures
all of them and writes the record.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.harness import peak_memory_mb, write_record

SHAPE = {"users": 47_143, "items": 6_535, "interactions": 4_300_000, "seed": 0}
WARM = {"users": 400, "items": 150, "interactions": 8_000, "seed": 1}
METHODS = ("random", "svd", "bpr", "netmf", "node2vec", "graph_bert", "le", "leporid")
LIMIT_S = 3600


def measure(method: str) -> dict[str, Any]:
    """Fit once on tiny data (compilation), then on the real size."""
    import warnings

    import numpy as np

    from leporid import initializers
    from leporid.data.synthetic import synthesize
    from leporid.errors import LeporidWarning

    warnings.simplefilter("ignore", LeporidWarning)
    start = time.perf_counter()
    initializers.get(method)(dim=8).fit(synthesize(**WARM))
    warm = time.perf_counter() - start
    train = synthesize(**SHAPE)
    train.csr()
    before = peak_memory_mb()
    start, busy = time.perf_counter(), time.process_time()
    made = initializers.get(method)().fit(train)
    seconds, processor = time.perf_counter() - start, time.process_time() - busy
    vectors = np.vstack([made.users.vectors, made.items.vectors])
    if not np.isfinite(vectors).all():
        raise SystemExit(f"{method} made vectors that are not finite")
    return {
        "initialiser": method,
        "seconds": round(seconds, 2),
        "processor seconds": round(processor, 2),
        "peak MB": round(peak_memory_mb()),
        "MB before the fit": round(before),
        "first fit, tiny data (s)": round(warm, 2),
    }


def run(methods: tuple[str, ...] = METHODS) -> None:
    """Every initialiser in a fresh process, one after another."""
    rows = []
    for method in methods:
        command = [sys.executable, "-m", "benchmarks.bench_initializers", method]
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            cwd=Path(__file__).parents[1],
        )
        if done.returncode != 0:
            raise SystemExit(f"{method} failed:\n{done.stderr[-2000:]}")
        rows.append(json.loads(done.stdout.strip().splitlines()[-1]))
        print(rows[-1], flush=True)
    write_record(
        "initializers",
        rows,
        {"data": SHAPE, "settings": "the defaults (D = 64, K = 1000)"},
        [
            "Synthetic data in the shape of Anime's training part.",
            "Peak memory is of the whole process: Python, the libraries and the data are the "
            "'MB before the fit'.",
            "Processor seconds add up all threads: what other work on the machine cannot stretch.",
            "The first fit on tiny data holds the compilation where it was not cached.",
        ],
    )


if __name__ == "__main__":
    if len(sys.argv) == 2:
        print(json.dumps(measure(sys.argv[1])))
    else:
        run()
