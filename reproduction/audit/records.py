"""Records, hits and statistics for the auditor, by code of their own.

Nothing here comes from the code that makes the pages: JSON lines and parquet files are read as
they are, metrics are computed from the bits of the stored hits, and intervals by an analysis of
variance.
"""

from __future__ import annotations

import base64
import json
import math
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy import stats

Values = NDArray[np.float64]
Side = Mapping[int, Values]
"""Values per user by seed."""
Record = Mapping[str, Any]
ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks" / "records"
PRINTED: dict[str, list[dict[str, Any]]] = json.loads(
    (ROOT / "reproduction" / "paper_values.json").read_text("utf-8")
)
"""What the paper prints."""
COUNTERPARTS = {"ml-1m": "ml-1m", "ml-1m-r3": "ml-1m", "anime-5k": "anime"}
"""The paper's data sets that ours stand for."""
METRICS = ("HR@5", "HR@10", "F1@5", "F1@10")
"""Those of the paper's tables."""
_READ_HISTORIES = ("dlr2", "hgn", "sasrec")
"""What read validation on test while records did not say it."""


class Store:
    """What lies in a folder of results."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.datasets = [path.stem for path in sorted(root.glob("*.jsonl"))]
        text = (root / "activity-quartiles.json").read_text(encoding="utf-8")
        self.quartiles = {
            digest: np.frombuffer(zlib.decompress(base64.b64decode(one["quartiles"])), "<i4")
            for digest, one in json.loads(text).items()
        }
        """By digest of the split, the quartile of activity of each tested user."""
        self._records: dict[str, list[Record]] = {}
        self._hits: dict[str, tuple[Values, Values]] = {}

    def records(self, dataset: str) -> list[Record]:
        """Every record of a data set."""
        if dataset not in self._records:
            path = self.root / f"{dataset}.jsonl"
            lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else ()
            self._records[dataset] = [json.loads(line) for line in lines]
        return self._records[dataset]

    def select(
        self, dataset: str, experiments: Iterable[str], **fields: str | None
    ) -> list[Record]:
        """The records of some experiments whose fields are these, in the order of seeds."""
        names = set(experiments)
        found = [
            record
            for record in self.records(dataset)
            if record["experiment"] in names
            and all(_field(record, name) == value for name, value in fields.items())
        ]
        return sorted(found, key=lambda record: record["seed"])

    def values(self, record: Record, metric: str) -> Values:
        """A metric of every tested user."""
        if record["dataset"] not in {key.split("/")[0] for key in self._hits}:
            self._read_hits(record["dataset"])
        bits, relevant = self._hits[_key(record)]
        family, _, cutoff = metric.partition("@")
        listed = bits[:, : int(cutoff)]
        if family == "HR":
            return np.asarray(listed.max(axis=1), np.float64)
        if family == "NDCG":
            weights = 1 / np.log2(2 + np.arange(listed.shape[1]))
            best = np.concatenate([[0.0], np.cumsum(weights)])
            places = np.minimum(relevant.astype(int), listed.shape[1])
            return np.asarray(listed @ weights / best[places], np.float64)
        raise ValueError(metric)

    def side(self, records: Sequence[Record], metric: str, quartile: int = 0) -> Side:
        """Values by seed, of all users or of a quartile of activity."""
        found = {}
        for number, record in enumerate(records):
            values = self.values(record, metric)
            if quartile:
                values = values[self.quartiles[record["extra"]["data_digest"]] == quartile]
            found[record["seed"] if _seeds_differ(records) else number] = values
        return found

    def _read_hits(self, dataset: str) -> None:
        """Files in the order in which they were written: later ones replace earlier ones."""
        later = sorted(self.root.glob(f"{dataset}/*.users.parquet"), key=_number)
        for path in [self.root / f"{dataset}.users.parquet", *later]:
            if not path.is_file():
                continue
            for row in pq.read_table(path).to_pylist():
                if row["hits"] is not None:
                    masks = np.array(row["hits"], np.int64)
                    bits = masks[:, None] >> np.arange(10) & 1
                    relevant = np.array(row["relevant"], np.float64)
                    self._hits[row["run"]] = bits.astype(np.float64), relevant


def history(record: Record) -> str:
    """The part of the users' histories that a model read on test."""
    reads = record["model"] in _READ_HISTORIES
    return str(record["extra"].get("seen", "train and validation" if reads else "train only"))


