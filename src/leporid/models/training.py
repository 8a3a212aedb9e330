"""`train`: fit a model by name from an initialisation by name."""

import inspect
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from leporid.data import ItemTable, Split
from leporid.embeddings import EmbeddingSpec, InitialEmbeddings
from leporid.errors import (
    ConfigError,
    TrainingInterruptedError,
    closest,
    warn,
)
from leporid.foundation import (
    Progress,
    SettingValue,
    check_device,
    check_output_folder,
    checks_arguments,
    described,
    is_silent,
    reporting,
)
from leporid.models.base import Recommender
from leporid.models.baselines import (
    baseline_specs,
    best_baseline,
    fit_baselines,
    is_too_large_for_ease,
    left_out_sentence,
    validation_metric,
)
from leporid.models.callbacks import Callback
from leporid.models.context import FitContext
from leporid.models.feature_tables import (
    better_without_features,
    can_compare_features,
    load_tables,
    table_settings,
)
from leporid.models.spec import (
    DEFAULT_INIT,
    DEFAULT_RECIPE,
    Init,
    ModelSpec,
    check_init,
    model_named,
)

if TYPE_CHECKING:
    import torch


@checks_arguments({"seed": 0})
def train(  # noqa: PLR0913 - public: what a training can be told
    model: str | type[Recommender],
    split: Split,
    init: Init = DEFAULT_INIT,
    *,
    seed: int = 123,
    recipe: str | None = DEFAULT_RECIPE,
    init_settings: Mapping[str, SettingValue] | None = None,
    device: "str | torch.device" = "auto",
    progress: Progress = True,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    final: bool = False,
    include_seen: bool | None = None,
    items: object = None,
    users: object = None,
    features: bool | Literal["auto"] = "auto",
    callbacks: Sequence[Callback] = (),
    baselines: bool = True,
    **settings: SettingValue,
) -> Recommender:
    """Fit a model on the training part of a split and return it.

    Ctrl-C or SIGTERM ends a neural training after its current step, with a
    `TrainingInterruptedError` whose `so_far` is the model with the best weights so far. A second
    one, or one before the first step, interrupts at once (`KeyboardInterrupt`).

    Parameters
    ----------
    model : name of a model, or a class of your own
    init : name of an initialisation, vectors that you computed (they set `dim`), or None for small
        random numbers. Closed-form models have no tables to fill.
    seed : seeds the initialisation and the training
    recipe : a named set of settings. "general", the default of neural models, adapts some of them
        to the training part; "paper" has those of the model's own paper; None takes the defaults
        of the settings.
    init_settings : settings of the initialisation besides the model's `dim` and the `seed`;
        `cache=True` reads vectors that were computed before
    device : "auto", "cpu", "cuda" or "cuda:1"
    progress : a bar or plain lines; False (or LEPORID_PROGRESS=off) prints nothing
    checkpoint : a folder; the run can then be stopped and continued with `resume=True`
    final : fit once more on everything (`Recommender.refit`) and return that model, which is the
        one to deploy; the one to evaluate is its `validated`
    include_seen : True if lists may show what a user already has (groceries, music): validation
        then counts repeats, and the model remembers it for its lists. None does as `split` does.
    items, users : tables with features of them. Networks learn embeddings of their columns,
        ItemKNN finds neighbours by content.
    features : "auto" also trains without the tables and keeps what is better on validation
    callbacks : told about the steps and validations of a neural model, and may end its training.
        A `final` fit repeats the same number of steps and does not ask them again.
    baselines : where progress is shown, fit simple models before a neural one, print
        their values on validation, and say in every line where the training stands
    settings : settings of the model, which win over those of the recipe
    """
    check_device(device)
    if checkpoint is not None:
        check_output_folder(checkpoint)
    split = split.including_seen(include_seen)
    tables = load_tables(items, users)
    model_class = model_named(model)
    check_init(model_class, init, init_settings)
    check_use(model_class, tables, callbacks)
    check_settings(model_class, settings)
    feature_settings = table_settings(tables) if features else {}
    spec = ModelSpec.resolve(
        model_class,
        split.train,
        init=init,
        recipe=recipe,
        seed=seed,
        settings={**feature_settings, **settings},
        init_settings=init_settings,
    )
    with reporting(progress) as reporter:
        context = FitContext(
            device=device,
            progress=reporter,
            checkpoint=None if checkpoint is None else Path(checkpoint),
            resume=resume,
            callbacks=tuple(callbacks),
            tables=tables,
        )
        trains = model_class.takes_initial_vectors
        if baselines and trains and not is_silent(reporter):
            context = with_baseline(spec, split, context)
        fitted = fit(
            spec,
            split,
            replace(context, keep_interrupted=True),
            compare_features=features == "auto",
        )
        refuse_interrupted(fitted, context)
        if not final:
            return fitted
        return refit_on_everything(spec, fitted, split, context)


def with_baseline(spec: ModelSpec, split: Split, context: FitContext) -> FitContext:
    """Fit the usual baselines, and return the context that compares a training with the best."""
    metric = validation_metric(spec)
    specs = baseline_specs(split, beside=spec)
    fitted = fit_baselines(specs, split, context.progress, metric)
    if is_too_large_for_ease(split):
        context.progress.say(left_out_sentence(split))
    return replace(context, baseline=best_baseline(fitted, metric))


