"""A run on disk: the model, its record, its history, and what each user got.

RUN/model/               what `Recommender.load` reads
RUN/record.json          a `RunRecord`
RUN/record.users.parquet `UserOutcomes`, for paired tests between runs
RUN/history.csv          loss and validation over the steps (neural models)
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from leporid.artifacts import write_json
from leporid.runs.outcomes import UserOutcomes
from leporid.runs.record import Meter, RunRecord

if TYPE_CHECKING:
    from leporid.data.split import Split
    from leporid.evaluation.metric_table import MetricTable
    from leporid.models.shared.base import Recommender

__all__ = ["CUTS", "make_record", "write_run"]

CUTS = (1, 5, 10)
"""The list lengths a run is judged at."""


def make_record(
    model: Recommender, split: Split, test: MetricTable, meter: Meter, **spec: Any
) -> RunRecord:
    """The record of a fitted model; `spec` is dataset, experiment, init, recipe and seed."""
    import leporid
    from leporid.evaluation.strata import user_stratum

    valid: dict[str, float] = {}
    if len(split.valid):
        valid = leporid.evaluate(model, split, at=CUTS, part="valid").mean()
    # A handful of users may have no tail among those with something to find.
    has_tail = user_stratum("tail-users", test.activity)[test.user].any()
    extra: dict[str, Any] = {
        "protocol": split.protocol,
        "data_digest": split.digest,
        "skipped_users": test.skipped,
        "confidence_95": {k: list(test.confidence(k)[1:]) for k in ("HR@10", "F1@10")},
    }
    summary = getattr(model, "training_summary", None)
    if callable(summary):
        extra["training"] = summary()
    return RunRecord.make(
        **spec,
        model=model.name,
        config=model.config.to_dict(),
        metrics=test.mean(),
        valid_metrics=valid,
        tail_metrics=test.mean(stratum="tail-users") if has_tail else {},
        seconds=meter.seconds,
        peak_memory_mb=meter.peak_memory_mb,
        device=_device_name(model),
        extra=extra,
    )


def write_run(
    folder: str | Path,
    model: Recommender,
    record: RunRecord,
    test: MetricTable,
    *,
    tensorboard: bool = False,
) -> Path:
    """Write the folder; the record comes last, so where it is the rest is."""
    folder = Path(folder)
    model.save(folder / "model")
    history = getattr(model, "history", None)
    if history is not None:
        history.to_csv(folder / "history.csv")
        if tensorboard:
            history.to_tensorboard(folder / "tensorboard")
    UserOutcomes.of(test).write(folder / "record.users.parquet")
    write_json(folder / "record.json", record.to_dict())
    return folder


def _device_name(model: Any) -> str:
    device = getattr(model, "device", None)
    if device is None or device.type == "cpu":
        return "cpu"
    import torch

    return str(torch.cuda.get_device_name(device))
