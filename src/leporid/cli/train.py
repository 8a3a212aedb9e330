"""`leporid train`: an interaction log in, a tested model out."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from leporid import embeddings, models
from leporid.cli.interruption import interrupted, stoppable, typed_again
from leporid.cli.options import (
    Dataset,
    Device,
    Json,
    ModelName,
    Output,
    OutputFile,
    Seed,
    SplitOptions,
    SplitSource,
    parse_settings,
    show,
)
from leporid.errors import ConfigError, TrainingInterruptedError
from leporid.foundation import reporting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leporid.data import Interactions
    from leporid.foundation import JsonValue, SettingValue
    from leporid.models import Callback, ModelSpec
    from leporid.runs import BaselineCheck, RunRecord

SHOWN_METRICS = ("HR@10", "F1@10", "NDCG@10")


@dataclass(frozen=True)
class _Training:
    """Which model, from which initialisation, with which settings, and what else is kept."""

    model: Annotated[str, ModelName("Name of the model.")] = "dlr2"
    init: Annotated[
        str | None, "Initialiser of the embedding tables, or none [leporid]."
    ] = None
    recipe: Annotated[
        str | None, "Named settings [general; classical models have none]."
    ] = None
    seed: Seed = 123
    steps: Annotated[int | None, "Optimiser steps."] = None
    set: Annotated[
        list[str] | None, "A setting of the model, NAME=VALUE; may be repeated."
    ] = None
    init_set: Annotated[
        list[str] | None, "A setting of the initialiser, NAME=VALUE."
    ] = None
    items: Annotated[
        str | None, "Item table: its columns become features of the items."
    ] = None
    users: Annotated[str | None, "User table: likewise."] = None
    features: Annotated[bool | None, "Use them [validation decides]."] = None
    device: Device = "auto"
    final: Annotated[bool, "Fit once more on everything: the model to deploy."] = False
    resume: Annotated[bool, "Go on from the checkpoint in the output folder."] = False
    log_every: Annotated[
        int | None, "Print a JSON line every N steps on stderr, not progress."
    ] = None
    log_file: Annotated[
        Path | None, OutputFile("Write these lines into a file [every 50 steps].")
    ] = None

    @property
    def json_lines(self) -> tuple[Callback, ...]:
        """What writes JSON lines for machines, if they were asked for."""
        if self.log_every is None and self.log_file is None:
            return ()
        if not models.get(self.model).takes_initial_vectors:
            raise ConfigError(
                f"{self.model} has no training loop: leave --log-every and --log-file out"
            )
        every = 50 if self.log_every is None else self.log_every
        return (models.JsonLines(self.log_file, every),)

    def settings(self) -> dict[str, SettingValue]:
        """Return the settings of the model that were typed."""
        settings = parse_settings(self.set)
        if self.steps is not None:
            settings["steps"] = self.steps
        return settings

    def init_settings(self) -> dict[str, SettingValue]:
        """Return the settings of the initialiser; one that reads content gets the item table."""
        settings = parse_settings(self.init_set, "--init-set")
        if self.init in (None, "none") or self.items is None:
            return settings
        config_class = embeddings.get(self.init).config_class
        if "items" in {field.name for field in fields(config_class)}:
            return {"items": self.items, **settings}
        return settings

    def spec(
        self,
        train: Interactions | None = None,
        feature_settings: Mapping[str, SettingValue] | None = None,
    ) -> ModelSpec:
        """Resolve what to fit; without data, what was typed is checked."""
        return models.ModelSpec.resolve(
            self.model,
            train,
            init=models.DEFAULT_INIT if self.init is None else self.init,
            recipe=models.DEFAULT_RECIPE if self.recipe is None else self.recipe,
            seed=self.seed,
            settings={**(feature_settings or {}), **self.settings()},
            init_settings=self.init_settings(),
            cache=True,
        )


def train(
    data: SplitSource,
    output: Output,
    training: _Training,
    log: SplitOptions,
    no_baselines: Annotated[
        bool, "Leave out TopPop, ItemKNN, EASE and Transitions."
    ] = False,
    dataset: Dataset = None,
    json_output: Json = False,
) -> None:
    """Train a model on DATA, test it, and keep model and record in the output folder.

    By default each user's first 70% of interactions in time order train, the next 10% validate,
    the rest test; in a log without times they are drawn at random. With --final the settings and
    steps so tested are then fitted on everything. Ctrl-C (or SIGTERM) ends a training with its
    best weights so far, tested and saved; the same command with --resume goes on. A second Ctrl-C
    stops at once and leaves the checkpoint alone.
    """
    training.spec()
    callbacks = training.json_lines
    from leporid.runs import Run, RunSpec, execute_to_folder, read_run

    split = log.split(data, quiet=json_output)
    tables = models.load_tables(training.items, training.users)
    reads_tables = training.features is not False
    settings = models.table_settings(tables) if reads_tables else {}
    spec = RunSpec(
        training.spec(split.train, settings),
        dataset=dataset or Path(data).stem,
        final=training.final,
        compare_features=training.features is None,
    )
    if not no_baselines:
        spec = spec.with_baselines(split)
    shows_progress = training.log_every is None or training.log_file is not None
    shows_progress &= not json_output
    stopped = None
    with (
        stoppable(lambda: kept_sentence(output)),
        reporting(shows_progress) as reporter,
    ):
        try:
            run, record = execute_to_folder(
                spec,
                split,
                output,
                device=training.device,
                resume=training.resume,
                tables=tables,
                callbacks=callbacks,
                progress=reporter,
            )
        except TrainingInterruptedError as error:
            if not isinstance(error.so_far, Run):
                raise
            stopped = error
            run = error.so_far
            record = read_run(output).record
    parts = tested_parts(record, run.check, len(run.test))
    sentences = (f"wrote {output}", record.extra["deployed"])
    show(json_output, record.to_dict(), *parts, *sentences)
    if stopped is not None:
        sentence = f"{run.interruption}; go on with: {typed_again('--resume')}"
        raise interrupted(sentence, stopped.by)


def kept_sentence(output: Path) -> str:
    """Say what an interrupted command leaves, and how to go on."""
    checkpoint = output / "checkpoint"
    if not (checkpoint / models.CHECKPOINT_FILE).is_file():
        return f"no step of a training was done, and nothing was saved in {output}"
    again = typed_again("--resume")
    return f"the checkpoint in {checkpoint} is kept; go on with: {again}"


def tested_parts(
    record: RunRecord, check: BaselineCheck | None, users: int
) -> list[str | tuple[str, list[dict[str, JsonValue]]]]:
    """Return the run and its baselines, a row each, and how they compare."""
    rows = [result_row(record.model, record.metrics, record.seconds)]
    for other in check.baselines if check else ():
        name = f"{other.name} (baseline)"
        rows.append(result_row(name, other.metrics, other.seconds))
    parts: list[str | tuple[str, list[dict[str, JsonValue]]]]
    parts = [(f"on test, {users:,} users", rows)]
    tried = record.extra.get("training", {}).get("features")
    if tried:
        kept = "with" if tried["with"] > tried["without"] else "without"
        values = ", ".join(f"{value:.4f} {name}" for name, value in tried.items())
        metric = record.config["metric"]
        parts.append(f"features by {metric} on validation: {values}; {kept} is kept")
    cold = record.extra["cold_users"]
    if cold:
        hits = f"HR@10 {record.extra['cold_metrics']['HR@10']:.4f} for them"
        parts.append(f"{cold:,} of these users have no interaction in train: {hits}")
    if check is not None:
        parts.append(
            "baselines have their default settings and are fitted on the same split"
        )
        if check.left_out:
            parts.append(check.left_out)
        parts.append(check.verdict())
    return parts


def result_row(
    name: str, metrics: dict[str, float], seconds: float
) -> dict[str, JsonValue]:
    """Return one row of the table of results."""
    shown = {key: metrics[key] for key in SHOWN_METRICS}
    return {"model": name, **shown, "seconds": f"{seconds:.1f}"}
