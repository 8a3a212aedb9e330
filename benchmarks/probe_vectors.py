"""What vectors alone predict: LEPORID that adapts beside LEPORID, LE and SVD as they come.

    python -m benchmarks.probe_vectors FOLDER

FOLDER holds `<log>.parquet` (and `ml-100k.inter`). Vectors of 64 columns are fitted on the training
part, and "adapted" chooses its settings inside it. The table is the probe on test:
NDCG@10 by the mean of a user's last ten item vectors. Intervals are t over users, Holm over a log's
three comparisons.

With --leave-one-out the record is `probe_candidates`, on validation alone: for each log, "adapted"
may only choose among candidates that are the best ones on some other log.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

import leporid
from benchmarks.harness import write_record
from leporid.embeddings.row_norm import with_row_norm
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
    "adapted": ("leporid", {"alpha": "auto", "row_norm": "auto"}),
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


def split_of(folder: Path, log: str) -> leporid.Split:
    """Each user's newest items are test, those before them validation."""
    return leporid.temporal_split(load_log(folder, log, CORES[log]))


def rows_of(folder: Path, log: str) -> list[dict[str, Any]]:
    """One row per method: the probe on test, compared with the adapted vectors."""
    split = split_of(folder, log)
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


def candidates_of(folder: Path, log: str) -> dict[str, Any]:
    """Every candidate of 'auto': its score inside the training part, and on validation."""
    split = split_of(folder, log)
    auto = leporid.initializers.get("leporid")(alpha="auto", row_norm="auto").fit(split.train)
    tried = [dict(row) for row in auto.items.provenance["candidates"]]
    plain = {
        alpha: leporid.initializers.get("leporid")(alpha=alpha).fit(split.train)
        for alpha in {row["alpha"] for row in tried}
    }
    for row in tried:
        row["inner"] = row.pop(METRIC)
        shape = row["row_norm"], row["popularity_power"]
        both = with_row_norm(plain[row["alpha"]], split.train.csr(), *shape)
        row["valid"] = probe((None, both.items.vectors), split).value(METRIC)["items"]
    found: dict[str, Any] = {"log": log, "candidates": tried}
    for method in ("le", "svd"):
        both = leporid.initializers.get(method)().fit(split.train)
        found[method] = probe((None, both.items.vectors), split).value(METRIC)["items"]
    return found


def leave_one_out(logs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row per log: what is chosen among all candidates, and among those of the other logs."""

    def best(rows: Sequence[dict[str, Any]], score: str) -> int:
        return max(range(len(rows)), key=lambda i: rows[i][score])

    rows = []
    for here in logs:
        others = {best(log["candidates"], "valid") for log in logs if log is not here}
        known = [here["candidates"][i] for i in sorted(others)]
        chosen = known[best(known, "inner")]
        every = here["candidates"][best(here["candidates"], "inner")]
        row = {name: here[name] for name in ("log", "le", "svd")}
        row |= {"adapted": every["valid"], "left out": chosen["valid"]}
        rows.append(row | {"candidates of others": len(known), "chosen": _words(chosen)})
    return rows


def _words(row: dict[str, Any]) -> str:
    return f"alpha {row['alpha']}, {row['lengths']} {row['popularity_power']}"


def main() -> None:
    """Write the record `probe_vectors`, or `probe_candidates`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--logs", default=",".join(CORES))
    parser.add_argument("--leave-one-out", action="store_true")
    options = parser.parse_args()
    if options.leave_one_out:
        logs = []
        for log in options.logs.split(","):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", LeporidWarning)
                logs.append(candidates_of(options.folder, log))
            print(logs[-1], flush=True)
        notes = [
            "NDCG@10 on validation, untrained, by items. `adapted` chooses among all candidates, "
            "`left out` among those that are the best ones on some other log; both by a probe "
            "inside the training part.",
        ]
        write_record(
            "probe_candidates",
            leave_one_out(logs),
            {"dim": 64, "candidates": len(logs[0]["candidates"])},
            notes,
        )
        return
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