def fit(
    spec: ModelSpec,
    split: Split,
    context: FitContext,
    *,
    compare_features: bool = False,
) -> Recommender:
    """Fit what a spec describes on the training part of a split.

    With `compare_features` a network that reads feature tables is also trained without them, and
    the better one on validation is returned.
    """
    compares = compare_features and can_compare_features(spec, split, context)
    if spec.model_class.takes_initial_vectors:
        warn_of_replaced_checkpoint(context)
    context = replace(context, init=fit_init(spec, split, context))
    model = spec.model_class(spec.settings)
    fitted = model.fit(split, seed=spec.seed, context=context)
    if not compares:
        return fitted
    return better_without_features(fitted, split, context)


def refuse_interrupted(model: Recommender, context: FitContext) -> None:
    """Raise an error that holds the model, if somebody interrupted its training."""
    history = model.history
    if history is None or history.interrupted_by is None:
        return
    advice = "give a checkpoint folder to be able to go on"
    if context.checkpoint is not None:
        advice = f"go on from the checkpoint in {context.checkpoint} with resume=True"
    raise TrainingInterruptedError(
        f"{model.name} {history.describe()}; this error's `so_far` is the model with those "
        f"weights; {advice}",
        history.interrupted_by,
        model,
    )


def fit_init(
    spec: ModelSpec,
    split: Split,
    context: FitContext,
) -> InitialEmbeddings | None:
    """Compute the initial embeddings of a spec on the training part."""
    if isinstance(spec.init, EmbeddingSpec):
        return spec.init.fit(split.train, progress=context.progress)
    return spec.init


def refit_on_everything(
    spec: ModelSpec,
    validated: Recommender,
    split: Split,
    context: FitContext,
) -> Recommender:
    """Fit the settings and the number of steps of a validated model on all parts of the split.

    Initial embeddings are computed again; vectors that the user computed are used as they are.
    The returned model keeps the one to evaluate as its `validated`.
    """
    checkpoint = context.checkpoint
    if checkpoint is not None:
        checkpoint = checkpoint / "final"
    own_vectors = spec.init if isinstance(spec.init, InitialEmbeddings) else None
    context = replace(
        context, callbacks=(), checkpoint=checkpoint, keep_interrupted=False
    )
    try:
        deployed = validated.refit(split, init=own_vectors, context=context)
    except TrainingInterruptedError as error:
        error.so_far = validated
        raise
    deployed.validated = validated
    return deployed


def check_use(
    model_class: type[Recommender],
    tables: Mapping[str, ItemTable],
    callbacks: Sequence[Callback],
) -> None:
    """Refuse feature tables and callbacks that a model cannot use."""
    if not isinstance(callbacks, Collection) or isinstance(callbacks, str):
        raise ConfigError(f"callbacks must be a list, not {described(callbacks)}")
    if model_class.takes_initial_vectors:
        for callback in callbacks:
            if not isinstance(callback, Callback):
                raise ConfigError(
                    f"callbacks must be objects of leporid.models.Callback, not "
                    f"{described(callback)}"
                )
        return
    known = model_class.config_class().to_dict()
    unused = [
        side for side, table in tables.items() if f"{table.kind}_table" not in known
    ]
    if unused:
        sides = " and ".join(unused)
        raise ConfigError(f"{model_class.name} reads no table of {sides}: leave it out")
    if callbacks:
        raise ConfigError(
            f"{model_class.name} has no training loop: leave `callbacks` out"
        )


def check_settings(
    model_class: type[Recommender], settings: Mapping[str, SettingValue]
) -> None:
    """Refuse an unknown setting whose name is nearest to that of an argument of `train`."""
    known = model_class.config_class().to_dict()
    arguments = inspect.signature(train).parameters
    for name in settings.keys() - known.keys():
        guess = closest(name, [*known, *arguments])
        if guess in arguments:
            raise ConfigError(
                f"train has no argument {name!r}: did you mean {guess!r}?"
            )


def warn_of_replaced_checkpoint(context: FitContext) -> None:
    """Warn if a new run is about to replace the checkpoint of an earlier one."""
    if context.has_checkpoint and not context.resume:
        warn(
            f"{context.checkpoint} holds a checkpoint, which this run replaces: "
            f"--resume (resume=True in Python) would go on from it",
            3,
        )


def trained_on(
    model: Recommender,
    split: Split,
    share: float,
    context: FitContext,
) -> Recommender:
    """Train a fitted network on for the last `share` of its steps, as a new model."""
    fitting = model.fitting
    settings = fitting.schedule().applied_to(model.config)
    context = replace(
        context,
        warm_start=model,
        first_step=fitting.first_step(share),
    )
    return type(model)(settings).fit(split, seed=fitting.seed, context=context)


def fit_sentence(model: Recommender) -> str:
    """Say what a model was fitted on and what it is good for."""
    if model.fitting.final:
        return f"final model, fitted on all {len(model.known):,} interactions"
    return (
        f"validated model, fitted on {len(model.train):,} interactions without the test part: it "
        f"may recommend items users already have; train with --final to deploy"
    )
