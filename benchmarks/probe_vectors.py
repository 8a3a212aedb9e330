"""What vectors alone predict: LEPORID that adapts beside LEPORID, LE and SVD as they come.

    python -m benchmarks.probe_vectors FOLDER

FOLDER holds `<log>.parquet` (and `ml-100k.inter`). Vectors of 64 columns are fitted on the training
part, and "adapted" chooses its settings inside it. The table is the probe on test:
NDCG@10 by the mean of a user's last ten item vectors. Intervals are t over users, Holm over a log's
three comparisons.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

import leporid
from benchmarks.harness import write_record
from leporid.errors import LeporidWarning
from leporid.evaluation import compare, holm, probe

CORES = {
    "ml-1m-r3": 20,
    "anime-5k": 20,
    "beauty": 1,
    "toys": 1,
    "lastfm": 1,
    "movietweetings-100k": 10,
    "ml-100k": 5,
    "steam-200k": 5,
    "tafeng": 1,
}
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "adapted": ("leporid", {"alpha": "auto", "lengths": "auto"}),
    "leporid": ("leporid", {}),
    "le": ("le", {}),
    "svd": ("svd", {}),
}
METRIC = "NDCG@10"


def load_log(folder: Path, log: str, core: int) -> leporid.Interactions:
    """The log, without the users and items below its core; of Steam the purchases."""
    if log == "ml-100k":
        return leporid.load(folder / "ml-100k.inter").core(core)
    table = pq.read_table(folder / f"{log}.parquet")
    if "event" in table.column_names:
        table = table.filter(pc.equal(table["event"], "purchase")).drop_columns(["event", "value"])
    return leporid.load(table).core(core)


def rows_of(folder: Path, log: str) -> list[dict[str, Any]]:
    """One row per method: the probe on test, compared with the adapted vectors."""
    split = leporid.temporal_split(load_log(folder, log, CORES[log]))
    tables, rows = {}, []
    for name, (method, settings) in METHODS.items():
        begun = time.perf_counter()
        both = leporid.initializers.get(method)(**settings).fit(split.train)
        seconds = time.perf_counter() - begun
        tables[name] = probe((None, both.items.vectors), split, part="test").tables["items"]
        valid = probe((None, both.items.vectors), split).value(METRIC)["items"]
        users = probe((both.users.vectors, None), split, part="test").value(METRIC)["users"]
        row = {"log": log, "vectors": name, "seconds": seconds, "valid": valid}
        row |= {METRIC: tables[name].mean()[METRIC], "by users": users}
        row["chosen"] = both.items.provenance.get("chosen", "")
        rows.append(row)
    others = [name for name in METHODS if name != "adapted"]
    found = [compare(tables["adapted"], tables[name], METRIC, name_b=name) for name in others]
    for comparison in holm(found):
        row = next(row for row in rows if row["vectors"] == comparison.name_b)
        row["adapted is"] = comparison.outcome
        row["adapted minus this"] = [comparison.difference, comparison.low, comparison.high]
    return rows


def main() -> None:
    """Write the record `probe_vectors`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--logs", default=",".join(CORES))
    options = parser.parse_args()
    rows = []
    for log in options.logs.split(","):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LeporidWarning)
            rows += rows_of(options.folder, log)
        for row in rows[-len(METHODS) :]:
            print(row, flush=True)
    notes = [
        "NDCG@10 on test, untrained: the mean of the vectors of a user's last ten items, times all "
        "item vectors. `by users`: what the 100 nearest users have.",
        "The candidates of 'auto' were found on the validation parts of these logs; the choice for "
        "a log is made inside its training part.",
    ]
    write_record("probe_vectors", rows, {"dim": 64, "cores": CORES}, notes)


if __name__ == "__main__":
    main()
