"""What LEPORID vectors gain over random ones, model by model, with an interval over users."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leporid.evaluation.bootstrap import bootstrap_means, percentile_interval
from leporid.runs.record import RunRecord
from leporid.runs.store import Results

__all__ = ["initialisation_gains"]


def initialisation_gains(
    records: Sequence[RunRecord],
    root: str | Path,
    *,
    init: str = "leporid",
    base: str = "random",
    n: int = 10,
    resamples: int = 2000,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """One row per model and recipe that was run from both: HR@n of each, and the difference.

    A user's value is the mean over the seeds; the interval is a 95% percentile bootstrap over
    users of the paired difference. It speaks of other users, not of other seeds: the spread over
    seeds stands beside it. The last two columns are the HR@n of tail users.
    """
    groups: dict[tuple[str, str | None], dict[str, list[RunRecord]]] = {}
    for record in records:
        if record.init in (init, base) and not record.variant:
            key = (record.model, record.recipe)
            groups.setdefault(key, {}).setdefault(record.init, []).append(record)
    rows = []
    for (model, recipe), runs in groups.items():
        if set(runs) != {init, base}:
            continue
        sides = {name: _hit_rates(runs[name], root, n) for name in (init, base)}
        if any(len(values) == 0 for values in sides.values()):
            continue
        gap = sides[init].mean(axis=0) - sides[base].mean(axis=0)
        resampled = bootstrap_means(gap[:, None], resamples, seed)
        low, high = percentile_interval(resampled[:, 0], 0.95)
        row: dict[str, Any] = {"model": model, "recipe": recipe or "-"}
        for name in (init, base):
            by_seed = sides[name].mean(axis=1)
            row[f"{name} HR@{n}"] = float(by_seed.mean())
            row[f"{name} seeds"] = f"{by_seed.min():.4f} to {by_seed.max():.4f}"
        row |= {"gain": float(gap.mean()), "low": low, "high": high}
        rows.append(row | {f"{name} tail": _tail(runs[name], n) for name in (init, base)})
    return rows


def _tail(records: Sequence[RunRecord], n: int) -> float:
    values = [record.tail_metrics.get(f"HR@{n}", float("nan")) for record in records]
    return float(np.mean(values))


def _hit_rates(records: Sequence[RunRecord], root: str | Path, n: int) -> NDArray[np.float64]:
    """float64[seeds, users]; empty where a run kept no outcomes of users."""
    kept = [Results(root).outcomes(record.key) for record in records]
    rates = [outcomes.hit_rate(n) for outcomes in kept if outcomes is not None]
    return np.stack(rates) if len(rates) == len(records) else np.empty((0, 0))