def variant(record: Record) -> str | None:
    """The name of an ablation."""
    name: str | None = record["extra"].get("cell", {}).get("variant")
    return name


def mean(records: Sequence[Record], metric: str, part: str = "metrics") -> float:
    """Over runs."""
    values = [record[part].get(metric, math.nan) for record in records]
    return math.fsum(values) / len(values)


def deviation(records: Sequence[Record], metric: str) -> float:
    """The standard deviation over runs."""
    values = np.array([record["metrics"][metric] for record in records])
    return float(np.sqrt(np.square(values - values.mean()).sum() / (len(values) - 1)))


@dataclass(frozen=True)
class Found:
    """A comparison that the auditor made."""

    first: float
    second: float
    difference: float
    half: float
    p: float

    @property
    def low(self) -> float:
        """The lower end of the 95% interval."""
        return self.difference - self.half

    @property
    def high(self) -> float:
        """The upper end."""
        return self.difference + self.half

    @property
    def word(self) -> str:
        """Better, worse, equivalent or inconclusive."""
        if self.p <= 0.05:
            return "better" if self.difference > 0 else "worse"
        inside = abs(self.low) < 0.02 * self.second and abs(self.high) < 0.02 * self.second
        return "equivalent" if inside else "inconclusive"

    def percent(self, value: float) -> float:
        """A difference in percent of the second value."""
        return 100 * value / self.second


def compared(a: Side, b: Side) -> Found:
    """The t test over users and seeds, by variance components."""
    first, second = (np.array([side[seed] for seed in sorted(side)]) for side in (a, b))
    users = first.shape[1]
    gap = first.mean(axis=0) - second.mean(axis=0)
    parts = [(gap.var(ddof=1) / users, users - 1)]
    variance = parts[0][0]
    for runs in [first - second] if a.keys() == b.keys() else [first, second]:
        seeds = len(runs)
        if seeds > 1:
            of_runs, of_users = runs.mean(axis=1), runs.mean(axis=0)
            rest = runs - of_runs[:, None] - of_users[None, :] + runs.mean()
            error = np.square(rest).sum() / ((users - 1) * (seeds - 1))
            between = users * of_runs.var(ddof=1)
            variance += max(between - error, 0.0) / (users * seeds)
            parts.append((between / (users * seeds), seeds - 1))
    difference = float(first.mean() - second.mean())
    freedom = variance**2 / sum(part**2 / n for part, n in parts) if variance else 1.0
    scale = math.sqrt(variance)
    p = 2 * stats.t.cdf(-abs(difference) / scale, freedom) if scale else float(difference == 0)
    half = scale * stats.t.isf(0.025, freedom) if scale else 0.0
    return Found(float(first.mean()), float(second.mean()), difference, float(half), float(p))


def holm(family: Sequence[Found]) -> list[Found]:
    """The family with adjusted p-values."""
    adjusted = list(family)
    largest = 0.0
    for place, index in enumerate(sorted(range(len(family)), key=lambda i: family[i].p)):
        largest = max(largest, min(1.0, family[index].p * (len(family) - place)))
        adjusted[index] = replace(family[index], p=largest)
    return adjusted


def ratios(a: Side, b: Side, is_tail: NDArray[np.bool_]) -> Found:
    """The ratio of both sides' means among tail users against that among all users."""

    def spread(members: NDArray[np.bool_]) -> dict[int, Values]:
        top = np.mean([values[members].mean() for values in a.values()])
        bottom = np.mean([values[members].mean() for values in b.values()])
        weight = members / members.mean()
        return {
            seed: top / bottom * (1 + weight * (a[seed] / top - b[seed] / bottom)) for seed in a
        }

    return compared(spread(is_tail), spread(np.ones(len(is_tail), np.bool_)))


def _field(record: Record, name: str) -> str | None:
    value: str | None = variant(record) if name == "variant" else record[name]
    return value


def _seeds_differ(records: Sequence[Record]) -> bool:
    return len({record["seed"] for record in records}) == len(records)


def _key(record: Record) -> str:
    """The name under which the hits of a run are filed."""
    names = (record["dataset"], record["experiment"], record["model"], record["init"] or "none")
    dataset, experiment, model, init = (_safe(name) for name in names)
    return f"{dataset}/{experiment}/{model}-{init}-{record['seed']}-{record['spec_hash']}"


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name)


def _number(path: Path) -> int:
    found = re.search(r"\+(\d+)\.users", path.name)
    return int(found[1]) if found else 1
