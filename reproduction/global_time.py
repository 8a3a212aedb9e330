"""One date for all users: every model trained before it, beside its rank under the temporal split.

The experiment `global-time` has the runs before a date. Under the temporal split the classical
models as they come are in `defaults`, the neural ones in `leaderboard`, and DLR2 as it comes in
`default`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import kendalltau, rankdata

from leporid.errors import DataError
from leporid.evaluation import Comparison, holm
from leporid.runs import RunRecord
from reproduction.gains import paired_gains
from reproduction.leaderboard import DEFAULT, METRIC
from reproduction.store import PackedResults

EXPERIMENT, OURS = "global-time", "dlr2"
TEMPORAL = ("leaderboard", "defaults", DEFAULT)
"""Experiments under the temporal split; of a model in several, the last counts."""
LOGS = ("ml-100k", "movietweetings-100k")


@dataclass(frozen=True)
class Place:
    """A model on one log, trained before a date."""

    model: str
    value: float
    """NDCG@10 on test, mean over the seeds."""
    rank: int
    temporal_rank: int
    """Its rank among the same models under the temporal split."""
    gain: Comparison | None
    """DLR2 against it, adjusted by Holm over all models and logs; None for DLR2 itself."""

    @property
    def moved(self) -> int:
        """Ranks it gains by the date; below zero where it loses some."""
        return self.temporal_rank - self.rank


@dataclass(frozen=True)
class DatedLog:
    """One log of the experiment."""

    name: str
    places: tuple[Place, ...]
    """Best first."""
    users: int
    """Users of the test part."""
    cold_users: int
    """Those of them without training interactions."""

    @property
    def tau(self) -> float:
        """Kendall's tau of the two orders of models."""
        ranks = [(place.rank, place.temporal_rank) for place in self.places]
        return float(kendalltau(*zip(*ranks, strict=True)).statistic)

    def place(self, model: str) -> Place:
        """That of one model."""
        return next(place for place in self.places if place.model == model)


def read_global_time(root: str | Path, logs: Sequence[str] = LOGS) -> list[DatedLog]:
    """Every log with its models; the comparisons with DLR2 on all logs are one family."""
    dated = {log: _runs(root, log, [EXPERIMENT]) for log in logs}
    pairs = [(log, model) for log in logs for model in dated[log] if model != OURS]
    sides = [(dated[log][OURS], dated[log][model]) for log, model in pairs]
    gains = paired_gains(sides, root, METRIC)
    if lost := [pair for pair, gain in zip(pairs, gains, strict=True) if gain is None]:
        raise DataError(f"runs without the hits of their users: {lost}")
    adjusted = dict(zip(pairs, holm(gain for gain in gains if gain), strict=True))
    return [_log(root, log, dated[log], adjusted) for log in logs]


def _log(
    root: str | Path,
    log: str,
    dated: Mapping[str, Sequence[RunRecord]],
    gains: Mapping[tuple[str, str], Comparison],
) -> DatedLog:
    temporal = _runs(root, log, TEMPORAL)
    if lacking := dated.keys() - temporal.keys():
        raise DataError(f"{log}: no runs under the temporal split of {sorted(lacking)}")
    values, ranks = _ranks(dated), _ranks({model: temporal[model] for model in dated})
    places = [
        Place(model, value, rank, ranks[model][1], gains.get((log, model)))
        for model, (value, rank) in values.items()
    ]
    users = next(gain.n_users for (name, _), gain in gains.items() if name == log)
    cold = int(dated[OURS][0].extra["cold_users"])
    return DatedLog(log, tuple(sorted(places, key=lambda place: -place.value)), users, cold)


def _runs(root: str | Path, log: str, experiments: Sequence[str]) -> dict[str, list[RunRecord]]:
    """The runs of each model as it comes: from LEPORID embeddings where it has a table."""
    found: dict[str, list[RunRecord]] = {}
    for experiment in experiments:
        own: dict[str, list[RunRecord]] = {}
        for record in PackedResults(root).records(log, [experiment]):
            if record.init in (None, "leporid") and not record.variant:
                own.setdefault(record.model, []).append(record)
        found |= own
    if len({r.extra.get("data_digest") for runs in found.values() for r in runs}) > 1:
        raise DataError(f"{log}: the runs of {', '.join(experiments)} are on different splits")
    return found


def _ranks(runs: Mapping[str, Sequence[RunRecord]]) -> dict[str, tuple[float, int]]:
    """Of each model the mean over its seeds, and its rank."""
    means = [float(np.mean([run.metrics[METRIC] for run in of])) for of in runs.values()]
    ranks = rankdata(np.negative(means), method="min").astype(int).tolist()
    return dict(zip(runs, zip(means, ranks, strict=True), strict=True))
