"""`Cell`: one run of a grid as data, and `run_cell`, which loads, splits, fits and tests it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from leporid import models
from leporid.config import Config, canonical_hash
from leporid.data import Split, load, split_by
from leporid.experiments.fit_and_test import CUTOFFS, FittedRun, fit, record_run
from leporid.experiments.record import Meter, record_key
from leporid.experiments.tuning import tune
from leporid.initializers import initial_embeddings
from leporid.progress import ProgressLike, make_progress


@dataclass(frozen=True, kw_only=True)
class Cell(Config):
    """One run of a grid: everything that can change its result."""

    dataset: str
    """The name results are filed under."""
    source: str
    """What `leporid.load` reads: a data set name or a path."""
    experiment: str
    core: int
    min_rating: float | None = None
    """Keep rows with at least this rating."""
    protocol: str
    """One of `leporid.data.splitting.PROTOCOLS`."""
    model: str
    init: str | None
    """Initialiser; None for models that have no embedding tables."""
    seed: int
    recipe: str | None = None
    variant: str | None = None
    """The name of an ablation; None for the plain cell."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of the model that differ from its defaults."""
    init_settings: dict[str, Any] = field(default_factory=dict)
    """Settings of the initialiser that differ from its defaults."""
    at: tuple[int, ...] = CUTOFFS
    metric: str = "NDCG@10"
    """What tuning and early stopping maximise on validation, unless recipe or settings say."""
    trials: int = 0
    """Tuning budget on validation; 0 uses the settings as they are."""

    @property
    def request(self) -> dict[str, Any]:
        """What was asked for. What the data is called belongs to it, not where it lies."""
        left_out = {"source", *(["min_rating"] if self.min_rating is None else [])}
        left_out |= {"metric"} if self.metric == "F1@10" else set()  # all records before 0.8
        return {key: value for key, value in self.to_dict().items() if key not in left_out}

    @property
    def spec_hash(self) -> str:
        """A hash of the request."""
        return canonical_hash(self.request, 12)

    @property
    def key(self) -> str:
        """The key of its record, known before it runs."""
        return record_key(self)

    @property
    def label(self) -> str:
        """For output: 'dlr2 / leporid / seed 1'."""
        parts = [self.model, self.init or "-", f"seed {self.seed}", self.recipe, self.variant]
        return " / ".join(part for part in parts if part)


@lru_cache(maxsize=2)
def load_split(source: str, core: int, protocol: str, min_rating: float | None = None) -> Split:
    """The split of a data set under a protocol; the last two are kept in memory."""
    data = load(source, min_rating=min_rating, progress=False)
    return split_by(data.core(core) if core > 1 else data, protocol)


def run_cell(
    cell: Cell, *, device: str = "auto", progress: bool | ProgressLike | None = None
) -> FittedRun:
    """Fit and test one cell. Selection uses validation only; test is read once."""
    split = load_split(cell.source, cell.core, cell.protocol, cell.min_rating)
    reporter = make_progress(progress)
    settings, recipe, cls = dict(cell.settings), cell.recipe, models.get(cell.model)
    if cls.takes_initial_vectors and "metric" not in cls.recipe_settings(recipe, split.train):
        settings = {"metric": cell.metric, **settings}
    extra: dict[str, Any] = {"cell": cell.request}
    with Meter() as meter:
        # The seed of a cell varies the training. Initial embeddings are computed once for all
        # seeds, except random ones, which are nothing but their seed.
        seeded = {"seed": cell.seed if cell.init == "random" else 0, **cell.init_settings}
        vectors = initial_embeddings(cell.init, split.train, progress=reporter, **seeded)
        if cell.trials:
            fixed = {**cls.recipe_settings(recipe, split.train), **settings}
            asked: dict[str, Any] = {"seed": cell.seed, "init": vectors, "device": device}
            metric = fixed.pop("metric", cell.metric)
            best = tune(cls, split, cell.trials, metric, recipe=None, **asked, **fixed)
            settings, recipe = best.best_config, None
            extra["tuning"] = {"trials": cell.trials, "best_valid": best.best_value}
        how: dict[str, Any] = {"device": device, "progress": reporter, "settings": settings}
        fitted = fit(cls, split, vectors, seed=cell.seed, recipe=recipe, **how)
    names = ("dataset", "experiment", "model", "init", "recipe", "seed", "spec_hash")
    spec = {name: getattr(cell, name) for name in names}
    return record_run(fitted, split, meter, at=cell.at, extra=extra, **spec)
