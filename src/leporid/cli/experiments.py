"""`leporid evaluate`, `compare`, `tune`, `run`: models on held-out data, side by side, in grids."""

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument

from leporid.cli.options import (
    Device,
    DeviceName,
    Json,
    OutputFile,
    OutputFolder,
    SplitOptions,
    SplitSource,
    load_model,
    parse_list,
    parse_settings,
    show,
)
from leporid.errors import ConfigError, LeporidWarning


@dataclass(frozen=True)
class _Study:
    """What `tune` takes as it is."""

    trials: Annotated[int, "Budget of the whole study."] = 20
    metric: Annotated[str, "What to maximise on validation."] = "NDCG@10"
    seed: Annotated[int, "Seed of the search and of every fit."] = 0
    storage: Annotated[
        Path | None, OutputFile("Journal of the study, such as study.jsonl; resumable.")
    ] = None
    init: Annotated[str | None, "Initialiser, for neural models."] = None
    recipe: Annotated[str | None, "Recipe, for neural models [general]."] = None
    device: Annotated[str | None, DeviceName("Device, for neural models.")] = None
    inner_validation: Annotated[
        bool, "Evaluate on an inner split, as far off as test."
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
    from leporid.runs import tune as run_study

    searched, options = (
        [*models.get(model).search_space],
        {**vars(study), **parse_settings(set)},
    )
    options["recipe"] = study.recipe or models.DEFAULT_RECIPE
    split = log.split(data, quiet=json_output)
    result = run_study(model, split, progress=not json_output, **options)
    rows = []
    for trial in sorted(result.trials, key=lambda trial: -(trial["value"] or 0.0))[:5]:
        value = "failed" if trial["value"] is None else trial["value"]
        row = {
            "trial": trial["number"],
            study.metric: value,
            "seconds": trial["seconds"] or 0.0,
        }
        rows.append(row | {key: _short(trial["settings"].get(key)) for key in searched})
    part = "the inner validation split" if study.inner_validation else "validation"
    title = (
        f"{model}: the best of {len(result.trials)} trials, by {study.metric} on {part}"
    )
    # None, "all" for a window, is what a setting is when it is left out.
    chosen = {key: result.best_config[key] for key in searched}
    settings = (
        f"--set {key}={_short(v)}" for key, v in chosen.items() if v is not None
    )
    show(json_output, vars(result), (title, rows), " ".join(["best:", *settings]))


def _short(value: Any) -> Any:
    return f"{value:.4g}" if isinstance(value, float) else value


def run(
    spec: Annotated[Path, Argument(help="Experiment file (TOML).")],
    root: Annotated[Path, OutputFolder("Where records are kept.")] = Path("results"),
    device: Device = "auto",
    retry_failed: Annotated[bool, "Run cells again that failed before."] = False,
    data: Annotated[
        Path | None, "Folder of the logs that the file names by path."
    ] = None,
    json_output: Json = False,
) -> None:
    """Run an experiment grid; finished cells are skipped, interrupted ones resume.

    Several processes may run the same command: each cell is run by one of them.
    """
    from leporid.runs import read_experiment, run_grid

    experiments = read_experiment(spec, data)
    how: dict[str, Any] = {"retry_failed": retry_failed, "progress": not json_output}
    found = run_grid(experiments, root, device=device, **how)
    rows: list[dict[str, Any]] = []
    for cell in (cell for experiment in experiments for cell in experiment.cells()):
        record = found[cell.spec_hash]
        row: dict[str, Any] = {"log": cell.dataset, "cell": cell.label, "state": record}
        row |= {"HR@10": "", "F1@10": "", "seconds": ""}
        if not isinstance(record, str):
            shown = {name: record.metrics.get(name, "") for name in ("HR@10", "F1@10")}
            row |= {"state": "done", **shown, "seconds": round(record.seconds, 1)}
        rows.append(row)
    done = sum(row["state"] == "done" for row in rows)
    show(json_output, rows, (f"{spec.stem}: {done} of {len(rows)} cells done", rows))
    if done < len(rows):
        raise typer.Exit(1)


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
    Holm-adjusted over all rows. Runs on different data are refused.

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
    read = [read_run(path) for path in runs]
    names = parse_list(metrics)
    rows = compare_runs(read, names)
    untested = [run.name for run in read if run.outcomes is None]
    base = str(Path(against)) if against else None
    tests = [] if untested else paired_tests(read, names, against=base)
    shown, differences = [], []
    for row in rows:
        cells = {"run": row["run"], "model": row["model"], "init": row["init"] or "-"}
        cells["history"] = row["seen"]
        for name in names:
            mean, low, high, tail = row[name].values()
            cells[name] = f"{mean:.4f}" + (
                "" if low is None else f" [{low:.4f}, {high:.4f}]"
            )
            if tail is not None:
                cells[f"{name} tail"] = f"{tail:.4f}"
        shown.append(cells)
    for test in tests:
        cells = {"metric": test.metric, "runs": f"{test.name_a} - {test.name_b}"}
        cells |= {"difference": f"{test.difference:+.4f}"}
        cells |= {"95% interval": f"{test.low:+.4f} .. {test.high:+.4f}"}
        differences.append(
            cells | {"p (Holm)": f"{test.p_value:.2g}", "outcome": test.outcome}
        )
    tables = {
        "runs on test, with 95% intervals": shown,
        "differences, paired by user": differences,
    }
    said = (
        [f"not tested: {', '.join(untested)} kept no hits per user"] if untested else []
    )
    if report is not None:
        write_comparison(report, rows, tests, tables)
        said.append(f"wrote {report}")
    document = {"runs": rows, "tests": [test.to_dict() for test in tests]}
    show(json_output, document, *tables.items(), *said)


def _compare_live(store: str, days: int, json_output: bool) -> None:
    from leporid.serve import compare_live

    if days < 1:
        raise ConfigError(f"--days must be at least 1, not {days}")
    report: list[dict[str, Any]] = []
    parts: list[str | tuple[str, Any]] = []
    for result in compare_live(store, days):
        rows, left_out = result.rows(), result.left_out
        parts += [(f"lists with events within {days} days", rows), result.sentence()]
        if left_out:
            parts.append(
                f"{left_out:,} users were shown lists of both and are left out"
            )
        needed = {"users_needed": result.users_needed, "left_out": left_out}
        report.append(
            {"runs": rows, "difference": result.comparison.to_dict(), **needed}
        )
    show(json_output, report, *parts)


def evaluate(
    data: Annotated[
        str, "Interaction log: a file, a data set, or a folder of `data split`."
    ],
    log: SplitOptions,
    model: Annotated[
        Path | None, Argument(help="Folder of a saved model, or of a run.")
    ] = None,
    recommendations: Annotated[
        Path | None, "CSV or parquet file instead of a model."
    ] = None,
    columns: Annotated[
        str, "Names of those columns, separated by commas."
    ] = "user,item,score",
    part: Annotated[str, "test or valid."] = "test",
    at: Annotated[str, "Cut-offs, separated by commas."] = "1,5,10",
    metrics: Annotated[str | None, "Only these, for example HR,F1,NDCG [all]."] = None,
    stratum: Annotated[
        list[str] | None, "Also over this group [tail-users, cold-users]."
    ] = None,
    export: Annotated[
        Path | None, OutputFile("Write one row per user to this .csv or .parquet file.")
    ] = None,
    rules: Annotated[
        Path | None, "Rules, .toml or .json: what each costs, and all."
    ] = None,
    items: Annotated[Path | None, "Table with the columns that the rules name."] = None,
    json_output: Json = False,
) -> None:
    """Rank all items for every user and report HR, F1, NDCG and more, with 95% intervals.

    Give a saved MODEL, or --recommendations made elsewhere. DATA, --core and --protocol must be
    those the model was trained with; --include-seen is so by itself.
    """
    if (model is None) == (recommendations is None):
        raise ConfigError("give either the folder of a model or --recommendations FILE")
    if export is not None and export.suffix not in (".csv", ".parquet"):
        raise ConfigError(
            f"--export writes .csv or .parquet files, not {export.name!r}"
        )
    cuts, names = parse_list(at, "--at"), parse_list(columns)
    if len(names) != 3:
        raise ConfigError(
            f"--columns takes three names, user,item,score, not {columns!r}"
        )

    from leporid.evaluation import Recommendations
    from leporid.evaluation import evaluate as evaluate_model

    if model is not None and (model / "validated" / "model.json").is_file():
        typer.echo(
            "the validated model is evaluated: the final one was fitted on test",
            err=True,
        )
    ranked: Any = None if model is None else load_model(model, validated=True)
    if recommendations is not None:
        ranked = Recommendations.read(recommendations, *names)
    elif log.include_seen is None:
        log = replace(log, include_seen=ranked.fitting.include_seen or None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LeporidWarning)
        split = log.split(data, quiet=json_output)
        how: dict[str, Any] = {"at": cuts, "part": part, "progress": not json_output}
        how |= {"metrics": parse_list(metrics or "") or None}
        how["include_seen"] = split.include_seen
        table = evaluate_model(ranked, split, **how)
        costs = (
            []
            if rules is None
            else _costs_of_rules(rules, items, ranked, split, table, how)
        )
    notes = [str(w.message) for w in caught if issubclass(w.category, LeporidWarning)]
    for note in notes:
        typer.echo(f"warning: {note}", err=True)
    if export is not None:
        (table.to_csv if export.suffix == ".csv" else table.to_parquet)(export)
    usual = [name for name in ("tail-users", "cold-users") if table.has_users(name)]
    strata = {name: table.mean(stratum=name) for name in stratum or usual}
    means, intervals = table.mean(), table.intervals()
    about = ("skipped", "cold", "repeated", "part", "protocol")
    report = {"users": len(table), **{name: getattr(table, name) for name in about}}
    bounds = {name: [of.low, of.high] for name, of in intervals.items()}
    report |= {
        "metrics": means,
        "intervals": bounds,
        "strata": strata,
        "warnings": notes,
    }
    report |= {"rules": [cost.to_dict() for cost in costs]} if rules else {}
    rows = []
    for name, value in means.items():
        of = intervals.get(name)
        row = {"metric": name, "all users": value}
        row["95% interval"] = "" if of is None else f"{of.low:.4f} .. {of.high:.4f}"
        rows.append(
            row | {stratum: own.get(name, "") for stratum, own in strata.items()}
        )
    said = [
        f"{len(table):,} users evaluated, {table.cold:,} of them cold (without training "
        f"interactions); {table.skipped:,} left out because they have no {part} items"
    ]
    if table.repeated:
        why = "they are in the history of their users (--include-seen)"
        said.append(f"{table.repeated:,} {part} items are not evaluated: {why}")
    written = [] if export is None else [f"wrote {export}"]
    tables = (f"{part}, {table.protocol}", rows), *_cost_table(costs, f"@{cuts[-1]}")
    show(json_output, report, *tables, *said, *written)


def _costs_of_rules(
    path: Path,
    items: Path | None,
    model: Any,
    split: Any,
    plain: Any,
    how: dict[str, Any],
) -> list[Any]:
    """Lists with each kind of rule alone, and with all, against those without."""
    from leporid.evaluation import Recommendations, compare_all, evaluate
    from leporid.ranking import Rules

    if isinstance(model, Recommendations):
        raise ConfigError(
            "lists are evaluated as given: --rules needs the folder of a model"
        )
    rules, item_columns = Rules.read(path), model.item_columns(items)
    kinds = rules.alone() | {"all": rules} if len(rules.alone()) > 1 else rules.alone()
    sides = {
        name: evaluate(model, split, **how, rules=kind.bind(item_columns))
        for name, kind in kinds.items()
    }
    return compare_all({"none": plain, **sides}, [*plain.intervals()], against="none")


def _cost_table(costs: list[Any], at: str) -> list[tuple[str, Any]]:
    rows: list[dict[str, Any]] = []
    for cost in (cost for cost in costs if cost.metric.endswith(at)):
        row: dict[str, Any] = {"rules": cost.name_a, "metric": cost.metric}
        row |= {"with": cost.mean_a, "without": cost.mean_b}
        row |= {"difference": f"{cost.difference:+.4f} ({cost.percent:+.1f}%)"}
        rows.append(row | {"95% interval": f"{cost.low:+.4f} .. {cost.high:+.4f}"})
    return [("lists with the rules and without", rows)] if rows else []
