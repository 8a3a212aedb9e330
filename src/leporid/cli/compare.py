"""`leporid compare`: runs side by side, and whether they differ by more than chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument

from leporid.cli.options import Json, OutputFile, parse_list
from leporid.cli.printing import Part, Row, show
from leporid.errors import ConfigError

if TYPE_CHECKING:
    from leporid.evaluation import Comparison


def compare(
    runs: Annotated[
        list[Path] | None, Argument(help="Folders of `leporid train`, or record files.")
    ] = None,
    metrics: Annotated[
        str, "Metrics to show and test, separated by commas."
    ] = "NDCG@10,HR@10",
    against: Annotated[
        str | None, "Test all others against this run [every pair]."
    ] = None,
    report: Annotated[
        Path | None, OutputFile("Also write a page, such as compare.html.")
    ] = None,
    live: Annotated[
        str | None, "Instead of runs: the store of `leporid serve --share`."
    ] = None,
    days: Annotated[
        int, "--live: an event is a hit of lists shown up to so long before."
    ] = 7,
    json_output: Json = False,
) -> None:
    """Metrics of several runs side by side, and whether they differ by more than chance.

    Intervals are 95% t intervals over users. Runs are paired by user; p-values are two-sided and
    Holm-adjusted over all rows. Runs on different data are refused. An outcome is "better" or
    "worse" (p at most 0.05), "equivalent" (the interval lies within 2% of the second run), or
    "inconclusive".

    With --live: hits per list of two runs that were served side by side, by Welch's t-test.
    """
    from leporid.runs import compare_runs, paired_tests, read_run, write_comparison

    if live is not None:
        if runs:
            raise ConfigError(
                "--live compares the runs in its store: leave out the folders"
            )
        _compare_live(live, days, json_output)
        return
    if runs is None or len(runs) < 2:
        raise ConfigError("a comparison needs at least two runs")

    read_runs = [read_run(path) for path in runs]
    names = parse_list(metrics)
    rows = compare_runs(read_runs, names)
    untested = [run.name for run in read_runs if run.outcomes is None]
    tests: list[Comparison] = []
    if not untested:
        base = str(Path(against)) if against else None
        tests = paired_tests(read_runs, names, against=base)

    tables: dict[str, Sequence[Row]] = {
        "runs on test, with 95% intervals": _metric_rows(rows, names),
        "differences, paired by user": _difference_rows(tests),
    }
    lines: list[str] = []
    if untested:
        lines.append(f"not tested: {', '.join(untested)} kept no hits per user")
    if report is not None:
        write_comparison(report, rows, tests, tables)
        lines.append(f"wrote {report}")
    document = {"runs": rows, "tests": [test.to_dict() for test in tests]}
    show(json_output, document, *tables.items(), *lines)


def _metric_rows(
    runs: Sequence[Mapping[str, Any]], metrics: Sequence[str]
) -> list[Row]:
    """Return the metrics of each run with their intervals, and those of the tail if it has any."""
    rows: list[Row] = []
    for run in runs:
        cells = {
            "run": run["run"],
            "model": run["model"],
            "init": run["init"] or "-",
            "history": run["seen"],
        }
        for metric in metrics:
            values = run[metric]
            text = f"{values['mean']:.4f}"
            if values["low"] is not None:
                text += f" [{values['low']:.4f}, {values['high']:.4f}]"
            cells[metric] = text
            if values["tail"] is not None:
                cells[f"{metric} tail"] = f"{values['tail']:.4f}"
        rows.append(cells)
    return rows


def _difference_rows(tests: Sequence[Comparison]) -> list[Row]:
    """Return the differences between runs with their intervals."""
    return [
        {
            "metric": test.metric,
            "runs": f"{test.name_a} - {test.name_b}",
            "difference": f"{test.difference:+.4f}",
            "95% interval": test.interval(),
            "p (Holm)": f"{test.p_value:.2g}",
            "outcome": test.outcome,
        }
        for test in tests
    ]


def _compare_live(store: str, days: int, json_output: bool) -> None:
    """Compare the runs that a service showed side by side."""
    from leporid.serve import compare_live

    if days < 1:
        raise ConfigError(f"--days must be at least 1, not {days}")
    report: list[Row] = []
    parts: list[Part] = []
    for result in compare_live(store, days):
        rows = result.rows()
        parts.append((f"lists with events within {days} days", rows))
        parts.append(result.sentence())
        if result.left_out:
            parts.append(
                f"{result.left_out:,} users were shown lists of both and are left out"
            )
        report.append(
            {
                "runs": rows,
                "difference": result.comparison.to_dict(),
                "users_needed": result.users_needed,
                "left_out": result.left_out,
            }
        )
    show(json_output, report, *parts)
