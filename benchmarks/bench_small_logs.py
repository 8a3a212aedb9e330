"""Training DLR2 as it comes, from LEPORID, on small logs and all cores: seconds to the end.

    python -m benchmarks small_logs

LastFM is looked for as tests do (`$LEPORID_DATA`, else `../shared/data`). The start counts;
patience ends the training.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import torch

import leporid
from benchmarks.bench_eigenvectors import DATA
from benchmarks.harness import write_record
from leporid.errors import LeporidWarning

LOGS = {"lastfm": (DATA / "lastfm.parquet", 90, (1, 2)), "ml-100k": ("ml-100k", 180, (1,))}
"""Source, the goal in seconds, seeds."""


def run() -> None:
    """Each log and seed."""
    warnings.simplefilter("ignore", LeporidWarning)
    small = leporid.synthesize(2000, 500, 20_000, seed=0)
    leporid.Leporid(dim=8, k=20).fit(small.csr())  # compiles what it needs
    rows: list[dict[str, Any]] = []
    for name, (source, goal, seeds) in LOGS.items():
        split = leporid.temporal_split(leporid.load(source))
        vectors = leporid.initializers.get("leporid")()
        for seed in seeds:
            began = time.perf_counter()
            start = vectors.fit(split.train)
            model = leporid.train("dlr2", split, start, seed=seed, device="cpu", progress=False)
            seconds = time.perf_counter() - began
            valid = leporid.evaluate(model, split, part="valid").mean()["NDCG@10"]
            row = {"log": name, "seed": seed, "seconds": seconds, "goal": goal}
            rows.append({**row, "steps": model.history.rows[-1]["step"], "valid NDCG@10": valid})
            print(rows[-1], flush=True)
    settings = {"model": "dlr2, recipe general", "threads": torch.get_num_threads()}
    write_record("small_logs", rows, settings, ["The start is computed anew and counts."])


if __name__ == "__main__":
    run()
