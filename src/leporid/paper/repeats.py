"""The same request run more than once: what a repetition alone changes."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from leporid import initializers
from leporid.runs import Results, RunRecord

_GROUPS = ("initialisers", "losses", "architectures", "alpha", "neighbours")
"""Each has the paper's DLR2 from LEPORID among its runs."""


@dataclass(frozen=True)
class Repeats:
    """Runs that differ in nothing but when they were made."""

    dataset: str
    model: str
    seed: int
    values: dict[str, float]
    """HR@10 by the group of runs a run belongs to."""

    @property
    def deviation(self) -> float:
        """Standard deviation of HR@10 from run to run."""
        return float(np.std(list(self.values.values()), ddof=1))


def repeats(root: str | Path, *datasets: str) -> list[Repeats]:
    """Every request that was run more than once, by data set and seed."""
    same: dict[tuple[str, str, int, str], dict[str, float]] = defaultdict(dict)
    for dataset in datasets:
        for record in Results(root).records(dataset, _GROUPS):
            key = dataset, record.model, record.seed, _request(record)
            same[key][record.experiment] = record.metrics["HR@10"]
    return [Repeats(*key[:3], values) for key, values in sorted(same.items()) if len(values) > 1]


def run_to_run(found: list[Repeats]) -> float:
    """The standard deviation over the repetitions of a request, pooled; 0 where none is known."""
    return float(np.sqrt(np.mean([one.deviation**2 for one in found]))) if found else 0.0


def _request(record: RunRecord) -> str:
    """The start and all settings, defaults filled in."""
    given = record.extra["cell"]["init_settings"]
    start = initializers.get(record.init).config_class(**given).to_dict() if record.init else {}
    return json.dumps([record.init, record.config, start], sort_keys=True)
