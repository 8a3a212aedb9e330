"""`stop` ends a training early, and a later call goes on from there."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import leporid
from leporid.models import FitContext, StopWhen, get

_SETTINGS = {"dim": 8, "steps": 30, "batch_size": 64, "eval_every": 0}


def test_a_training_in_two_parts_is_that_of_one(tmp_path: Path) -> None:
    split = leporid.temporal_split(leporid.synthesize(60, 40, 900, seed=1))
    asked: list[int] = []

    def stop(step: int) -> bool:
        asked.append(step)
        return step >= 11

    bpr = get("bpr")
    whole = bpr(**_SETTINGS).fit(split, seed=4)
    first = bpr(**_SETTINGS)
    first.fit(split, seed=4, context=FitContext(checkpoint=tmp_path, callbacks=(StopWhen(stop),)))  # type: ignore[call-arg]
    assert asked == list(range(1, 12))
    rows = np.arange(60, dtype=np.int32)
    assert not np.array_equal(first.score(rows), whole.score(rows))
    second = bpr(**_SETTINGS)
    second.fit(split, seed=4, context=FitContext(checkpoint=tmp_path, resume=True))  # type: ignore[call-arg]
    assert np.array_equal(second.score(rows), whole.score(rows))


def test_what_stops_is_validated_and_keeps_the_best() -> None:
    split = leporid.temporal_split(leporid.synthesize(60, 40, 900, seed=1))
    model = get("bpr")(**{**_SETTINGS, "eval_every": 10})
    model.fit(split, seed=4, context=FitContext(callbacks=(StopWhen(lambda step: step == 7),)))  # type: ignore[call-arg]
    history = model.history  # type: ignore[attr-defined]
    assert history.rows[-1]["step"] == history.best_step == 7
    assert history.rows[-1]["metric"] == history.best_metric
