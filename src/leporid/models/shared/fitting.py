"""`train`: a model by name, an initialiser by name, a split; a fitted model comes back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leporid.data import Split
from leporid.errors import ConfigError
from leporid.initializers import InitialEmbeddings, initial_embeddings
from leporid.models.shared import catalogue
from leporid.models.shared.base import Recommender
from leporid.progress import ProgressLike, make_progress

if TYPE_CHECKING:
    import torch

    from leporid.training import Callback


class _DefaultName(str):
    """A name that nobody typed."""


DEFAULT_INIT = _DefaultName("leporid")
"""LEPORID for models with embedding tables; quietly nothing for those without."""
DEFAULT_RECIPE = _DefaultName("general")
"""`general` for models that have it; the settings' own defaults for others."""


def named_recipe(cls: type[Recommender], recipe: str | None) -> str | None:
    """The recipe that is meant: nobody asked a model without recipes for `general`."""
    return None if recipe is DEFAULT_RECIPE and recipe not in cls.recipes else recipe


def train(
    name: str | type[Recommender],
    split: Split,
    init: str | InitialEmbeddings | None = DEFAULT_INIT,
    *,
    seed: int = 123,
    recipe: str | None = DEFAULT_RECIPE,
    device: str | torch.device = "auto",
    progress: bool | ProgressLike | None = True,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    final: bool = False,
    callbacks: Sequence[Callback] = (),
    **settings: Any,
) -> Recommender:
    """Fit the model `name` (or a class of your own) on `split`, from the vectors of `init`.

    Parameters
    ----------
    init : the name of an initialiser, vectors already computed, or None (or "none")
        None starts a neural model from small random numbers. Classical models have no tables
        to fill and take no `init`.
    seed : seeds the initialiser and the training
    recipe : a named set of settings of the model; "general", the default of neural models, fits
        some of them to the training part, "paper" has those of the model's own paper; None takes
        the defaults of the settings
    device : "auto", "cpu", "cuda", "cuda:1"
    progress : a bar, or plain lines where nobody can watch one; False (or the environment variable
        LEPORID_PROGRESS=off) says nothing
    checkpoint : a folder; the run can then be stopped and taken up by `resume=True`
    final : fit once more on everything (`Recommender.refit`) and return that model, to be deployed;
        the one to evaluate is its `validated`
    callbacks : told of steps and validations of a neural model, and may end its training; a `final`
        fit, which has as many steps, does not ask them again
    settings : settings of the model, over those of the recipe
    """
    cls: Any = catalogue.get(name) if isinstance(name, str) else name
    tables = cls.takes_initial_vectors
    if not tables and init is not None and init != "none" and init is not DEFAULT_INIT:
        raise ConfigError(f"{cls.name} has no embedding tables to fill: leave `init` out")
    if not tables and callbacks:
        raise ConfigError(f"{cls.name} has no training loop: leave `callbacks` out")
    recipe = named_recipe(cls, recipe)
    model: Recommender = cls(**{**cls.recipe_settings(recipe, split.train), **settings})
    reporter = make_progress(progress)
    how: dict[str, Any] = {"progress": reporter}
    try:
        if tables:
            about: Any = model.config
            shared = {"cache": False, "progress": reporter, "dim": about.dim, "seed": seed}
            how |= {"init": initial_embeddings(init, split.train, **shared), "device": device}
            how |= {"checkpoint": checkpoint, "resume": resume, "callbacks": callbacks}
        model.fit(split, seed=seed, **how)
        if not final:
            return model
        if tables:
            # Vectors from elsewhere are used as they are, all others are computed again.
            how["init"] = None if model.fitting.start else how["init"]
            how["checkpoint"] = None if checkpoint is None else Path(checkpoint) / "final"
            how["callbacks"] = ()
        deployed = model.refit(split, **how)
        deployed.validated = model
        return deployed
    finally:
        if reporter is not progress:
            reporter.close()
