"""`leporid tune`: settings that do best on validation, for one model or for all baselines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument

from leporid.cli.options import Json, SplitOptions, SplitSource, parse_list, parse_settings
from leporid.cli.output import print_json, print_rows, print_table
from leporid.errors import ConfigError

if TYPE_CHECKING:
    from leporid.data import Split
    from leporid.experiments import RunRecord


_ALL = "all-classical"


@dataclass(frozen=True)
class _Study:
    """What the search of one model and that of all baselines share."""

    trials: Annotated[int, "Budget of the whole study."] = 20
    metric: Annotated[str, "What to maximise on validation."] = "NDCG@10"
    seed: Annotated[int, "Seed of the search and of every fit."] = 0
    storage: Annotated[Path | None, "Journal of the study, such as study.jsonl; resumable."] = None


@dataclass(frozen=True)
class _OneModel:
    """What only the search of one model takes."""

    set: Annotated[list[str] | None, "A setting not to search, as NAME=VALUE."] = None
    init: Annotated[str | None, "Initialiser, for neural models."] = None
    recipe: Annotated[str | None, "Recipe, for neural models [general]."] = None
    device: Annotated[str | None, "Device, for neural models."] = None
    inner_validation: Annotated[
        bool, "Evaluate on an inner split as far from its training data as test is."
    ] = False


@dataclass(frozen=True)
class _Baselines:
    """What only the search of all baselines takes."""

    output: Annotated[Path | None, f"With {_ALL}: folder for run records."] = None
    dataset: Annotated[str | None, f"With {_ALL}: name of the data in the records."] = None
    only: Annotated[str | None, f"With {_ALL}: these models only, separated by commas."] = None
    replace: Annotated[
        bool, f"With {_ALL}: drop earlier records of these models and this seed."
    ] = False


def tune(
    model: Annotated[str, Argument(help=f"A model's name, or '{_ALL}' for every baseline.")],
    data: SplitSource,
    study: _Study,
    one: _OneModel,
    baselines: _Baselines,
    log: SplitOptions,
    json_output: Json = False,
) -> None:
    """Search the settings of MODEL on DATA, evaluated on validation only.

    A study with --storage can be stopped and taken up again, or run by several processes at
    once: finished trials are never repeated. Test data are not looked at, except that
    'all-classical' reports them once for the settings it has chosen.
    """
    if model == _ALL:
        if one != _OneModel():
            raise ConfigError(
                f"--set, --init, --recipe, --device and --inner-validation go with one model, not "
                f"with {_ALL}"
            )
        split = log.split(data, quiet=json_output)
        _tune_baselines(split, study, baselines, baselines.dataset or Path(data).stem, json_output)
        return
    if baselines != _Baselines():
        raise ConfigError(f"--output, --dataset, --only and --replace go with {_ALL}")
    _tune_model(model, log, data, study, one, json_output)


def _tune_model(
    model: str, log: SplitOptions, data: str, study: _Study, one: _OneModel, json_output: bool
) -> None:
    from leporid import models
    from leporid.experiments import tune as run_study

    searched = [*models.get(model).search_space]
    options = {**vars(study), **vars(one)}
    options |= parse_settings(options.pop("set"))
    options["recipe"] = one.recipe or models.DEFAULT_RECIPE
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
    part = "the inner validation split" if options["inner_validation"] else "validation"
    title = f"{model}: the best of {len(result.trials)} trials, by {study.metric} on {part}"
    print_table(title, rows)
    # None, "all" for a window, is what a setting is when it is left out.
    chosen = {key: result.best_config[key] for key in searched}
    settings = (f"--set {key}={_short(v)}" for key, v in chosen.items() if v is not None)
    typer.echo(" ".join(["best:", *settings]))


def _tune_baselines(
    split: Split, study: _Study, options: _Baselines, dataset: str, json_output: bool
) -> None:
    from leporid.experiments import tune_baselines

    pairs = tune_baselines(
        split,
        dataset,
        names=parse_list(options.only or "") or None,
        root=options.output,
        replace=options.replace,
        progress=not json_output,
        **vars(study),
    )
    metric = study.metric
    rows = [
        {
            "model": tuned.model,
            "has seen": tuned.seen,
            f"{metric} valid": tuned.valid_metrics.get(metric, tuned.extra["tuning"]["best_value"]),
            "tuned": _quality(tuned),
            "untuned": _quality(untuned),
            "seconds": tuned.seconds,
        }
        for untuned, tuned in pairs
    ]
    title = f"{dataset}: tuned with {study.trials} trials each; HR@10 / F1@10 on test"
    print_rows(title, rows, json_output, [tuned.to_dict() for _, tuned in pairs])


def _quality(record: RunRecord) -> str:
    return f"{record.metrics['HR@10']:.4f} / {record.metrics['F1@10']:.4f}"


def _short(value: Any) -> Any:
    return f"{value:.4g}" if isinstance(value, float) else value
