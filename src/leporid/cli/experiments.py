"""`leporid tune` and `run`: the best settings of a model, and grids of models."""

from dataclasses import dataclass
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
    parse_settings,
    show,
)


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
