"""Items nobody has touched: what content, growing and retraining make of them.

    python -m benchmarks.cold_items FOLDER --log lastfm --model sasrec --seed 1 -o OUT
    python -m benchmarks.cold_items --collect OUT

FOLDER holds `<log>.parquet` and `<log>-items.parquet`. A call does one job, writes one file to OUT
and shares nothing with others, so that many run side by side; `--collect` makes the record of all.
A job whose file is there is not done again. All numbers are NDCG@10 among all items. Tasks:

cold   a tenth of the items, drawn by the seed, is kept out of training: warm and cold targets
grow   the same items arrive with what the training part knows of them: growing against retraining
warm   the plain protocol: ways to start
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from scipy import sparse

from benchmarks.harness import RECORDS, machine, write_record
from leporid.data import (
    IdMap,
    Interactions,
    Sequences,
    Split,
    cold_items_split,
    item_features,
    load,
    split_by,
)
from leporid.embeddings import get as get_initializer
from leporid.errors import LeporidWarning
from leporid.evaluation import compare, evaluate
from leporid.foundation import read_json, write_json
from leporid.models import train
from leporid.models.neural import cold_items as cold_start
from leporid.ranking import masked_top_k

CORES = {"lastfm": 1, "movietweetings-100k": 10, "beauty": 1, "toys": 1, "ml-1m-r3": 20}
SMALL = {"batch_size": 64, "lr": 4e-3, "eval_users": 300}
SMALL_SASREC = {"max_history": 30, "layers": 1, "dropout": 0.2}
"""Over the recipe `general`, so that a run takes a minute on one core."""
SHARE = 0.1
METRIC = "NDCG@10"
GROUP = ("task", "log", "model")
STARTS = ("none", "svd", "content", "leporid", "leporid_content")
NOTES = [
    "NDCG@10 among all items. cold and warm: targets without and with a training interaction; new: "
    "targets among the items that arrive later; old: all others.",
    "places: share of the first ten places that cold or new items get.",
    "places as they come: rows that no training has moved are scored by the network alone.",
    "grown: trained without these items, from leporid; seconds are those of `grow`. Content places "
    "the new rows and is a part of new items' scores; `content places rows alone` leaves it out of "
    "the scores.",
    "low, high: 95% interval over users of the difference to the row named `against`, on warm "
    "targets (task cold), old targets (task grow) or all (task warm), mean of the seeds' limits.",
    "Numbers are means over the seeds; `records/cold_items/jobs.json` has every job.",
]


def without(split: Split, gone: Any) -> Split:
    """The split as it was before the items `gone` (indices) arrived, without their ids."""
    known = np.setdiff1d(np.unique(np.concatenate([split.train.item, split.valid.item])), gone)
    items = IdMap(split.items.ids.take(known), "item")

    def inside(part: Interactions) -> Interactions:
        kept = part.select(np.isin(part.item, known))
        place = np.searchsorted(known, kept.item).astype(np.int32)
        return Interactions(kept.user, place, kept.time, split.users, items)

    return Split(inside(split.train), inside(split.valid), inside(split.test), "before they came")


def places(model: Any, split: Split, rows: Any) -> float:
    """The share of the first ten places of users in the test part that `rows` get."""
    history = split.train_valid.sequences()
    users = np.unique(split.test.user)[:500]
    scores = model.score(users, history)
    return float(np.isin(masked_top_k(scores, 10, seen=history.take(users)).items, rows).mean())


class ContentNeighbours:
    """The baseline that cold items must beat: sums of cosines with the items of the history."""

    def __init__(self, items: IdMap, source: Any) -> None:
        self._features = item_features(items, source).matrix

    def score(self, users: Any, history: Sequences) -> Any:
        rows = history.take(users)
        entries = np.ones(len(rows.items), np.float32), rows.items, rows.indptr
        profiles = sparse.csr_array(entries, shape=(len(users), self._features.shape[0]))
        return (profiles @ self._features @ self._features.T).toarray().astype(np.float32)


class Job:
    """One log, model and seed."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.model, self.seed = options.model, options.seed
        self.table = str(options.folder / f"{options.log.removesuffix('-r3')}-items.parquet")
        self.data = load(options.folder / f"{options.log}.parquet").core(CORES[options.log])
        steps = {"steps": options.small, "eval_every": max(options.small // 4, 1)}
        small = {**SMALL, **(SMALL_SASREC if self.model == "sasrec" else {}), **steps}
        self.settings: dict[str, Any] = small if options.small else {}
        self.device = options.device

    def timed(self, function: Any, *given: Any, **how: Any) -> tuple[Any, float]:
        began = time.perf_counter()
        return function(*given, **how), time.perf_counter() - began

    def trained(self, split: Split, name: str, **about: Any) -> tuple[Any, float]:
        """A model and its seconds, with those of its vectors."""
        content = {"items": self.table, **about} if "content" in name else {}
        began = time.perf_counter()
        vectors = None if name == "none" else get_initializer(name)(**content).fit(split.train)
        how: dict[str, Any] = {"seed": self.seed, "device": self.device, "progress": False}
        model = train(self.model, split, vectors, **how, **self.settings)
        return model, time.perf_counter() - began

    def about(self, split: Split) -> pa.Table:
        """Of the item table, what the core filter has left."""
        table = pq.read_table(self.table)
        return table.filter(pc.is_in(table["item_id"].cast(pa.int64()), split.items.ids))

    def cold(self) -> Iterator[tuple[str, Any, Split, dict[str, Any]]]:
        """Name, model, the split to judge it on, more for the row."""
        split = cold_items_split(self.data, SHARE, seed=self.seed)
        cold = np.setdiff1d(np.arange(split.train.n_items), split.train_valid.item)
        base, _ = self.trained(without(split, cold), "leporid")
        about = self.about(split)
        reference = base.extend(about, cold_item_share=0)
        yield "grown, no places", reference, split, {}
        neighbours = ContentNeighbours(split.items, self.table)
        yield "content neighbours", neighbours, split, {}
        as_many = places(neighbours, split, cold) / (len(cold) / len(split.items))
        how: tuple[tuple[str, dict[str, float]], ...] = (
            ("grown", {}),
            ("grown, exposure 1.5", {"cold_item_share": 1.5}),
            ("grown, places as content neighbours", {"cold_item_share": as_many}),
            ("grown, length 1", {"length": 1.0}),
        )
        for name, settings in how:
            grown, seconds = self.timed(base.extend, about, **settings)
            yield name, grown, split, {"seconds": seconds}
        with mock.patch.object(cold_start, "CONTENT_WEIGHT", 0.0):
            grown, seconds = self.timed(base.extend, about)
        yield "grown, content places rows alone", grown, split, {"seconds": seconds}
        for name in ("none", "leporid", "content", "leporid_content"):
            model, seconds = self.trained(split, name)
            yield f"start {name}", model, split, {"seconds": seconds}

    def grow(self) -> Iterator[tuple[str, Any, Split, dict[str, Any]]]:
        whole = split_by(self.data, "temporal")
        draw = np.random.default_rng(self.seed).permutation(self.data.n_items)
        new = np.sort(draw[: round(SHARE * self.data.n_items)])
        again, seconds = self.trained(whole, "leporid")
        yield "retrained", again, whole, {"seconds": seconds, "new": new}
        known = whole.train_valid
        base, _ = self.trained(without(whole, new), "leporid")
        first = known.select(np.isin(known.item, new))
        about = self.about(whole)
        for name, log, steps in (
            ("grown by content", None, 0),
            ("grown by content and interactions", first, 0),
            ("grown by content and interactions, 300 steps", first, 300),
        ):
            grown, seconds = self.timed(base.extend, about, log, steps=steps, progress=False)
            yield name, grown, whole, {"seconds": seconds, "new": new}

    def warm(self) -> Iterator[tuple[str, Any, Split, dict[str, Any]]]:
        split = split_by(self.data, "temporal")
        for name in ("leporid", *(name for name in STARTS if name != "leporid")):
            model, seconds = self.trained(split, name)
            yield f"start {name}", model, split, {"seconds": seconds}
            if "content" in name:
                model.cold_items = None
                yield f"start {name}, places as they come", model, split, {}

    def rows(self, task: str) -> Iterator[dict[str, Any]]:
        """One row per model; the first is what the others are compared with."""
        first: tuple[str, Any] | None = None
        for name, model, split, more in getattr(self, task)():
            row: dict[str, Any] = {"what": name}
            at: dict[str, Any] = {"at": (10,), "metrics": ("NDCG",)}
            judged = evaluate(model, split, **at)
            row["all"] = judged.mean()[METRIC]
            compared = judged.per_user(METRIC)
            new = more.pop("new", None)
            if task == "cold":
                new = np.setdiff1d(np.arange(split.train.n_items), split.train_valid.item)
                row["cold"] = judged.mean(stratum="cold-items")[METRIC]
                row["warm"] = judged.mean(stratum="warm-items")[METRIC]
                compared = judged.per_user(METRIC, stratum="warm-items")
            elif new is not None:
                for part, chosen in (("new", True), ("old", False)):
                    test = split.test.select(np.isin(split.test.item, new) == chosen)
                    table = evaluate(model, Split(split.train, split.valid, test, part), **at)
                    row[part], compared = table.mean()[METRIC], table.per_user(METRIC)
            if new is not None:
                row["places"] = places(model, split, new)
            if first is None:
                first = name, compared
            else:
                found = compare(compared, first[1], METRIC)
                row |= {"against": first[0], "low": found.low, "high": found.high}
            yield {**row, **{key: round(value, 3) for key, value in more.items()}}


def collect(folder: Path) -> None:
    """One record of all jobs in a folder: means over the seeds, and every job as it is."""
    jobs = [read_json(path) for path in sorted(folder.glob("*.json"))]
    same = defaultdict(list)
    for job in jobs:
        for row in job["rows"]:
            same[tuple(job["job"][key] for key in GROUP), row["what"]].append(row)
    rows: list[dict[str, Any]] = []
    for (group, what), found in same.items():
        row = {**dict(zip(GROUP, group, strict=True)), "what": what, "seeds": len(found)}
        for key in dict.fromkeys(key for one in found for key in one if key != "what"):
            values = [one[key] for one in found]
            row[key] = values[0] if key == "against" else float(np.mean(values))
        rows.append(row)
    where = sorted({f"{job['machine']['processor']}, {job['device']}" for job in jobs})
    settings = {"cold share": SHARE, "metric": METRIC, "recipe": "general"}
    write_record("cold_items", rows, {**settings, "trained on": "; ".join(where)}, NOTES)
    write_json(RECORDS / "cold_items" / "jobs.json", jobs)


def main() -> None:
    """Do one job, or collect those that are done."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--task", default="cold", choices=("cold", "grow", "warm"))
    parser.add_argument("--log", default="lastfm", choices=CORES)
    parser.add_argument("--model", default="sasrec")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--small", type=int, default=0, help="steps of a small model, for a CPU")
    parser.add_argument("-o", "--output", type=Path, default=Path("cold-items"))
    parser.add_argument("--collect", type=Path, metavar="OUT")
    options = parser.parse_args()
    if options.collect:
        collect(options.collect)
        return
    warnings.simplefilter("ignore", LeporidWarning)
    job = {key: getattr(options, key) for key in ("task", "log", "model", "seed", "small")}
    name = "-".join(str(part) for part in job.values())
    path = options.output / f"{name}.json"
    if path.is_file():
        print(f"{path} is there already")
        return
    rows = []
    for row in Job(options).rows(options.task):
        print({**job, **row}, flush=True)
        rows.append(row)
    options.output.mkdir(parents=True, exist_ok=True)
    record = {"job": job, "device": options.device, "machine": machine(), "rows": rows}
    write_json(path, record)


if __name__ == "__main__":
    main()
