"""`leporid tune`: the settings of a model that do best on validation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument

from leporid.cli.options import (
    Json,
    SplitOptions,
    SplitSource,
    parse_settings,
    print_json,
    print_table,
)


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
