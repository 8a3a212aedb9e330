"""`leporid train`: an interaction log in, a fitted model and its record out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leporid.cli.output import JsonOption, print_json, print_table, show_progress
from leporid.cli.settings import parse_settings
from leporid.errors import ConfigError

if TYPE_CHECKING:
    from leporid.data.split import Split
    from leporid.models.shared.base import Recommender

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("train")(train)


def train(
    data: Annotated[str, typer.Argument(help="Interaction log: a file, or a data set's name.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder to write the run into.")],
    model: Annotated[str, typer.Option(help="Name of the model.")] = "dlr2",
    init: Annotated[
        str | None,
        typer.Option(help="Initialiser of the embedding tables, or none [leporid]."),
    ] = None,
    recipe: Annotated[
        str | None, typer.Option(help="Named settings: paper, tuned; for dlr2 paper or softmax.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of every random choice.")] = 123,
    steps: Annotated[int | None, typer.Option(help="Optimiser steps.")] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting of the model, NAME=VALUE; may be repeated."),
    ] = None,
    init_setting: Annotated[
        list[str] | None,
        typer.Option("--init-set", help="A setting of the initialiser, NAME=VALUE."),
    ] = None,
    core: Annotated[
        int, typer.Option(help="Keep users and items with at least this many interactions.")
    ] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the checkpoint in the output folder.")
    ] = False,
    dataset: Annotated[
        str | None, typer.Option(help="Name of the data in the record [the file's name].")
    ] = None,
    experiment: Annotated[str, typer.Option(help="Name of the experiment.")] = "train",
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write TensorBoard events beside history.csv.")
    ] = False,
    user: Annotated[str | None, typer.Option(help="Name of the user column.")] = None,
    item: Annotated[str | None, typer.Option(help="Name of the item column.")] = None,
    time: Annotated[str | None, typer.Option(help="Name of the time column.")] = None,
    rating: Annotated[str | None, typer.Option(help="Name of the rating column.")] = None,
    min_rating: Annotated[
        float | None, typer.Option(help="Keep rows with at least this rating.")
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Train a model on DATA, test it, and keep model and record in the output folder.

    Each user's first 70% of interactions in time order train, the next 10% validate, the rest
    test. Ctrl-C leaves a checkpoint; the same command with --resume goes on from it.
    """
    import leporid
    from leporid.progress import make_progress
    from leporid.runs.cell import CUTS, judge
    from leporid.runs.record import Meter
    from leporid.runs.run_folder import write_run

    settings = parse_settings(setting)
    init_settings = parse_settings(init_setting, "--init-set")
    if steps is not None:
        settings["steps"] = steps
    found = leporid.models.get(model)
    chosen = init or ("leporid" if found.takes_initial_vectors else "none")
    if chosen != "none" and not found.takes_initial_vectors:
        raise ConfigError(f"{model} has no embedding tables to fill: leave --init out")
    loaded = leporid.load(
        data, user=user, item=item, time=time, rating=rating, min_rating=min_rating
    )
    if loaded.source is not None and loaded.source.guessed and not json_output:
        typer.echo(loaded.source.sentence(), err=True)
    split = leporid.temporal_split(loaded.core(core) if core else loaded)
    reporter = make_progress(show_progress(json_output))
    try:
        with Meter() as meter:
            vectors = _vectors(
                chosen, split, settings, found, recipe, seed, init_settings, reporter
            )
            fitted = leporid.train(
                model,
                split,
                init=vectors,
                seed=seed,
                recipe=recipe,
                device=device,
                progress=reporter,
                checkpoint=output / "checkpoint",
                resume=resume,
                **settings,
            )
    finally:
        reporter.close()
    if int(os.environ.get("RANK", "0")):
        return  # of several processes (torchrun) the first one tests and writes
    record, outcomes = judge(
        fitted,
        split,
        meter,
        dataset=dataset or Path(data).stem,
        experiment=experiment,
        init=None if chosen == "none" else chosen,
        recipe=recipe,
        seed=seed,
    )
    write_run(output, fitted, record, outcomes, tensorboard=tensorboard)
    if json_output:
        print_json(record.to_dict())
        return
    shown = [f"{name}@{n}" for n in CUTS for name in ("HR", "F1", "NDCG")]
    row = {key: value for key, value in record.metrics.items() if key in shown}
    print_table(f"{model} on test, {len(outcomes.user):,} users", [row])
    typer.echo(f"wrote {output}")


def _vectors(
    name: str,
    split: Split,
    settings: dict[str, Any],
    model: type[Recommender],
    recipe: str | None,
    seed: int,
    init_settings: dict[str, Any],
    progress: Any,
) -> Any:
    """The starting vectors, from the cache where they have been computed before."""
    if name == "none":
        return None
    from leporid.initializers.starting import start
    from leporid.models.shared.neural import NeuralRecommender

    assert issubclass(model, NeuralRecommender)
    dim = model.from_recipe(recipe, **settings).config.dim
    given = {"dim": dim, "seed": seed, **init_settings}
    return start(name, split.train, progress=progress, **given)
