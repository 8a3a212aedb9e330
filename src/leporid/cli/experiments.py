"""`leporid tune`, `run`, `compare`: settings that do best, grids of runs, runs side by side."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument

from leporid.cli.options import (
    Device,
    Json,
    SplitOptions,
    SplitSource,
    parse_list,
    parse_settings,
    print_json,
    print_rows,
    print_table,
)
from leporid.errors import ConfigError


@dataclass(frozen=True)
class _Study:
    """What `tune` takes as it is."""

    trials: Annotated[int, "Budget of the whole study."] = 20
    metric: Annotated[str, "What to maximise on validation."] = "NDCG@10"
    seed: Annotated[int, "Seed of the search and of every fit."] = 0
    storage: Annotated[Path | None, "Journal of the study, such as study.jsonl; resumable."] = None
    init: Annotated[str | None, "Initialiser, for neural models."] = None
    recipe: Annotated[str | None, "Recipe, for neural models [general]."] = None
    device: Annotated[str | None, "Device, for neural models."] = None
    inner_validation: Annotated[
        bool, "Evaluate on an inner split as far from its training data as test is."
    ] = False


def tune(
    model: Annotated[str, Argument(help="A model's name.")],
    data: SplitSource,
    study: _Study,
    log: SplitOptions,
    set: Annotated[list[str] | None, "A setting not to search, as NAME=VALUE."] = None,
    json_output: Json = False,
) -> None:
    """Search the settings of MODEL on DATA, evaluated on validation only.

    A study with --storage can be stopped and taken up again, or run by several processes at
    once: finished trials are never repeated. Test data are not looked at.
    """
    from leporid import models
    from leporid.experiments import tune as run_study

    searched, options = [*models.get(model).search_space], {**vars(study), **parse_settings(set)}
    options["recipe"] = study.recipe or models.DEFAULT_RECIPE
    split = log.split(data, quiet=json_output)
    result = run_study(model, split, progress=not json_output, **options)
    if json_output:
        print_json(vars(result))
        return
    rows = []
    for trial in sorted(result.trials, key=lambda trial: -(trial["value"] or 0.0))[:5]:
        value = "failed" if trial["value"] is None else trial["value"]
        row = {"trial": trial["number"], study.metric: value, "seconds": trial["seconds"] or 0.0}
        rows.append(row | {key: _short(trial["settings"].get(key)) for key in searched})
    part = "the inner validation split" if study.inner_validation else "validation"
    title = f"{model}: the best of {len(result.trials)} trials, by {study.metric} on {part}"
    print_table(title, rows)
    # None, "all" for a window, is what a setting is when it is left out.
    chosen = {key: result.best_config[key] for key in searched}
    settings = (f"--set {key}={_short(v)}" for key, v in chosen.items() if v is not None)
    typer.echo(" ".join(["best:", *settings]))


def _short(value: Any) -> Any:
    return f"{value:.4g}" if isinstance(value, float) else value


def run(
    spec: Annotated[Path, Argument(help="Experiment file (TOML).")],
    root: Annotated[Path, "Where records are kept."] = Path("results"),
    device: Device = "auto",
    retry_failed: Annotated[bool, "Run cells again that failed before."] = False,
    data: Annotated[Path | None, "Folder of the logs that the file names by path."] = None,
    json_output: Json = False,
) -> None:
    """Run an experiment grid; finished cells are skipped, interrupted ones resume.

    Several processes may run the same command: each cell is run by one of them.
    """
    from leporid.experiments import read_experiment, run_grid

    experiments = read_experiment(spec, data)
    how: dict[str, Any] = {"retry_failed": retry_failed, "progress": not json_output}
    status = run_grid(experiments, root, device=device, **how)
    rows: list[dict[str, Any]] = []
    for cell in (cell for experiment in experiments for cell in experiment.cells()):
        record, state = status.records.get(cell.spec_hash), status.states[cell.spec_hash]
        row: dict[str, Any] = {"log": cell.dataset, "cell": cell.label, "state": state}
        for metric in ("HR@10", "F1@10"):
            row[metric] = record.metrics.get(metric, "") if record else ""
        rows.append({**row, "seconds": round(record.seconds, 1) if record else ""})
    done = status.count("done")
    print_rows(f"{spec.stem}: {done} of {len(rows)} cells done", rows, json_output)
    if done < len(rows):
        raise typer.Exit(1)


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
