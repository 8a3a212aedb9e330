"""`leporid tune` and `run`: the best settings of a model, and grids of models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument

from leporid.cli.interruption import interrupted, stoppable
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
from leporid.errors import ConfigError, TrainingInterruptedError

if TYPE_CHECKING:
    from leporid.runs import Cell, RunRecord, TrialRow


@dataclass(frozen=True)
class _Study:
    """Options of a study."""

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
    once: finished trials are never repeated. Ctrl-C or SIGTERM ends it with the best so far. Test
    data are not looked at.
    """
    from leporid import models
    from leporid.runs import TuningResult
    from leporid.runs import tune as run_study

    searched = [*models.get(model).search_space]
    fixed = parse_settings(set)
    for name in fixed.keys() & vars(study).keys():
        option = name.replace("_", "-")
        raise ConfigError(f"{name} is no setting of {model}: use --{option} for it")
    split = log.split(data, quiet=json_output)
    stopped = None
    with stoppable(lambda: "no trial is finished"):
        try:
            result = run_study(
                model,
                split,
                study.trials,
                study.metric,
                seed=study.seed,
                storage=study.storage,
                init=study.init,
                recipe=study.recipe or models.DEFAULT_RECIPE,
                device=study.device,
                progress=not json_output,
                inner_validation=study.inner_validation,
                **fixed,
            )
        except TrainingInterruptedError as error:
            if not isinstance(error.so_far, TuningResult):
                raise
            stopped = error
            result = error.so_far
    best = sorted(result.trials, key=lambda trial: -(trial["value"] or 0.0))
    rows = [_trial_row(trial, study.metric, searched) for trial in best[:5]]
    part = "the inner validation split" if study.inner_validation else "validation"
    title = (
        f"{model}: the best of {len(result.trials)} trials, by {study.metric} on {part}"
    )
    words = ["best:"]
    for name in searched:
        value = result.best_config[name]
        if value is not None:  # a setting that is left out is None
            words.append(f"--set {name}={_short(value)}")
    show(json_output, vars(result), (title, rows), " ".join(words))
    if stopped is not None:
        raise interrupted(str(stopped), stopped.by)


def _trial_row(
    trial: TrialRow, metric: str, searched: Sequence[str]
) -> dict[str, object]:
    """Return a trial as a row of the printed table."""
    row: dict[str, object] = {
        "trial": trial["number"],
        metric: "failed" if trial["value"] is None else trial["value"],
        "seconds": trial["seconds"] or 0.0,
    }
    for name in searched:
        row[name] = _short(trial["settings"].get(name))
    return row


def _short(value: object) -> object:
    """Return a number with four digits, anything else unchanged."""
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
    from leporid.runs import outcomes_of, read_experiment, run_grid

    experiments = read_experiment(spec, data)
    stopped = None
    with stoppable(lambda: "no cell was begun"):
        try:
            outcomes = run_grid(
                experiments,
                root,
                device=device,
                retry_failed=retry_failed,
                progress=not json_output,
            )
        except TrainingInterruptedError as error:
            stopped = error
            outcomes = outcomes_of(experiments, root)
    rows = []
    done = 0
    for experiment in experiments:
        for cell in experiment.cells():
            outcome = outcomes[cell.spec_hash]
            rows.append(_cell_row(cell, outcome))
            done += not isinstance(outcome, str)
    show(json_output, rows, (f"{spec.stem}: {done} of {len(rows)} cells done", rows))
    if stopped is not None:
        raise interrupted(str(stopped), stopped.by)
    if done < len(rows):
        raise typer.Exit(1)


def _cell_row(cell: Cell, outcome: RunRecord | str) -> dict[str, object]:
    """Return a cell of a grid as a row of the printed table."""
    row: dict[str, object] = {"log": cell.dataset, "cell": cell.label}
    if isinstance(outcome, str):
        return row | {"state": outcome, "HR@10": "", "F1@10": "", "seconds": ""}
    return row | {
        "state": "done",
        "HR@10": outcome.metrics.get("HR@10", ""),
        "F1@10": outcome.metrics.get("F1@10", ""),
        "seconds": round(outcome.seconds, 1),
    }
