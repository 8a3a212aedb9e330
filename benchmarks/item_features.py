"""Networks with and without the columns of an item table: validation chooses, NDCG@10 on test.

    python -m benchmarks.item_features FOLDER --log lastfm --model sasrec --seeds 1 2 3

FOLDER holds `<log>.parquet` and `<log>-items.parquet`. The recipe is `general` with the steps of
`--steps`, from LEPORID; `chosen` is what `features="auto"` keeps. Rows of the same log, model and
seed are replaced in the record.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.harness import RECORDS, write_record
from leporid.data import load, temporal_split
from leporid.errors import LeporidWarning
from leporid.evaluation import compare, evaluate
from leporid.foundation import read_json
from leporid.models import train

CORES = {"lastfm": 1, "movietweetings-100k": 10, "beauty": 1, "toys": 1}
METRIC = "NDCG@10"
NAME, KEYS = "item_features", ("log", "model", "seed")
NOTES = [
    "NDCG@10; valid: what the training maximised, of the weights that were kept.",
    "low, high: 95% interval over users of the test difference, with less without features.",
    "seconds: of the training with and without features, on one core.",
]


def rows_of(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One row per seed."""
    split = temporal_split(load(options.folder / f"{options.log}.parquet").core(CORES[options.log]))
    items = str(options.folder / f"{options.log}-items.parquet")
    how: dict[str, Any] = {"device": "cpu", "progress": False, "items": items}
    how |= {"steps": options.steps, "eval_every": max(options.steps // 10, 1)}
    for seed in options.seeds:
        row: dict[str, Any] = {"log": options.log, "model": options.model, "seed": seed}
        tables = {}
        for name, features in (("without", False), ("with", True)):
            began = time.perf_counter()
            model: Any = train(options.model, split, seed=seed, features=features, **how)
            row[f"seconds {name}"] = round(time.perf_counter() - began, 1)
            tables[name] = evaluate(model, split, at=(10,))
            row[f"valid {name}"] = round(model.history.best_metric, 5)
            row[f"test {name}"] = round(tables[name].mean()[METRIC], 5)
        found = compare(tables["with"], tables["without"], METRIC)
        row |= {"low": round(found.low, 5), "high": round(found.high, 5)}
        row["chosen"] = "with" if row["valid with"] > row["valid without"] else "without"
        yield row | {"steps": options.steps}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--log", default="lastfm", choices=CORES)
    parser.add_argument("--model", default="sasrec")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--steps", type=int, default=500)
    options = parser.parse_args()
    warnings.simplefilter("ignore", LeporidWarning)
    file = RECORDS / f"{NAME}.json"
    rows = read_json(file)["rows"] if file.is_file() else []
    for new in rows_of(options):
        rows = [row for row in rows if any(row[key] != new[key] for key in KEYS)] + [new]
        print(new, flush=True)
        write_record(NAME, rows, {"recipe": "general", "init": "leporid"}, NOTES)


if __name__ == "__main__":
    main()
