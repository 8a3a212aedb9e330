"""The gain of one group of runs over another, over users and seeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from leporid.evaluation import Comparison, MetricTable, compare, holm
from leporid.runs import RunRecord
from reproduction.store import PackedResults


def paired_gains(
    pairs: Sequence[tuple[Sequence[RunRecord], Sequence[RunRecord]]],
    root: str | Path,
    metric: str = "HR@10",
) -> list[Comparison | None]:
    """`compare` the first runs of each pair with the second, over users and seeds.

    None where a run kept no hits.
    """
    gains: list[Comparison | None] = []
    for pair in pairs:
        a, b = (_by_seed(records, root) for records in pair)
        gains.append(compare(a, b, metric) if a and b else None)
    return gains


def initialisation_gains(records: Sequence[RunRecord], root: str | Path) -> list[dict[str, Any]]:
    """One row per model and recipe run from LEPORID and random vectors: HR@10, and the difference.

    The interval is that of `compare`; the outcome is that of the rows as one family. The last
    columns are what the model has seen of its users when it was tested, and the tail users' HR@10.
    """
    init, base = "leporid", "random"
    groups: dict[tuple[str, str | None], dict[str, list[RunRecord]]] = {}
    for record in records:
        if record.init in (init, base) and not record.variant:
            key = (record.model, record.recipe)
            groups.setdefault(key, {}).setdefault(record.init, []).append(record)
    pairs = [(runs.get(init, ()), runs.get(base, ())) for runs in groups.values()]
    gains = paired_gains(pairs, root)
    adjusted = iter(holm(gain for gain in gains if gain))
    rows = []
    for ((model, recipe), runs), gain in zip(groups.items(), gains, strict=True):
        if gain is None:
            continue
        row: dict[str, Any] = {"model": model, "recipe": recipe or "-"}
        for name, mean in ((init, gain.mean_a), (base, gain.mean_b)):
            by_seed = [record.metrics["HR@10"] for record in runs[name]]
            row[f"{name} HR@10"] = mean
            row[f"{name} seeds"] = f"{min(by_seed):.4f} to {max(by_seed):.4f}"
        row |= {"gain": gain.difference, "low": gain.low, "high": gain.high}
        row["outcome"] = next(adjusted).outcome
        row["has seen"] = have_seen([*runs[init], *runs[base]])
        for name in (init, base):
            tails = [record.tail_metrics.get("HR@10", np.nan) for record in runs[name]]
            row[f"{name} tail"] = float(np.mean(tails))
        rows.append(row)
    return rows


def have_seen(records: Sequence[RunRecord]) -> str:
    """What the runs of one row of a table have seen of their users; "-" for a row without runs."""
    return " / ".join(sorted({record.seen for record in records})) or "-"


def _by_seed(records: Sequence[RunRecord], root: str | Path) -> dict[int, MetricTable]:
    """The tables of the runs by seed; empty where a run kept none. Repeated seeds are numbered."""
    tables = [PackedResults(root).outcomes(record.key) for record in records]
    kept = [table for table in tables if table is not None]
    if len(kept) < len(tables):
        return {}
    by_seed = {record.seed: table for record, table in zip(records, kept, strict=True)}
    return by_seed if len(by_seed) == len(kept) else dict(enumerate(kept))
