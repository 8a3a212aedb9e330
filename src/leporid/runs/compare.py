"""Runs side by side: metrics with intervals, paired tests, and the page of `leporid compare`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leporid.errors import ConfigError, DataError, UnknownNameError
from leporid.evaluation import Comparison, MetricTable, compare_all
from leporid.foundation import html as page
from leporid.runs.folder import SavedRun
from leporid.runs.report import hits_in_words

_LIST_METRICS = ("Coverage", "Popularity", "Gini")
"""Metrics that hits alone do not give."""


def compare_runs(
    runs: Sequence[SavedRun], metrics: Sequence[str]
) -> list[dict[str, Any]]:
    """Return one row per run: `{"run", "model", "init", "seed", "seen", metric: {"mean", ...}}`.

    A metric has its `mean`, a 95% interval over users from `low` to `high`, and the mean of tail
    users (`tail`). Interval and `tail` are None where the run did not keep them.
    """
    rows = []
    for run in runs:
        record = run.record
        row: dict[str, Any] = {
            "run": run.name,
            "model": record.model,
            "init": record.init,
            "seed": record.seed,
            "seen": record.seen,
        }
        for metric in metrics:
            row[metric] = metric_values(run, metric)
        rows.append(row)
    return rows


def metric_values(run: SavedRun, metric: str) -> dict[str, float | None]:
    """Return the mean of a metric, its interval, and the mean of the tail users."""
    record = run.record
    if metric not in record.metrics:
        raise UnknownNameError(f"metric of {run.name}:", metric, record.metrics)
    intervals = record.extra.get("confidence_95", {})
    low, high = intervals.get(metric, (None, None))
    if run.outcomes is not None and is_testable(metric):
        _, low, high = run.outcomes.confidence(metric)
    return {
        "mean": record.metrics[metric],
        "low": low,
        "high": high,
        "tail": record.tail_metrics.get(metric),
    }


def is_testable(metric: str) -> bool:
    """Tell whether a metric has a value for each user."""
    return metric.partition("@")[0] not in _LIST_METRICS


def paired_tests(
    runs: Sequence[SavedRun], metrics: Sequence[str], *, against: str | None = None
) -> list[Comparison]:
    """Compare the runs by name: every pair, or each `against` one, Holm-adjusted.

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
        digests = {each.record.extra.get("data_digest") for each in (first, run)}
        same_data = len(digests - {None}) < 2
        if not same_data or not tables[first.name].same_users(run.outcomes):
            raise DataError(
                f"{first.name} and {run.name} were not tested on the same users and items: "
                f"train both on one file with the same --core"
            )
    testable = [metric for metric in metrics if is_testable(metric)]
    return compare_all(tables, testable, against=against)


def write_comparison(
    path: Path,
    runs: Sequence[Mapping[str, Any]],
    tests: Sequence[Comparison],
    tables: Mapping[str, Sequence[Mapping[str, object]]],
) -> None:
    """Write the page of `leporid compare`: the runs, which beats which, and its `tables`."""
    first, *others = runs
    sentences = [f"{test.describe()}." for test in tests]
    metrics = [key for key, value in first.items() if isinstance(value, Mapping)]
    if "HR@10" in metrics:
        hits = {run["run"]: run["HR@10"]["mean"] for run in others}
        words = hits_in_words(first["HR@10"]["mean"], hits, of=f" of {first['run']}")
        sentences.insert(0, words)
    charts = ""
    for metric in metrics:
        values = {run["run"]: run[metric] for run in runs}
        means = {name: each["mean"] for name, each in values.items()}
        ends = {
            name: (each["low"], each["high"])
            for name, each in values.items()
            if each["low"] is not None
        }
        caption = f"{metric} on test, with 95% intervals over users"
        charts += page.bars_html(means, caption, ends)
    sections = [("Side by side", f"<div class='charts'>{charts}</div>")]
    for caption, rows in tables.items():
        if rows:
            sections.append(("", page.rows_html(rows, caption)))
    page.write_report(path, "leporid compare", sections, "\n".join(sentences))
