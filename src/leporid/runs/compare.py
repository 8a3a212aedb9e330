"""Runs side by side: metrics with intervals, paired tests, and the page of `leporid compare`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import leporid.html as page
from leporid.errors import ConfigError, DataError, UnknownNameError
from leporid.evaluation import Comparison, MetricTable, compare_all
from leporid.runs.folder import SavedRun
from leporid.runs.report import hits_in_words

_OF_LISTS = ("Coverage", "Popularity", "Gini")
"""Metrics that hits alone do not give."""


def compare_runs(
    runs: Sequence[SavedRun], metrics: Sequence[str]
) -> list[dict[str, Any]]:
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
            low, high = record.extra.get("confidence_95", {}).get(metric, (None, None))
            if run.outcomes is not None and metric.partition("@")[0] not in _OF_LISTS:
                _, low, high = run.outcomes.confidence(metric)
            tail = record.tail_metrics.get(metric)
            row[metric] = {
                "mean": record.metrics[metric],
                "low": low,
                "high": high,
                "tail": tail,
            }
        rows.append(row)
    return rows


def paired_tests(
    runs: Sequence[SavedRun], metrics: Sequence[str], *, against: str | None = None
) -> list[Comparison]:
    """`compare_all` of the runs by name: every pair, or each `against` one, Holm-adjusted.

    Metrics that runs keep no values per user of (coverage, popularity, Gini) are left out.
    """
    tables: dict[str, MetricTable] = {}
    first = runs[0]
    for run in runs:
        if run.name in tables:
            raise ConfigError("the same run was given twice: nothing to compare")
        if run.outcomes is None:
            raise DataError(
                f"{run.name} keeps no hits per user (record.users.parquet), so it cannot be "
                f"compared with another run: train it again, or evaluate it with --export"
            )
        tables[run.name] = run.outcomes
        digests = {r.record.extra.get("data_digest") for r in (first, run)} - {None}
        if len(digests) > 1 or not tables[first.name].same_users(run.outcomes):
            raise DataError(
                f"{first.name} and {run.name} were not tested on the same users and items: "
                f"train both on one file with the same --core"
            )
    testable = [
        metric for metric in metrics if metric.partition("@")[0] not in _OF_LISTS
    ]
    return compare_all(tables, testable, against=against)


def write_comparison(
    path: Path,
    runs: Sequence[Mapping[str, Any]],
    tests: Sequence[Comparison],
    tables: Mapping[str, Sequence[Mapping[str, Any]]],
) -> None:
    """Write the page of `leporid compare`: the runs, who is above whom, and its `tables`."""
    said = [f"{test.describe()}." for test in tests]
    first, *others = runs
    metrics = [key for key, value in first.items() if isinstance(value, Mapping)]
    if "HR@10" in metrics:
        more = {run["run"]: run["HR@10"]["mean"] for run in others}
        said.insert(
            0, hits_in_words(first["HR@10"]["mean"], more, of=f" of {first['run']}")
        )
    charts = ""
    for metric in metrics:
        found = {run["run"]: run[metric] for run in runs}
        ends = {
            n: (of["low"], of["high"])
            for n, of in found.items()
            if of["low"] is not None
        }
        means = {name: of["mean"] for name, of in found.items()}
        charts += page.bars_html(
            means, f"{metric} on test, with 95% intervals over users", ends
        )
    sections = [("Side by side", f"<div class='charts'>{charts}</div>")]
    sections += [
        ("", page.rows_html(rows, caption)) for caption, rows in tables.items() if rows
    ]
    page.write_report(path, "leporid compare", sections, "\n".join(said))
