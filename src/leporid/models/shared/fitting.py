"""`train`: a model by name, an initialiser by name, a split; a fitted model comes back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from leporid.data import Split
from leporid.errors import ConfigError
from leporid.initializers import InitialEmbeddings, start
from leporid.models.shared import catalogue
from leporid.models.shared.base import Recommender
from leporid.progress import ProgressLike, make_progress

if TYPE_CHECKING:
    import torch


class _DefaultName(str):
    """A name that nobody typed."""


DEFAULT_INIT = _DefaultName("leporid")
"""LEPORID for models with embedding tables; quietly nothing for those without."""


def train(
    name: str | type[Recommender],
    split: Split,
    init: str | InitialEmbeddings | None = DEFAULT_INIT,
    *,
    seed: int = 123,
    recipe: str | None = None,
    device: str | torch.device = "auto",
    progress: bool | ProgressLike | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    **settings: Any,
) -> Recommender:
    """Fit the model `name` (or a class of your own) on `split`, from the vectors of `init`.

    Parameters
    ----------
    init : the name of an initialiser, vectors already computed, or None (or "none")
        None starts a neural model from small random numbers. Classical models have no tables
        to fill and take no `init`.
    seed : seeds the initialiser and the training
    recipe : a named set of settings of the model ("paper" or "tuned"; dlr2: "paper" or "softmax")
    device : "auto", "cpu", "cuda", "cuda:1"
    checkpoint : a folder; the run can then be stopped and taken up by `resume=True`
    settings : settings of the model, over those of the recipe
    """
    cls: Any = catalogue.get(name) if isinstance(name, str) else name
    reporter = make_progress(progress)
    if not cls.takes_initial_vectors:
        if init is not None and init != "none" and init is not DEFAULT_INIT:
            raise ConfigError(f"{cls.name} has no embedding tables to fill: leave `init` out")
        cls.recipe_settings(recipe)
        return cast(Recommender, cls(**settings).fit(split, seed=seed, progress=reporter))
    model = cls.from_recipe(recipe, **settings)
    dim = model.config.dim
    vectors = start(init, split.train, cache=False, progress=reporter, dim=dim, seed=seed)
    how = {"device": device, "checkpoint": checkpoint, "resume": resume}
    return cast(Recommender, model.fit(split, seed=seed, progress=reporter, init=vectors, **how))
