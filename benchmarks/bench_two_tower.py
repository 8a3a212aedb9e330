"""A two-tower model in plain PyTorch from random and from LEPORID embeddings, over its steps.

`python -m benchmarks.bench_two_tower FOLDER`: the folder holds the logs as NAME.parquet; ml-100k
is fetched. Weights are chosen on validation, three seeds, the same scale for both.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from benchmarks.harness import RECORDS, write_record
from leporid.foundation import write_json

LOGS = {"ml-100k": 10, "lastfm": 1, "movietweetings-100k": 10}
"""The k-core of each log."""
STEPS = 1000


def run(folder: str = ".") -> None:
    """Train on every log and write the record and the curves."""
    import torch

    import leporid
    from examples.demo.stages import two_towers
    from leporid.foundation import NullProgress

    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    curves: dict[str, Any] = {}
    for log, core in LOGS.items():
        source = Path(folder) / f"{log}.parquet"
        data = leporid.load(source if source.is_file() else log).core(core)
        split = leporid.temporal_split(data)
        vectors = leporid.initializers.get("leporid")().fit(split.train)
        curves[log], everyone, tail = two_towers(split, vectors, STEPS, NullProgress())
        random, ours = curves[log]["random"], curves[log]["LEPORID"]
        best = max(random, key=lambda step: random[step])
        rows.append(
            {
                "log": log,
                "best step, random": best,
                "LEPORID is there after": next(
                    (step for step, value in ours.items() if value >= random[best]), None
                ),
                "NDCG@10, random": everyone.mean_b,
                "LEPORID": everyone.mean_a,
                "difference": everyone.difference,
                "low": everyone.low,
                "high": everyone.high,
                "tail users, random": tail.mean_b,
                "tail users, LEPORID": tail.mean_a,
            }
        )
        print(rows[-1], flush=True)
        write_json(RECORDS / "two_tower" / "curves.json", curves)
        write_record(
            "two_tower",
            rows,
            {"metric": "NDCG@10 on test", "steps": STEPS, "seeds": "1, 2, 3", "dim": 64},
            [
                "The best step of the random runs, and the first at which LEPORID's mean "
                "validation NDCG@10 is as high; looked at every 50 steps.",
                "The interval is over users and seeds.",
            ],
        )


if __name__ == "__main__":
    run(*sys.argv[1:])
