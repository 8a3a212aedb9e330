"""DLR2 with and without its linear part, beside SLIM, as they come: NDCG@10 on test.

`python -m benchmarks.linear_part --data FOLDER --out FILE [--logs "a;b"]` trains DLR2
once on each log, tests it, takes its linear part away and tests it again. The gain is chosen on
validation inside the training.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import leporid
from benchmarks.classical_defaults import LOGS
from leporid.machine import versions


def one(data: Path, name: str, device: str, seed: int) -> dict[str, Any]:
    """The record of one log."""
    file, core, protocol = LOGS[name]
    log = leporid.load(data / f"{file}.parquet").core(core)
    cut = leporid.random_split if protocol == "random" else leporid.temporal_split
    split = cut(log)
    began = time.perf_counter()
    slim = leporid.train("slim", split, progress=False)
    slim_seconds = time.perf_counter() - began
    began = time.perf_counter()
    model: Any = leporid.train(
        "dlr2", split, init="leporid", seed=seed, device=device, progress=False
    )
    seconds = time.perf_counter() - began

    def tested(some: Any) -> float:
        return round(leporid.evaluate(some, split).mean()["NDCG@10"], 5)

    both, gain = tested(model), model.config.linear_gain
    model.linear = None
    return {
        "log": name, "seed": seed, "gain": gain, "with": both, "network alone": tested(model),
        "slim": tested(slim), "seconds": round(seconds, 1), "slim seconds": round(slim_seconds, 1),
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
