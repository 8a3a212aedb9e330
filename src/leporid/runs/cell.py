"""Run one cell of a grid: load, split, initialise, train, evaluate, record."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from leporid.progress import ProgressLike, make_progress
from leporid.runs.outcomes import UserOutcomes
from leporid.runs.record import Meter, RunRecord

if TYPE_CHECKING:
    from leporid.data.split import Split
    from leporid.initializers.base import InitialEmbeddings
    from leporid.models.shared.base import Recommender
    from leporid.runs.spec import Cell

__all__ = ["load_split", "run_cell", "train_cell"]


@lru_cache(maxsize=2)
def load_split(source: str, core: int, protocol: str) -> Split:
    """The split of a data set under a protocol; the last two are kept in memory."""
    import leporid

    data = leporid.load(source)
    if core > 1:
        data = data.core(core)
    if protocol == "temporal":
        return leporid.temporal_split(data)
    return leporid.leave_last_out(data)


def run_cell(
    cell: Cell, *, device: str = "auto", progress: bool | ProgressLike | None = None
) -> tuple[RunRecord, UserOutcomes]:
    """Train and evaluate one cell. Selection sees validation only; test is read once, here."""
    import leporid

    split = load_split(cell.source, cell.core, cell.protocol)
    reporter = make_progress(progress)
    with Meter() as meter:
        model, extra = train_cell(cell, split, device=device, progress=reporter)
    test = leporid.evaluate(model, split, at=cell.at, part="test")
    valid = leporid.evaluate(model, split, at=cell.at, part="valid")
    names = [f"{family}@{max(cell.at)}" for family in ("HR", "F1")]
    intervals = {name: list(test.confidence(name)[1:]) for name in names}
    record = RunRecord.make(
        dataset=cell.dataset,
        experiment=cell.experiment,
        model=cell.model,
        init=cell.init,
        recipe=cell.recipe,
        seed=cell.seed,
        config=model.config.to_dict(),
        metrics=test.mean(),
        valid_metrics=valid.mean(),
        tail_metrics=test.mean(stratum="tail-users"),
        seconds=meter.seconds,
        peak_memory_mb=meter.peak_memory_mb,
        device=device_name(device) if model.takes_initial_vectors else "cpu",
        spec_hash=cell.spec_hash,
        extra={
            "cell": {key: value for key, value in cell.to_dict().items() if key != "source"},
            "protocol": split.protocol,
            "data_digest": split.digest,
            "confidence_95": intervals,
            "skipped_users": test.skipped,
            **extra,
        },
    )
    return record, UserOutcomes.of(test)


def train_cell(
    cell: Cell, split: Split, *, device: str, progress: ProgressLike
) -> tuple[Recommender, dict[str, Any]]:
    """The fitted model of a cell, and what its training adds to the record."""
    import leporid

    vectors = initial_vectors(cell, split, progress)
    settings, recipe = dict(cell.settings), cell.recipe
    extra: dict[str, Any] = {}
    if cell.trials:
        recipes = getattr(leporid.models.get(cell.model), "recipes", {})
        fixed = {**recipes.get(recipe, {}), **settings}
        result = leporid.tune(
            cell.model, split, cell.trials, seed=cell.seed, init=vectors, device=device, **fixed
        )
        settings, recipe = result.best_config, None
        extra["tuning"] = {"trials": cell.trials, "best_valid": result.best_value}
    model = leporid.train(
        cell.model,
        split,
        init=vectors,
        seed=cell.seed,
        recipe=recipe,
        device=device,
        progress=progress,
        **settings,
    )
    if vectors is not None:
        extra |= training_summary(model)
    return model, extra


def initial_vectors(cell: Cell, split: Split, progress: ProgressLike) -> InitialEmbeddings | None:
    """The starting vectors of a cell, from the cache where they have been computed before."""
    from leporid.initializers.starting import start

    # The seed of a cell varies the training. Vectors are computed once for all seeds, except
    # random ones, which are nothing but their seed.
    settings = {"seed": cell.seed if cell.init == "random" else 0, **cell.init_settings}
    return start(cell.init, split.train, progress=progress, **settings)


def training_summary(model: Any) -> dict[str, Any]:
    """Steps to the best validation value and drift from the start, where a model knows them."""
    summary = getattr(model, "training_summary", None)
    return {"training": summary()} if callable(summary) else {}


def device_name(device: str) -> str:
    """'cpu', or the accelerator's own name."""
    if device == "cpu":
        return "cpu"
    import torch

    if device == "auto" and not torch.cuda.is_available():
        return "cpu"
    return str(torch.cuda.get_device_name())
