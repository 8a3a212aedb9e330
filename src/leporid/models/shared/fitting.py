"""`train`: a model by name, an initialiser by name, a split; a fitted model comes back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    progress: bool | ProgressLike | None = True,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    final: bool = False,
    **settings: Any,
) -> Recommender:
    """Fit the model `name` (or a class of your own) on `split`, from the vectors of `init`.

    Parameters
    ----------
    init : the name of an initialiser, vectors already computed, or None (or "none")
        None starts a neural model from small random numbers. Classical models have no tables
        to fill and take no `init`.
    seed : seeds the initialiser and the training
    recipe : a named set of settings of the model ("paper" or "tuned"; dlr2: "paper", "authors",
        "softmax" or "general")
    device : "auto", "cpu", "cuda", "cuda:1"
    progress : a bar, or plain lines where nobody can watch one; False (or the environment variable
        LEPORID_PROGRESS=off) says nothing
    checkpoint : a folder; the run can then be stopped and taken up by `resume=True`
    final : fit once more on everything (`Recommender.refit`) and return that model, to be deployed;
        the one to evaluate is its `validated`
    settings : settings of the model, over those of the recipe
    """
    cls: Any = catalogue.get(name) if isinstance(name, str) else name
    tables = cls.takes_initial_vectors
    if not tables and init is not None and init != "none" and init is not DEFAULT_INIT:
        raise ConfigError(f"{cls.name} has no embedding tables to fill: leave `init` out")
    model: Recommender = cls(**{**cls.recipe_settings(recipe), **settings})
    reporter = make_progress(progress)
    how: dict[str, Any] = {"progress": reporter}
    try:
        if tables:
            about: Any = model.config
            shared = {"cache": False, "progress": reporter, "dim": about.dim, "seed": seed}
            how |= {"init": start(init, split.train, **shared), "device": device}
            how |= {"checkpoint": checkpoint, "resume": resume}
        model.fit(split, seed=seed, **how)
        if not final:
            return model
        if tables:
            # Vectors from elsewhere are used as they are, all others are computed again.
            how["init"] = None if model.fitting.start else how["init"]
            how["checkpoint"] = None if checkpoint is None else Path(checkpoint) / "final"
        deployed = model.refit(split, **how)
        deployed.validated = model
        return deployed
    finally:
        if reporter is not progress:
            reporter.close()
