"""`leporid compare`: runs side by side, with intervals and comparisons."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument

from leporid.cli.options import Json, parse_list, print_json, print_table
from leporid.errors import ConfigError


def compare(
    runs: Annotated[list[Path], Argument(help="Folders of `leporid train`, or record files.")],
    metrics: Annotated[str, "Metrics to show and test, separated by commas."] = "NDCG@10,HR@10",
    against: Annotated[str | None, "Test all others against this run [every pair]."] = None,
    json_output: Json = False,
) -> None:
    """Metrics of several runs side by side, and whether they differ by more than chance.

    Intervals are 95% t intervals over users. Runs are paired by user; p-values are two-sided and
    Holm-adjusted over all rows. Runs on different data are refused.
    """
    from leporid.experiments import compare_runs, paired_tests, read_run

    if len(runs) < 2:
        raise ConfigError("a comparison needs at least two runs")
    read = [read_run(path) for path in runs]
    names = parse_list(metrics)
    rows = compare_runs(read, names)
    untested = [run.name for run in read if run.outcomes is None]
    base = str(Path(against)) if against else None
    tests = [] if untested else paired_tests(read, names, against=base)
    if json_output:
        print_json({"runs": rows, "tests": [test.to_dict() for test in tests]})
        return
    shown = []
    for row in rows:
        cells = {"run": row["run"], "model": row["model"], "init": row["init"] or "-"}
        cells["history"] = row["seen"]
        for name in names:
            mean, low, high, tail = row[name].values()
            cells[name] = f"{mean:.4f}" + ("" if low is None else f" [{low:.4f}, {high:.4f}]")
            if tail is not None:
                cells[f"{name} tail"] = f"{tail:.4f}"
        shown.append(cells)
    print_table("runs on test, with 95% intervals", shown)
    if tests:
        differences = [
            {
                "metric": test.metric,
                "runs": f"{test.name_a} - {test.name_b}",
                "difference": f"{test.difference:+.4f}",
                "95% interval": f"{test.low:+.4f} .. {test.high:+.4f}",
                "p (Holm)": f"{test.p_value:.2g}",
                "outcome": test.outcome,
            }
            for test in tests
        ]
        print_table("differences, paired by user", differences)
    if untested:
        typer.echo(f"not tested: {', '.join(untested)} kept no hits per user")
