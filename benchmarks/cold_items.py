"""Items nobody has touched: SASRec from ids alone, from content, and grown by content.

    python -m benchmarks.cold_items FOLDER [--seeds 1,2,3] [--steps 300] [--logs lastfm,...]

FOLDER holds `<log>.parquet` and `<log>-items.parquet`. A tenth of the items, drawn by the seed, is
kept out of training; NDCG@10 is on all, warm and cold targets, among all items. Rows of other logs
and seeds in the record stay.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.harness import RECORDS, write_record
from leporid.artifacts import read_json
from leporid.data import IdMap, Interactions, Split, cold_items_split, load
from leporid.errors import LeporidWarning
from leporid.evaluation import evaluate
from leporid.initializers import start
from leporid.models import ContentNeighbours, train

CORES = {"lastfm": 1, "movietweetings-100k": 10, "beauty": 1, "toys": 1, "ml-1m-r3": 20}
SMALL = {"length": 30, "layers": 1, "batch_size": 64, "dropout": 0.2, "lr": 4e-3, "eval_users": 300}
"""Over the recipe `general`, so that a run takes a minute on one core."""


def warm_part(split: Split) -> Split:
    """The split without the cold items: what a model is trained on before they arrive."""
    known = np.unique(np.concatenate([split.train.item, split.valid.item]))
    items = IdMap(split.items.ids.take(known), "item")

    def inside(part: Interactions) -> Interactions:
        kept = part.select(np.isin(part.item, known))
        place = np.searchsorted(known, kept.item).astype(np.int32)
        return Interactions(kept.user, place, kept.time, split.users, items)

    return Split(inside(split.train), inside(split.valid), inside(split.test), "warm items")


def models(split: Split, items: str, seed: int, settings: dict[str, Any]) -> Iterator[Any]:
    """Name, fitted model and seconds."""
    how: dict[str, Any] = {"seed": seed, "device": "cpu", "progress": False, **settings}
    yield "content neighbours", ContentNeighbours(split.items, items), 0.0
    for name in ("none", "leporid", "content", "leporid_content"):
        content = {"items": items} if "content" in name else {}
        vectors = start(name, split.train, cache=False, **content)
        for freeze in ("none", "bounded") if "content" in name else ("none",):
            began = time.perf_counter()
            model = train("sasrec", split, vectors, freeze=freeze, **how)
            label = f"start {name}" + (", bounded" if freeze == "bounded" else "")
            yield label, model, time.perf_counter() - began
    warm = warm_part(split)
    table = pq.read_table(items)  # of it, what the core filter has left
    about = table.filter(pc.is_in(table["item_id"].cast(pa.int64()), split.items.ids))
    for name in ("leporid", "content"):
        content = {"items": items} if name == "content" else {}
        vectors = start(name, warm.train, cache=False, **content)
        model = train("sasrec", warm, vectors, **how)
        for length in (1.0, 1.1):
            began = time.perf_counter()
            grown = model.grow(about, length=length)
            yield f"start {name}, grown, length {length}", grown, time.perf_counter() - began


def main() -> None:
    """Run all logs and seeds, and write `records/cold_items.json`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--logs", default="lastfm,movietweetings-100k")
    parser.add_argument("--full", action="store_true", help="the recipe as it is, all its steps")
    options = parser.parse_args()
    warnings.simplefilter("ignore", LeporidWarning)
    small = {**SMALL, "steps": options.steps, "eval_every": max(options.steps // 4, 1)}
    settings = {} if options.full else small
    rows: list[dict[str, Any]] = []
    for log in options.logs.split(","):
        table = str(options.folder / f"{log.removesuffix('-r3')}-items.parquet")
        data = load(options.folder / f"{log}.parquet").core(CORES[log])
        for seed in map(int, options.seeds.split(",")):
            split = cold_items_split(data, 0.1, seed=seed)
            for name, model, seconds in models(split, table, seed, settings):
                judged = evaluate(model, split, at=(10,), metrics=("NDCG",))
                strata = {"all": None, "warm": "warm-items", "cold": "cold-items"}
                means = {k: judged.mean(stratum=s)["NDCG@10"] for k, s in strata.items()}
                row = {"log": log, "seed": seed, "model": name, **means}
                rows.append({**row, "seconds": round(seconds, 2)})
                print(rows[-1], flush=True)
    done, path = {(row["log"], row["seed"]) for row in rows}, RECORDS / "cold_items.json"
    before = read_json(path)["rows"] if path.is_file() else []
    write_record(
        "cold_items",
        [*(row for row in before if (row["log"], row["seed"]) not in done), *rows],
        {"cold share": 0.1, "metric": "NDCG@10", "recipe": "general", **settings},
        [
            "Targets in test: all, items with and items without a training interaction; candidates "
            "are all items.",
            "Grown models were trained without the cold items; their seconds are those of `grow`.",
        ],
    )


if __name__ == "__main__":
    main()
