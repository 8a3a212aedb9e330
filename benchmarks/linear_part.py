"""DLR2 with and without its linear part, beside the best linear model: NDCG@10 on test.

`python -m benchmarks.linear_part --data FOLDER --out FILE [--logs "a;b"]` trains DLR2
once on each log, tests it, takes its linear part away and tests it again. The gain is chosen on
validation inside the training. The linear model is the best on validation of twenty SLIMs and
EASEs, those of `classical_defaults`.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import leporid
from benchmarks.classical_defaults import LOGS, POOL
from leporid.machine import versions

HIDDEN = {"ml-100k, no order": ("ml-100k", 1, "random")}
"""A log whose order is hidden, beside those of `LOGS`."""


def one(data: Path, name: str, device: str, seed: int) -> dict[str, Any]:
    """The record of one log."""
    file, core, protocol = (LOGS | HIDDEN)[name]
    source = data / f"{file}.parquet"
    log = leporid.load(source if source.is_file() else file).core(core)
    cut = leporid.random_split if protocol == "random" else leporid.temporal_split
    split = cut(log)

    def tested(some: Any, part: Any = "test") -> float:
        return round(leporid.evaluate(some, split, part=part).mean()["NDCG@10"], 5)

    linear: Any = max(
        (
            leporid.train(model, split, progress=False, **settings)
            for model in ("slim", "ease")
            for settings in POOL[model]
        ),
        key=lambda fitted: tested(fitted, "valid"),
    )
    began = time.perf_counter()
    model: Any = leporid.train(
        "dlr2", split, init="leporid", seed=seed, device=device, progress=False
    )
    seconds = time.perf_counter() - began

    both, gain = tested(model), model.config.linear_gain
    model.linear = None
    return {
        "log": name, "seed": seed, "gain": gain, "with": both, "network alone": tested(model),
        "linear": tested(linear), "linear model": linear.name, "settings": linear.asked.to_dict(),
        "seconds": round(seconds, 1),
        "device": str(model.device), "versions": versions(),
    }  # fmt: skip


def main() -> None:
    """One line of JSON for each log."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--logs", default=";".join(LOGS))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    for name in arguments.logs.split(";"):
        row = one(arguments.data, name, arguments.device, arguments.seed)
        print(json.dumps(row), flush=True)
        with arguments.out.open("a") as file:
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
