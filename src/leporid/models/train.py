"""`train`: a model by name, an initialiser by name, a split; a fitted model comes back."""

import inspect
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from leporid.arguments import checks_arguments, described
from leporid.artifacts import check_output_folder
from leporid.data import TABLES, Split, expect
from leporid.embeddings import InitialEmbeddings, initial_embeddings
from leporid.errors import ConfigError, closest, warn
from leporid.machine import check_device
from leporid.models import registry as catalogue
from leporid.models.base import Recommender
from leporid.models.neural.checkpoints import FILE_NAME, Callback
from leporid.progress import ProgressLike, make_progress

if TYPE_CHECKING:
    import torch

    from leporid.models.neural.checkpoints import Callback

Model = TypeVar("Model", bound=Recommender)


class _DefaultName(str):
    """A name that nobody typed."""


DEFAULT_INIT = _DefaultName("leporid")
"""LEPORID for models with embedding tables; nothing for those without."""
DEFAULT_RECIPE = _DefaultName("general")
"""`general` for models that have it; the settings' own defaults for others."""


def named_recipe(cls: type[Recommender], recipe: str | None) -> str | None:
    """The recipe that is meant: nobody asked a model without recipes for `general`."""
    return None if recipe is DEFAULT_RECIPE and recipe not in cls.recipes else recipe


@checks_arguments({"seed": 0})
def train(
    name: str | type[Recommender],
    split: Split,
    init: str | InitialEmbeddings | None = DEFAULT_INIT,
    *,
    seed: int = 123,
    recipe: str | None = DEFAULT_RECIPE,
    init_settings: Mapping[str, Any] | None = None,
    device: "str | torch.device" = "auto",
    progress: bool | ProgressLike | None = True,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    final: bool = False,
    include_seen: bool | None = None,
    items: Any = None,
    users: Any = None,
    features: bool | Literal["auto"] = "auto",
    callbacks: "Sequence[Callback]" = (),
    **settings: Any,
) -> Recommender:
    """Fit the model `name` (or a class of your own) on `split`, with the initial embeddings `init`.

    Parameters
    ----------
    init : the name of an initialiser, vectors already computed (they set `dim`), or None ("none"),
        which draws small random numbers. Classical models have no tables to fill.
    seed : seeds the initialiser and the training
    recipe : a named set of settings of the model; "general", the default of neural models, fits
        some of them to the training part, "paper" has those of the model's own paper; None takes
        the defaults of the settings
    init_settings : settings of the initialiser over the model's `dim` and the `seed`; `cache=True`
        reads vectors that were computed before
    device : "auto", "cpu", "cuda", "cuda:1"
    progress : a bar or plain lines; False (or LEPORID_PROGRESS=off) says nothing
    checkpoint : a folder; the run can then be stopped and taken up by `resume=True`
    final : fit once more on everything (`Recommender.refit`) and return that model, to be deployed;
        the one to evaluate is its `validated`
    include_seen : True for lists that may show what a user already has (groceries, music): the
        validation counts repeats, and the model keeps it for its lists; None does as `split` does
    items, users : tables about them: their columns get embeddings, or in ItemKNN content neighbours
    features : "auto" trains without the tables too and keeps what is better on validation
    callbacks : told of steps and validations of a neural model, and may end its training; a `final`
        fit, which has as many steps, does not ask them again
    settings : settings of the model, over those of the recipe
    """
    cls = model_class(name)
    expect(split, Split, "train(model, split)")
    check_device(device)
    if checkpoint is not None:
        check_output_folder(checkpoint)
    split = split.including_seen(include_seen)
    given = ("items", items), ("users", users)
    tables = {
        side: TABLES[side].load(source) for side, source in given if source is not None
    }
    _check(cls, init, init_settings, callbacks, tables)
    recipe = named_recipe(cls, recipe)
    settings |= {
        f"{table.kind}_table": table.name for table in tables.values() if features
    }
    size = {"dim": init.users.dim} if isinstance(init, InitialEmbeddings) else {}
    _check_settings(cls, settings)
    model: Recommender = cls(
        **{**cls.recipe_settings(recipe, split.train), **size, **settings}
    )
    config: Any = model.config
    compared = features == "auto" and _can_compare(cls, tables, split, config)
    reporter = make_progress(progress)
    how: dict[str, Any] = {"progress": reporter} | (
        {"tables": tables} if tables else {}
    )
    try:
        if cls.takes_initial_vectors:
            vectors = {
                "cache": False,
                "dim": config.dim,
                "seed": seed,
                **(init_settings or {}),
            }
            how["init"] = initial_embeddings(
                init, split.train, progress=reporter, **vectors
            )
            how |= {"device": device, "checkpoint": checkpoint, "resume": resume}
            how["callbacks"] = callbacks
            _warn_of_replacing(checkpoint, resume)
        model.fit(split, seed=seed, **how)
        model = _better(model, split, seed, how) if compared else model
        if not final:
            return model
        if cls.takes_initial_vectors:
            # Vectors from elsewhere are used as they are, all others are computed again.
            how |= {
                "init": None if model.fitting.init else how["init"],
                "callbacks": (),
            }
            how["checkpoint"] = (
                None if checkpoint is None else Path(checkpoint) / "final"
            )
        deployed = model.refit(split, **how)
        deployed.validated = model
        return deployed
    finally:
        if reporter is not progress:
            reporter.close()


