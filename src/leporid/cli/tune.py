"""`leporid tune`: settings that do best on validation, for one model or for all baselines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leporid.cli.output import JsonOption, print_json, print_table, show_progress
from leporid.cli.settings import parse_settings
from leporid.errors import ConfigError

if TYPE_CHECKING:
    from leporid.data.split import Split

__all__ = ["register"]

_ALL = "all-classical"


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("tune")(tune)


def tune(
    model: Annotated[str, typer.Argument(help=f"A model's name, or '{_ALL}' for every baseline.")],
    data: Annotated[str, typer.Argument(help="Interaction log: a file, or a dataset's name.")],
    trials: Annotated[int, typer.Option(help="Budget of the whole study.")] = 20,
    metric: Annotated[str, typer.Option(help="What to maximise on validation.")] = "F1@10",
    core: Annotated[
        int, typer.Option(help="Keep users and items with at least this many interactions.")
    ] = 20,
    storage: Annotated[
        Path | None,
        typer.Option(help="File of the study (.db: SQLite, else a journal); it can be resumed."),
    ] = None,
    study: Annotated[str | None, typer.Option(help="Name of the study in that file.")] = None,
    fixed: Annotated[
        list[str] | None, typer.Option("--set", help="A setting not to search, as name=value.")
    ] = None,
    init: Annotated[str | None, typer.Option(help="Initialiser, for neural models.")] = None,
    recipe: Annotated[str | None, typer.Option(help="Recipe, for neural models.")] = None,
    device: Annotated[str | None, typer.Option(help="Device, for neural models.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the search and of every fit.")] = 0,
    timeout: Annotated[
        float | None, typer.Option(help="Begin no further trial after this many seconds.")
    ] = None,
    rehearse: Annotated[
        bool,
        typer.Option(
            "--rehearse",
            help="Judge on a cut as far from its training data as test is, not on validation.",
        ),
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help=f"With {_ALL}: folder for run records.")
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help=f"With {_ALL}: name of the data in the records.")
    ] = None,
    experiment: Annotated[
        str, typer.Option(help=f"With {_ALL}: name of the experiment in the records.")
    ] = "baselines",
    only: Annotated[
        str | None, typer.Option(help=f"With {_ALL}: these models only, separated by commas.")
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Search the settings of MODEL on DATA, judged on validation only.

    A study with --storage can be stopped and taken up again, or run by several processes at
    once: finished trials are never repeated. Test data are not looked at, except that
    'all-classical' reports them once for the settings it has chosen.
    """
    if model == _ALL:
        if study or fixed or init or recipe or device or timeout or rehearse:
            raise ConfigError(
                f"--study, --set, --init, --recipe, --device, --timeout and --rehearse go with one "
                f"model, not with {_ALL}"
            )
        name = dataset or Path(data).stem
        shared = {"trials": trials, "metric": metric, "seed": seed, "storage": storage}
        where = {"root": output, "experiment": experiment}
        _baselines(_split(data, core), name, only, json_output, **shared, **where)
        return
    if output or dataset or only:
        raise ConfigError(f"--output, --dataset and --only go with {_ALL}")

    from leporid import models
    from leporid.tuning import tune as run_study

    cls = models.get(model)
    result = run_study(
        cls,
        _split(data, core),
        trials,
        metric,
        seed=seed,
        storage=storage,
        study_name=study,
        init=init,
        recipe=recipe,
        device=device,
        progress=show_progress(json_output),
        timeout=timeout,
        rehearse=rehearse,
        **parse_settings(fixed),
    )
    if json_output:
        print_json(vars(result))
        return
    best = sorted(result.trials, key=lambda t: -1.0 if t["value"] is None else -t["value"])[:5]
    searched = [*cls.search_space]
    rows = [
        {
            "trial": trial["number"],
            metric: "failed" if trial["value"] is None else trial["value"],
            "seconds": trial["seconds"] or 0.0,
            **{key: _short(trial["settings"].get(key)) for key in searched},
        }
        for trial in best
    ]
    judge = "the rehearsed test" if rehearse else "validation"
    print_table(f"{model}: the best of {len(result.trials)} trials, by {metric} on {judge}", rows)
    typer.echo(
        " ".join(["best:", *(f"--set {k}={_short(result.best_config[k])}" for k in searched)])
    )


def _baselines(
    split: Split, dataset: str, only: str | None, json_output: bool, **options: Any
) -> None:
    from leporid.runs.baselines import tune_baselines

    names = only.split(",") if only else None
    progress = show_progress(json_output)
    pairs = tune_baselines(split, dataset, names=names, progress=progress, **options)
    metric = options["metric"]
    if json_output:
        print_json([tuned.to_dict() for _, tuned in pairs])
        return
    rows = [
        {
            "model": tuned.model,
            f"{metric} valid": tuned.valid_metrics.get(metric, tuned.extra["tuning"]["best_value"]),
            "HR@10": tuned.metrics["HR@10"],
            "F1@10": tuned.metrics["F1@10"],
            "untuned HR@10": untuned.metrics["HR@10"],
            "untuned F1@10": untuned.metrics["F1@10"],
            "seconds": tuned.seconds,
        }
        for untuned, tuned in pairs
    ]
    print_table(f"{dataset}: tuned with {options['trials']} trials each, tested once", rows)


def _split(data: str, core: int) -> Split:
    from leporid.data.loading import load
    from leporid.data.splitting import temporal_split

    log = load(data)
    return temporal_split(log.core(core) if core else log)


def _short(value: Any) -> Any:
    return f"{value:.4g}" if isinstance(value, float) else value
