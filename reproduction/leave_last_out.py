"""The last item of each user held out: what each change of a sequence model does, on two files.

Records of the experiment `leave-last-out`. A lever is one change of SASRec's recipe `general` (from
LEPORID embeddings); those with as many seeds are compared with it over users and seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from leporid.evaluation import Comparison, holm
from leporid.runs import RunRecord
from reproduction.gains import paired_gains
from reproduction.leaderboard import METRIC
from reproduction.store import PackedResults

EXPERIMENT = "leave-last-out"
LOGS = ("beauty", "toys")
BASE = "SASRec as it comes"
OLDER = "recipe of 0.7.0: one layer, 64, dropout .5, no linear part"
LEVERS: dict[str, Mapping[str, Any]] = {
    BASE: {"variant": "as it comes"},
    "without the linear part": {"variant": "no linear part"},
    "64 dimensions instead of 128": {"variant": "64 dimensions"},
    "dropout .5 instead of .35": {"variant": "dropout .5"},
    "constant rate .001, no averaged weights": {"variant": "constant rate, no average"},
    "random embeddings": {"variant": "random embeddings"},
    "DLR2 as it comes": {"model": "dlr2"},
    OLDER: {},
    "the same with two layers": {"variant": "two layers"},
}
"""In the order of the table: the settings, model or initialiser that differ, or the variant."""
PRINTED = {
    "TV-Rec, its authors' best run": {"beauty": (0.1017, 0.0608)},
    "BSARec": {"beauty": (0.1008, 0.0611), "toys": (0.1050, 0.0650)},
    "HSTU, recomputed in RecBoard": {"beauty": (0.0948, 0.0541), "toys": (0.0992, 0.0593)},
    "eSASRec's SASRec": {"beauty": (0.0921, 0.0531), "toys": (0.0970, 0.0580)},
}
"""HR@10 and NDCG@10 that others print for the same files and protocol."""


@dataclass(frozen=True)
class Lever:
    """One row of the table on one log."""

    name: str
    records: tuple[RunRecord, ...]
    gain: Comparison | None
    """NDCG@10 against the base, adjusted by Holm; None for the base and with fewer seeds."""

    def mean(self, metric: str, part: str = "metrics") -> float:
        """Over the seeds."""
        return float(np.mean([getattr(record, part)[metric] for record in self.records]))


def read_levers(root: str | Path, logs: Sequence[str] = LOGS) -> dict[str, list[Lever]]:
    """The rows of each log that there are records of; all comparisons are one family."""
    found = {log: _grouped(PackedResults(root).records(log, [EXPERIMENT])) for log in logs}
    pairs = [
        (log, name)
        for log, groups in found.items()
        for name, records in groups.items()
        if name != BASE and len(records) == len(groups[BASE])
    ]
    sides = [(found[log][name], found[log][BASE]) for log, name in pairs]
    gains = paired_gains(sides, root, METRIC)
    kept = [pair for pair, gain in zip(pairs, gains, strict=True) if gain]
    adjusted = dict(zip(kept, holm(gain for gain in gains if gain), strict=True))
    return {
        log: [Lever(name, tuple(runs), adjusted.get((log, name))) for name, runs in groups.items()]
        for log, groups in found.items()
    }


def _grouped(records: Sequence[RunRecord]) -> dict[str, list[RunRecord]]:
    """Records of levers by name, in the order of `LEVERS`; others are left out."""
    groups: dict[str, list[RunRecord]] = {}
    for name, change in LEVERS.items():
        own = [record for record in records if _is(record, change)]
        if own:
            groups[name] = sorted(own, key=lambda record: record.seed)
    return groups


def _is(record: RunRecord, change: Mapping[str, Any]) -> bool:
    """Whether a run is SASRec's recipe with this change and no other."""
    if record.variant or "variant" in change:
        return record.variant == change.get("variant")
    asked = {"metric": METRIC, **record.extra["cell"]["settings"]}
    own = {"model": record.model, "init": record.init, **asked}
    return own == {"model": "sasrec", "init": "leporid", "metric": METRIC, **change}
