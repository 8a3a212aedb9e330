"""Records made by hand."""

from __future__ import annotations

from typing import Any

from leporid.runs import RunRecord


def record(model: str, init: str | None, seed: int, hr: float, **extra: Any) -> RunRecord:
    """A run that was tested on what its model had seen: `seen`, or the training part alone."""
    extra.setdefault("seen", "train only")
    metrics = {"HR@5": hr / 2, "HR@10": hr, "F1@5": hr / 10, "F1@10": hr / 5}
    return RunRecord(
        dataset=extra.pop("dataset", "ml-1m-r3"),
        experiment=extra.pop("experiment", "initialisers"),
        model=model,
        init=init,
        recipe=None,
        seed=seed,
        config={},
        metrics=metrics,
        valid_metrics=metrics,
        tail_metrics={key: value / 2 for key, value in metrics.items()},
        seconds=1.0,
        peak_memory_mb=1.0,
        device="cpu",
        extra=extra,
    )
