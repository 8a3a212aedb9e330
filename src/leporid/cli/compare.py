"""`leporid compare`: runs side by side, with intervals and paired tests."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument

from leporid.cli.options import Json, parse_list
from leporid.cli.output import print_json, print_table
from leporid.errors import ConfigError


def compare(
    runs: Annotated[list[Path], Argument(help="Folders of `leporid train`, or record files.")],
    metrics: Annotated[str, "Metrics to show and test, separated by commas."] = "HR@10,F1@10",
    against: Annotated[str | None, "Test all others against this run [every pair]."] = None,
    resamples: Annotated[int, "Resamples behind the intervals."] = 1000,
    seed: Annotated[int, "Seed of the resamples."] = 0,
    json_output: Json = False,
) -> None:
    """Metrics of several runs side by side, and whether their difference is more than luck.

    Intervals are 95% bootstrap intervals over users. Pairs are tested user by user (Wilcoxon
    signed-rank, two-sided, Holm-corrected over all rows); runs on different data are refused.
    """
    from leporid.runs import compare_runs, paired_tests, read_run

    if len(runs) < 2:
        raise ConfigError("a comparison needs at least two runs")
    read = [read_run(path) for path in runs]
    names = parse_list(metrics)
    rows = compare_runs(read, names, resamples=resamples, seed=seed)
    tests: list[dict[str, Any]] = []
    untested = [run.name for run in read if run.outcomes is None]
    testable = [name for name in names if name.partition("@")[0] in ("HR", "F1")]
    if not untested and testable:
        target = str(Path(against)) if against else None
        tests = paired_tests(read, testable, against=target, resamples=resamples, seed=seed)
    if json_output:
        print_json({"runs": rows, "tests": tests})
        return
    print_table("runs on test, with 95% intervals", [_shown(row, names) for row in rows])
    if tests:
        print_table("differences, user by user", [_shown_test(row) for row in tests])
    if untested:
        typer.echo(f"not tested: {', '.join(untested)} kept no outcomes of single users")


def _shown(row: dict[str, Any], metrics: list[str]) -> dict[str, Any]:
    shown = {key: str(row[key]) for key in ("run", "model")} | {"init": row["init"] or "-"}
    shown["has seen"] = row["seen"]
    for metric in metrics:
        value = row[metric]
        interval = "" if value["low"] is None else f" [{value['low']:.4f}, {value['high']:.4f}]"
        shown[metric] = f"{value['mean']:.4f}{interval}"
        if value["tail"] is not None:
            shown[f"{metric} tail"] = f"{value['tail']:.4f}"
    return shown


def _shown_test(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "metric": row["metric"],
        "runs": f"{row['first']} - {row['second']}",
        "difference": f"{row['difference']:+.4f}",
        "95% interval": f"{row['low']:+.4f} .. {row['high']:+.4f}",
        "p (Holm)": f"{row['p_holm']:.2g}",
    }
