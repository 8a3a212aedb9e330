"""What rules cost: NDCG@10 of EASE on MovieLens-1M without them and with one at a time.

`python -m benchmarks.rules --data ml-1m-r3.parquet --items ml-1m-items.parquet` writes
`records/rules.json`. Years come from the titles. Each row is compared with the lists without rules.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import leporid
from benchmarks.harness import timed, write_record
from leporid.evaluation import compare

METRIC = "NDCG@10"
RULES: dict[str, dict[str, Any]] = {
    "at most 3 per genre": {"max_per": {"genre": 3}},
    "at most 5 per genre": {"max_per": {"genre": 5}},
    "at most 3 per rarest genre": {"max_per_rarest": {"genre": 3}},
    "diversity 0.1": {"diversity": 0.1},
    "diversity 0.3": {"diversity": 0.3},
    "newer years boosted by 0.2": {"boost": {"year": 0.2}},
    "years 1980 to 1999": {"only": {"year": {"at_least": 1980, "at_most": 1999}}},
    "rank 1 fixed": {"slots": {1: 1}},
}


def with_years(path: Path) -> pa.Table:
    """The item table with the `year` of titles such as "Heat (1995)"."""
    table = pq.read_table(path)
    year = pc.struct_field(pc.extract_regex(table["title"], r"\((?P<year>\d{4})\)\s*$"), "year")
    return table.append_column("year", year.cast(pa.int32()))


def main() -> None:
    """One row per rule."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--items", type=Path, required=True)
    parser.add_argument("--core", type=int, default=20)
    arguments = parser.parse_args()
    data = leporid.load(arguments.data, progress=False).core(arguments.core)
    split = leporid.temporal_split(data)
    model = leporid.train("ease", split, progress=False)
    item_columns = model.item_columns(with_years(arguments.items))
    seconds, plain = timed(lambda: leporid.evaluate(model, split, at=(10,)))
    rows: list[dict[str, Any]] = [
        {"rules": "none", METRIC: round(plain.mean()[METRIC], 5), "seconds": round(seconds, 2)}
    ]
    for name, rules in RULES.items():
        bound = leporid.Rules(**rules).bind(item_columns)
        bound.top_k(model.score(split.test.user[:1]), 10)  # compiled before it is timed
        seconds, table = timed(lambda b=bound: leporid.evaluate(model, split, at=(10,), rules=b))
        found = compare(table, plain, METRIC)
        row = {"rules": name, METRIC: round(found.mean_a, 5), "seconds": round(seconds, 2)}
        row |= {"difference": round(found.difference, 5), "percent": round(found.percent, 2)}
        row |= {"low": round(found.low, 5), "high": round(found.high, 5)}
        rows.append(row | {"short lists": float((table.top < 0).any(axis=1).mean())})
        print(rows[-1], flush=True)
    settings = {"log": arguments.data.stem, "core": arguments.core, "model": "ease"}
    settings |= {"users": len(plain), "items": split.n_items, "rules": RULES}
    write_record(
        "rules",
        rows,
        settings,
        notes=(
            "seconds: scoring and ranking all users, without the fit and the binding of rules",
            "difference, low, high: with the rule less without, 95% t interval over users",
            "diversity is on an SVD of the log: EASE has no item vectors",
            "a film counts under each of its genres; or once, under the rarest of them",
            "short lists: share of users whose list has fewer than ten items",
        ),
    )


if __name__ == "__main__":
    main()
