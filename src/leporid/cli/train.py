"""`leporid train`: an interaction log in, a fitted model and its record out."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leporid import initializers, models
from leporid.cli.options import Device, Json, Output, Seed, Source, SplitOptions, parse_settings
from leporid.cli.output import print_files, print_json, print_table, show_progress
from leporid.errors import ConfigError

if TYPE_CHECKING:
    from leporid.data import Split
    from leporid.models import Recommender
    from leporid.progress import ProgressLike


@dataclass(frozen=True)
class _Training:
    """Which model, from which vectors, with which settings."""

    model: Annotated[str, "Name of the model."] = "dlr2"
    init: Annotated[str | None, "Initialiser of the embedding tables, or none [leporid]."] = None
    recipe: Annotated[str | None, "Named settings: paper, tuned; for dlr2 paper or softmax."] = None
    seed: Seed = 123
    steps: Annotated[int | None, "Optimiser steps."] = None
    set: Annotated[list[str] | None, "A setting of the model, NAME=VALUE; may be repeated."] = None
    init_set: Annotated[list[str] | None, "A setting of the initialiser, NAME=VALUE."] = None
    device: Device = "auto"

    def __post_init__(self) -> None:
        """Refuse what cannot be, before any data is read."""
        self.settings()
        self.start()

    def start(self) -> str:
        """The initialiser's name, or "none"."""
        takes = models.get(self.model).takes_initial_vectors
        if self.init not in (None, "none") and not takes:
            raise ConfigError(f"{self.model} has no embedding tables to fill: leave --init out")
        return self.init or ("leporid" if takes else "none")

    def settings(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Of the model, and of the initialiser."""
        settings = parse_settings(self.set)
        if self.steps is not None:
            settings["steps"] = self.steps
        return settings, parse_settings(self.init_set, "--init-set")

    def fit(self, split: Split, progress: ProgressLike, **checkpoint: Any) -> Recommender:
        """The fitted model; its starting vectors come from the cache where they are there."""
        settings, init_settings = self.settings()
        vectors, name = None, self.start()
        if name != "none":
            model: Any = models.get(self.model)
            dim = model.from_recipe(self.recipe, **settings).config.dim
            init_settings = {"dim": dim, "seed": self.seed, **init_settings}
            vectors = initializers.start(name, split.train, progress=progress, **init_settings)
        shared: dict[str, Any] = {"seed": self.seed, "recipe": self.recipe, "device": self.device}
        shared |= {"init": vectors, "progress": progress, **checkpoint}
        return models.train(self.model, split, **shared, **settings)


def train(
    data: Source,
    output: Output,
    training: _Training,
    log: SplitOptions,
    resume: Annotated[bool, "Go on from the checkpoint in the output folder."] = False,
    dataset: Annotated[str | None, "Name of the data in the record [the file's name]."] = None,
    experiment: Annotated[str, "Name of the experiment."] = "train",
    tensorboard: Annotated[bool, "Write TensorBoard events beside history.csv."] = False,
    json_output: Json = False,
) -> None:
    """Train a model on DATA, test it, and keep model and record in the output folder.

    By default each user's first 70% of interactions in time order train, the next 10% validate,
    the rest test. Ctrl-C leaves a checkpoint; the same command with --resume goes on from it.
    """
    from leporid.progress import make_progress
    from leporid.runs import CUTS, Meter, judge, write_run

    init = training.start()
    split = log.split(data, quiet=json_output)
    reporter = make_progress(show_progress(json_output))
    try:
        with Meter() as meter:
            checkpoint = output / "checkpoint"
            fitted = training.fit(split, reporter, checkpoint=checkpoint, resume=resume)
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
        init=None if init == "none" else init,
        recipe=training.recipe,
        seed=training.seed,
    )
    write_run(output, fitted, record, outcomes, tensorboard=tensorboard)
    if json_output:
        print_json(record.to_dict())
        return
    shown = [f"{name}@{n}" for n in CUTS for name in ("HR", "F1", "NDCG")]
    row = {key: value for key, value in record.metrics.items() if key in shown}
    print_table(f"{training.model} on test, {len(outcomes.user):,} users", [row])
    if cold := record.extra["cold_users"]:
        hits = record.extra["cold_metrics"]["HR@10"]
        typer.echo(f"{cold:,} of them are cold (no training items): HR@10 {hits:.4f}")
    print_files([output])
