"""Purchases as target events, with and without the hours played: what is a second kind worth?

`python -m benchmarks.events --data steam-200k.parquet` cuts the purchases (5-core) at random and
fits each model as it comes on three logs: purchases alone; purchases, and plays that count their
hours; and plays that count the logarithm of 1 + hours. All have the same targets and candidates. A
play goes where the purchase of its pair went: in a log without times, a play in training would give
away a purchase in test. Models of pairs that have no weights see no difference. `--models` names
others (dlr2), `--users` takes a sample of the users.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import leporid
from benchmarks.harness import write_record
from leporid.data import Interactions, Split

MODELS = ("toppop", "itemknn", "ease", "ials", "slim")
SHOWN = ("NDCG@10", "HR@10")
LOGS: dict[str, dict[str, Any]] = {
    "purchases": {"weights": {"purchase": 1}},
    "hours": {"weights": {"purchase": 1, "play": 1}, "weight": "value"},
    "log hours": {"weights": {"purchase": 1, "play": 1}, "weight": "log hours"},
}


def read(table: pa.Table, **how: Any) -> Interactions:
    """The log with purchases as its target events."""
    how = {
        "event": "event",
        "target_events": "purchase",
        "duplicates": "all",
        "progress": False,
        **how,
    }
    return leporid.load(table, user="user_id", item="item_id", **how)


def with_events(split: Split, data: Interactions) -> Split:
    """The split with all events of its pairs, each in the part of its pair."""
    user, item = split.users.encode(data.users.ids), split.items.encode(data.items.ids)
    inside = (user[data.user] >= 0) & (item[data.item] >= 0)
    rows = data.select(inside).renumbered(user, item, split.users, split.items)

    def part(purchases: Interactions) -> Interactions:
        pairs = np.asarray(purchases.csr()[rows.user, rows.item]).ravel() > 0
        return rows.select(pairs)

    parts = {name: part(getattr(split, name)) for name in ("train", "valid", "test")}
    return replace(split, **parts)


def main() -> None:
    """A record with a row for each log and model."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--users", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", default="events", help="name of the record; empty: none")
    arguments = parser.parse_args()
    table = pq.read_table(arguments.data)
    played = pc.equal(table["event"].cast(pa.string()), "play")
    hours = pc.if_else(played, pc.log1p(table["value"]), pa.scalar(1.0, pa.float32()))
    table = table.append_column("log hours", hours)
    purchases = read(table, **LOGS["purchases"], duplicates="first")
    if arguments.users:
        some = np.random.default_rng(0).permutation(purchases.n_users)[: arguments.users]
        purchases = purchases.select(np.isin(purchases.user, some))
    split = leporid.random_split(purchases.core(5), seed=arguments.seed)
    rows = []
    for log, how in LOGS.items():
        used = with_events(split, read(table, **how)) if log != "purchases" else split
        for name in arguments.models.split(","):
            began = time.perf_counter()
            model = leporid.train(name, used, progress=False)
            seconds = round(time.perf_counter() - began, 1)
            means = leporid.evaluate(model, used, at=(10,), metrics=("NDCG", "HR")).mean()
            found = {metric: round(means[metric], 5) for metric in SHOWN}
            weights = "yes" if model.uses_weights else "no"
            rows.append({"log": log, "model": name, "uses weights": weights, **found})
            print({**rows[-1], "seconds": seconds}, flush=True)
    settings = {"data": arguments.data.name, "core": 5, "protocol": split.protocol}
    settings |= {"users": split.n_users, "items": split.n_items, "train": len(split.train)}
    if arguments.record:
        notes = ["Targets are purchases; the same targets and candidates in every row."]
        write_record(arguments.record, rows, settings, notes)


if __name__ == "__main__":
    main()