def model_class(name: str | type[Recommender]) -> Any:
    """The class of a model's name, or a class of the user's own."""
    if isinstance(name, type) and issubclass(name, Recommender):
        return name
    if isinstance(name, str):
        return catalogue.get(name)
    raise ConfigError(
        f"the model must be a name such as 'dlr2' or a class of models, not {described(name)}"
    )


def _check_settings(cls: type[Recommender], settings: Mapping[str, Any]) -> None:
    """Refuse an unknown setting whose name is nearest to that of an argument of `train`."""
    own, arguments = cls.config_class().to_dict(), inspect.signature(train).parameters
    for name in settings.keys() - own.keys():
        if (guess := closest(name, [*own, *arguments])) in arguments:
            raise ConfigError(
                f"train has no argument {name!r}: did you mean {guess!r}?"
            )


def _warn_of_replacing(checkpoint: str | Path | None, resume: bool) -> None:
    if checkpoint and not resume and (Path(checkpoint) / FILE_NAME).is_file():
        lost = f"{checkpoint} holds a checkpoint, which this run replaces: "
        warn(f"{lost}--resume (resume=True in Python) would go on from it", 3)


def _can_compare(
    cls: Any, tables: Mapping[str, Any], split: Split, config: Any
) -> bool:
    """Whether there are tables for a network; then there must be a validation to compare by."""
    if not (tables and cls.takes_initial_vectors):
        return False
    if not (len(split.valid) and config.eval_every):
        raise ConfigError(
            'features="auto" needs a validation: say features=True or False'
        )
    return True


def _better(model: Any, split: Split, seed: int, how: dict[str, Any]) -> Recommender:
    """The model, or one without its tables where that is as good on validation; says both."""
    plain = type(model)(model.asked.replace(item_table="", user_table=""))
    folder = how["checkpoint"] and Path(how["checkpoint"]) / "without features"
    plain.fit(split, seed=seed, **{**how, "checkpoint": folder})
    both = {"with": model.history.best_metric, "without": plain.history.best_metric}
    kept: Any = model if both["with"] > both["without"] else plain
    kept._summary["features"] = both
    values = " and ".join(
        f"{value:.4f} {name} features" for name, value in both.items()
    )
    how["progress"].start(f"{model.config.metric} on validation: {values}")
    return cast(Recommender, kept)


def _check(
    cls: Any, init: Any, init_settings: Any, callbacks: Any, tables: Any
) -> None:
    """Refuse what a model has no use for."""
    is_other = init is not None and not isinstance(init, str | InitialEmbeddings)
    if is_other:
        raise ConfigError(
            f"init must be the name of an initialiser, InitialEmbeddings or None, not "
            f"{described(init)}: leporid.initializers.InitialEmbeddings(users, items) puts two "
            f"Embedding together"
        )
    if not isinstance(callbacks, Collection) or isinstance(callbacks, str):
        raise ConfigError(f"callbacks must be a list, not {described(callbacks)}")
    if cls.takes_initial_vectors:
        for callback in callbacks:
            if not isinstance(callback, Callback):
                raise ConfigError(
                    f"callbacks must be objects of leporid.training.Callback, not "
                    f"{described(callback)}"
                )
    if init_settings and not isinstance(init, str):
        raise ConfigError(
            "init_settings are those of an initialiser: give its name as `init`"
        )
    if cls.takes_initial_vectors:
        return
    if (init not in (None, "none") and init is not DEFAULT_INIT) or init_settings:
        raise ConfigError(
            f"{cls.name} has no embedding tables to fill: leave `init` out"
        )
    known = cls.config_class().to_dict()
    if unused := [
        side for side, table in tables.items() if f"{table.kind}_table" not in known
    ]:
        raise ConfigError(
            f"{cls.name} reads no table of {' and '.join(unused)}: leave it out"
        )
    if callbacks:
        raise ConfigError(f"{cls.name} has no training loop: leave `callbacks` out")


def continued(model: Model, split: Split, share: float, **how: Any) -> Model:
    """A new model: a fitted network trained on for the last `share` of its steps."""
    done = model.fitting
    how |= {"after": model, "first_step": done.first_step(share)}
    config = model.config.replace(**done.schedule())
    return type(model)(config).fit(split, seed=done.seed, **how)


def fit_sentence(model: Recommender) -> str:
    """What a model was fitted on and what it is good for."""
    if model.fitting.final:
        return f"final model, fitted on all {len(model.known):,} interactions"
    return (
        f"validated model, fitted on {len(model.train):,} interactions without the test part: it "
        f"may recommend items users already have; train with --final to deploy"
    )
