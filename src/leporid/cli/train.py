"""`leporid train`: an interaction log in, a fitted model and its record out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leporid import initializers, models
from leporid.cli.options import (
    Dataset,
    Device,
    Json,
    Output,
    Seed,
    SplitOptions,
    SplitSource,
    parse_settings,
)
from leporid.cli.output import print_files, print_json, print_table
from leporid.errors import ConfigError

if TYPE_CHECKING:
    from leporid.experiments import BaselineCheck, RunRecord

_SHOWN = ("HR@10", "F1@10", "NDCG@10")
"""Metrics of the printed table; the record has them all."""


@dataclass(frozen=True)
class _Training:
    """Which model, from which initialisation, with which settings."""

    model: Annotated[str, "Name of the model."] = "dlr2"
    init: Annotated[str | None, "Initialiser of the embedding tables, or none [leporid]."] = None
    recipe: Annotated[str | None, "Named settings [general; classical models have none]."] = None
    seed: Seed = 123
    steps: Annotated[int | None, "Optimiser steps."] = None
    set: Annotated[list[str] | None, "A setting of the model, NAME=VALUE; may be repeated."] = None
    init_set: Annotated[list[str] | None, "A setting of the initialiser, NAME=VALUE."] = None
    device: Device = "auto"

    def arguments(self) -> dict[str, Any]:
        """Of `train_to_folder`; invalid settings are refused before any data is read."""
        cls = models.get(self.model)
        takes = cls.takes_initial_vectors
        if self.init not in (None, "none") and not takes:
            raise ConfigError(f"{self.model} has no embedding tables to fill: leave --init out")
        init = self.init or ("leporid" if takes else "none")
        settings = parse_settings(self.set)
        if self.steps is not None:
            settings["steps"] = self.steps
        init_settings = parse_settings(self.init_set, "--init-set")
        if init != "none":
            initializers.get(init).config_class.from_dict(init_settings)
        elif init_settings:
            raise ConfigError("--init-set needs an initialiser: name one with --init")
        recipe = models.named_recipe(cls, self.recipe or models.DEFAULT_RECIPE)
        fitted = {"model": self.model, "init": init, "recipe": recipe, "settings": settings}
        return {**fitted, "init_settings": init_settings, "seed": self.seed, "device": self.device}


@dataclass(frozen=True)
class _Keeping:
    """What else is fitted and written, as `train_to_folder` takes it."""

    final: Annotated[bool, "Fit once more on everything: the model to deploy."] = False
    resume: Annotated[bool, "Go on from the checkpoint in the output folder."] = False


def train(
    data: SplitSource,
    output: Output,
    training: _Training,
    log: SplitOptions,
    keeping: _Keeping,
    no_baselines: Annotated[bool, "Leave out TopPop, ItemKNN and EASE."] = False,
    dataset: Dataset = None,
    json_output: Json = False,
) -> None:
    """Train a model on DATA, test it, and keep model and record in the output folder.

    By default each user's first 70% of interactions in time order train, the next 10% validate,
    the rest test; in a log without times they are drawn at random. With --final the settings and
    steps so tested are then fitted on everything. Ctrl-C leaves a checkpoint; the same command
    with --resume goes on from it.
    """
    arguments = training.arguments()
    from leporid.experiments import train_to_folder

    trained = train_to_folder(
        output,
        split=log.split(data, quiet=json_output),
        dataset=dataset or Path(data).stem,
        baselines=not no_baselines,
        progress=not json_output,
        **arguments,
        **vars(keeping),
    )
    if trained is None:
        return
    run, check = trained
    if json_output:
        print_json(run.record.to_dict())
        return
    _print(run.record, check, len(run.table))
    print_files([output])
    typer.echo(models.fit_sentence(run.model))


def _print(record: RunRecord, check: BaselineCheck | None, users: int) -> None:
    """The run and the baselines, a row each, and how they compare."""
    tested = [(record.model, record.metrics, record.seconds)]
    others = check.baselines if check else ()
    tested += [(f"{other.name} (baseline)", other.metrics, other.seconds) for other in others]
    rows = [
        {"model": name, **{key: metrics[key] for key in _SHOWN}, "seconds": f"{seconds:.1f}"}
        for name, metrics, seconds in tested
    ]
    print_table(f"on test, {users:,} users", rows)
    if cold := record.extra["cold_users"]:
        typer.echo(
            f"{cold:,} of these users have no interaction in train: HR@10 "
            f"{record.extra['cold_metrics']['HR@10']:.4f} for them"
        )
    if check is not None:
        typer.echo("baselines have their default settings and are fitted on the same split")
        typer.echo("\n".join(filter(None, [check.left_out, check.verdict()])))
