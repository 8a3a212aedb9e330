"""Runs side by side: metrics with intervals, and the `Comparison` of runs or of groups of them.

Works on run folders (`leporid train -o RUN`) and on records of experiments alike: both keep the
hits per user. `initialisation_gains` compares two initialisations of each model over its seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from leporid.errors import ConfigError, DataError, UnknownNameError
from leporid.evaluation import Comparison, MetricTable, compare, compare_all
from leporid.experiments.record import RunRecord
from leporid.experiments.run_folder import Run
from leporid.experiments.store import Results

_OF_LISTS = ("Coverage", "Popularity", "Gini")
"""Metrics that hits alone do not give."""


def compare_runs(runs: Sequence[Run], metrics: Sequence[str]) -> list[dict[str, Any]]:
    """One row per run: `{"run", "model", "init", "seed", "seen", metric: {"mean", "low", ...}}`.

    A metric has its `mean`, a 95% interval over users from `low` to `high`, and the mean of tail
    users (`tail`). Interval and `tail` are None where the run did not keep them.
    """
    rows = []
    for run in runs:
        record = run.record
        row: dict[str, Any] = {"run": run.name}
        row |= {key: getattr(record, key) for key in ("model", "init", "seed", "seen")}
        for metric in metrics:
            if metric not in record.metrics:
                raise UnknownNameError(f"metric of {run.name}:", metric, record.metrics)
            low, high = _interval(run, metric)
            tail = record.tail_metrics.get(metric)
            row[metric] = {"mean": record.metrics[metric], "low": low, "high": high, "tail": tail}
        rows.append(row)
    return rows


def paired_tests(
    runs: Sequence[Run], metrics: Sequence[str], *, against: str | None = None
) -> list[Comparison]:
    """`compare_all` of the runs by name: every pair, or each `against` one, Holm-adjusted.

    Metrics that runs keep no values per user of (coverage, popularity, Gini) are left out.
    """
    names = [run.name for run in runs]
    if len(set(names)) < len(names):
        raise ConfigError("the same run was given twice: nothing to compare")
    testable = [metric for metric in metrics if metric.partition("@")[0] not in _OF_LISTS]
    return compare_all(_tables(runs), testable, against=against)


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

    The interval is that of `compare`. The last columns are what the model has seen of its users
    when it was tested, and the HR@10 of tail users.
    """
    init, base = "leporid", "random"
    groups: dict[tuple[str, str | None], dict[str, list[RunRecord]]] = {}
    for record in records:
        if record.init in (init, base) and not record.variant:
            key = (record.model, record.recipe)
            groups.setdefault(key, {}).setdefault(record.init, []).append(record)
    pairs = [(runs.get(init, ()), runs.get(base, ())) for runs in groups.values()]
    gains = paired_gains(pairs, root)
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
        row["has seen"] = have_seen([*runs[init], *runs[base]])
        for name in (init, base):
            tails = [record.tail_metrics.get("HR@10", np.nan) for record in runs[name]]
            row[f"{name} tail"] = float(np.mean(tails))
        rows.append(row)
    return rows


def have_seen(records: Sequence[RunRecord]) -> str:
    """What the runs of one row of a table have seen of their users; "-" for a row without runs."""
    return " / ".join(sorted({record.seen for record in records})) or "-"


def _interval(run: Run, metric: str) -> tuple[float, float] | tuple[None, None]:
    if run.outcomes is None or metric.partition("@")[0] in _OF_LISTS:
        low, high = run.record.extra.get("confidence_95", {}).get(metric, (None, None))
        return low, high
    return run.outcomes.confidence(metric)[1:]


def _tables(runs: Sequence[Run]) -> dict[str, MetricTable]:
    """The tables of the runs by name, if all were tested on the same users and items."""
    tables: dict[str, MetricTable] = {}
    for run in runs:
        if run.outcomes is None:
            raise DataError(
                f"{run.name} keeps no hits per user (record.users.parquet), so it cannot be "
                f"compared with another run: train it again, or evaluate it with --export"
            )
        tables[run.name] = run.outcomes
        digests = {r.record.extra.get("data_digest") for r in (runs[0], run)} - {None}
        if not tables[runs[0].name].same_users(run.outcomes) or len(digests) > 1:
            raise DataError(
                f"{runs[0].name} and {run.name} were not tested on the same users and items: "
                f"train both on one file with the same --core"
            )
    return tables


def _by_seed(records: Sequence[RunRecord], root: str | Path) -> dict[int, MetricTable]:
    """The tables of the runs by seed; empty where a run kept none. Repeated seeds are numbered."""
    tables = [Results(root).outcomes(record.key) for record in records]
    kept = [table for table in tables if table is not None]
    if len(kept) < len(tables):
        return {}
    by_seed = {record.seed: table for record, table in zip(records, kept, strict=True)}
    return by_seed if len(by_seed) == len(kept) else dict(enumerate(kept))
