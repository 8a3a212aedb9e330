"""Groceries: what users buy again and what they buy for the first time, model by model.

`python -m benchmarks.repeats --data tafeng.parquet --out FILE` fits each model as it comes with
`include_seen=True`, ranks all items for every user, and measures the same list three times: by all
held-out items, by those the user had before (repeats) and by the others (new). `--protocol basket`
holds out the last basket (all rows with a user's last time) and validates on the one before it;
the default cuts each user's history by share. `--users` takes a sample of the users. `--steps` ends
the training of networks early. `--table FILE` makes the record of the lines that were written.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import leporid
from benchmarks.harness import write_record
from leporid.data import Interactions, Split
from leporid.foundation import versions
from leporid.ranking import TopK

MODELS = ("toppop", "recent", "frequency", "itemknn", "slim", "ease", "blend", "sasrec", "dlr2")
BLEND = ({"model": "frequency"}, {"model": "ease"})
SHOWN = ("NDCG@10", "Recall@10")


def by_basket(data: Interactions) -> Split:
    """Per user, the last basket is test and the one before it validation; one basket is train."""
    assert data.time is not None
    test, valid = np.zeros(len(data), bool), np.zeros(len(data), bool)
    indptr = data.sequences().indptr
    for first, last in itertools.pairwise(indptr):
        baskets = np.unique(data.time[first:last])
        rows = slice(first, last)
        if len(baskets) >= 2:
            test[rows] = data.time[rows] == baskets[-1]
        if len(baskets) >= 3:
            valid[rows] = data.time[rows] == baskets[-2]
    train = ~(test | valid)
    return Split(data.select(train), data.select(valid), data.select(test), "last-basket-out")


def measured(model: Any, split: Split) -> dict[str, float]:
    """NDCG@10 and recall@10 of one list per user, by all targets, by repeats and by new items."""
    table = leporid.evaluate(model, split, at=(10,), metrics=("NDCG", "Recall"))
    items = np.full((split.n_users, 10), -1, np.int32)
    items[table.user] = table.top
    lists = TopK(items, np.zeros(items.shape, np.float32))
    found = {f"all {name}": table.mean()[name] for name in SHOWN}
    every, new = split.targets("test"), replace(split, include_seen=False).targets("test")
    known = split.train_valid.csr()
    again = every.select(np.asarray(known[every.user, every.item]).ravel() > 0)
    for kind, part in (("repeats", again), ("new", new)):
        if len(part):
            means = leporid.evaluate(lists, replace(split, test=part), at=(10,)).mean()
            found |= {f"{kind} {name}": means[name] for name in SHOWN}
    return {name: round(value, 5) for name, value in found.items()}


def one(name: str, split: Split, seed: int, device: str, steps: int | None) -> dict[str, Any]:
    """The row of one model."""
    settings: dict[str, Any] = {"members": BLEND} if name == "blend" else {}
    if leporid.models.get(name).takes_initial_vectors:
        settings |= {"device": device, "seed": seed} | ({"steps": steps} if steps else {})
    began = time.perf_counter()
    model = leporid.train(name, split, progress=False, **settings)
    seconds = round(time.perf_counter() - began, 1)
    return {"model": name, **measured(model, split), "seconds": seconds}


def table(path: Path, steps: int | None) -> None:
    """The record of the lines of a file; `steps` is what the networks had."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    about = {key: lines[0][key] for key in ("log", "interactions", "repeats", "seed")}
    shown = ("protocol", "model", *(f"{k} {m}" for k in ("all", "repeats", "new") for m in SHOWN))
    rows = [{key: line[key] for key in (*shown, "seconds")} for line in lines]
    write_record("repeats", rows, {**about, "include_seen": True, "steps of networks": steps})


def main() -> None:
    """One line of JSON for each model."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--protocol", choices=("temporal", "basket"), default="temporal")
    parser.add_argument("--core", type=int, default=1)
    parser.add_argument("--users", type=int, default=0)
    parser.add_argument("--steps", type=int, default=None)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.table:
        table(arguments.table, arguments.steps)
        return
    data = leporid.load(arguments.data, duplicates="all", progress=False)
    if arguments.users:
        some = np.random.default_rng(0).permutation(data.n_users)[: arguments.users]
        data = data.select(np.isin(data.user, some))
    data = data.core(arguments.core)
    cut = by_basket if arguments.protocol == "basket" else leporid.temporal_split
    split = cut(data).including_seen()
    about = {"log": arguments.data.stem, "protocol": split.protocol, "seed": arguments.seed}
    about |= {"interactions": len(data), "repeats": data.repeats, "versions": versions()}
    for name in arguments.models.split(","):
        row = one(name, split, arguments.seed, arguments.device, arguments.steps)
        print(json.dumps(row), flush=True)
        with arguments.out.open("a") as file:
            file.write(json.dumps(row | about) + "\n")


if __name__ == "__main__":
    main()
