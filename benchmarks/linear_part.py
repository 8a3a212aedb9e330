"""DLR2 with and without its closed-form part where a log has no order: NDCG@10 on test.

`python -m benchmarks.linear_part --data FOLDER --out FILE [--logs "a;b"]` trains DLR2 as it comes
on logs whose order is hidden, tests it, takes its closed-form part away and tests it again. There
it is SLIM alone, whose weight is chosen on validation inside the training. The classical model
beside it is the best on validation of all settings of `classical_defaults`. `--collect FILE..`
writes benchmarks/records/linear_part.json.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import leporid
from benchmarks.classical_defaults import POOL, split_of
from benchmarks.harness import write_record
from leporid.models.closed_form.history_window import ndcg_per_user, sample_validation_users

HIDDEN = {
    f"{log}, no order": (log, core, "random")
    for log, core in (
        ("lastfm", 1), ("ml-100k", 1), ("movietweetings-100k", 10), ("toys", 1), ("beauty", 1),
        ("ml-1m-r3", 20),
    )
}  # fmt: skip
"""File, k-core and split of logs whose order is hidden; those that have none are in `results/`."""
_USERS = 3000
"""Validation users who choose the classical model, at most."""


def best_classical(split: Any) -> Any:
    """The classical model with the highest NDCG@10 on validation."""
    users, part = sample_validation_users(split, _USERS)
    known, best = split.train.sequences(), (-1.0, None)
    for model, settings in ((key, each) for key, pool in POOL.items() for each in pool):
        fitted = leporid.train(model, split, progress=False, **settings)
        value = float(ndcg_per_user(fitted.score(users, known), users, part).mean())
        best = max(best, (value, fitted), key=lambda found: found[0])
    return best[1]


def rows(data: Path, name: str, seeds: list[int], device: str) -> list[dict[str, Any]]:
    """A row per seed."""
    split, found = split_of(data, *HIDDEN[name]), []

    def tested(fitted: Any) -> float:
        return round(leporid.evaluate(fitted, split, at=(10,)).mean()["NDCG@10"], 5)

    classical = best_classical(split)
    for seed in seeds:
        began = time.perf_counter()
        how = {"seed": seed, "device": device, "progress": False}
        model: Any = leporid.train("dlr2", split, init="leporid", **how)
        seconds = round(time.perf_counter() - began, 1)
        row = {"log": name, "seed": seed, "gain": model.config.linear_weight, "with": tested(model)}
        model.closed_form = None
        row |= {"network alone": tested(model), "classical": tested(classical)}
        row |= {"classical model": classical.name, "settings": classical.requested.to_dict()}
        found.append(row | {"seconds": seconds, "device": str(model.device)})
    return found


def collect(files: list[Path]) -> None:
    """The record, of the lines of FILES."""
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    lines.sort(key=lambda row: (list(HIDDEN).index(row["log"]), row["seed"]))
    notes = ["One thread, beside other work: the seconds are too long."]
    write_record("linear_part", lines, {"init": "leporid", "recipe": "general"}, notes)


def main() -> None:
    """One line of JSON for each log and seed."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--logs", default=";".join(HIDDEN))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--collect", type=Path, nargs="+")
    arguments = parser.parse_args()
    if arguments.collect:
        collect(arguments.collect)
        return
    for name in arguments.logs.split(";"):
        for row in rows(arguments.data, name, arguments.seeds, arguments.device):
            print(json.dumps(row), flush=True)
            with arguments.out.open("a") as file:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
