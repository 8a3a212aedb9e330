"""What a run that somebody interrupts consists of."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

import leporid
from leporid.errors import TrainingInterruptedError
from leporid.models import FitContext, ModelSpec
from leporid.models.neural.cuda_graph import Backward
from leporid.runs import Run, RunSpec, execute, execute_to_folder, read_run, record_of


def test_an_interrupted_run_is_tested_where_it_is_kept_and_never_final(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    split = leporid.temporal_split(
        leporid.synthesize(users=60, items=40, interactions=1500, seed=3)
    )
    settings: dict[str, Any] = {"dim": 4, "steps": 9, "batch_size": 8, "eval_every": 2}
    model = ModelSpec.resolve("bpr", split.train, recipe=None, settings=settings)
    spec = RunSpec(model, dataset="toy", final=True)
    plain = Backward.__call__
    steps = 0

    def interrupted(self: Backward, *batch: Any) -> Any:
        nonlocal steps
        steps += 1
        if steps in (5, 9, 12):  # the fifth step, then the fourth, then the third
            signal.raise_signal(signal.SIGTERM)
        return plain(self, *batch)

    monkeypatch.setattr(Backward, "__call__", interrupted)
    context = FitContext(device="cpu", checkpoint=tmp_path, keep_interrupted=True)
    run = execute(spec, split, context)
    assert steps == 5
    assert run.final is None
    assert run.interrupted_by is signal.SIGTERM
    assert run.test.mean() == leporid.evaluate(run.model, split).mean()
    assert record_of(run).extra["interrupted"] == run.interruption != ""
    with pytest.raises(TrainingInterruptedError, match="step 4 of 9") as caught:
        execute(spec, split, FitContext(device="cpu"))
    assert caught.value.so_far is None
    with pytest.raises(TrainingInterruptedError, match="step 3 of 9") as caught:
        execute_to_folder(spec, split, tmp_path / "run", device="cpu")
    assert isinstance(caught.value.so_far, Run)
    assert caught.value.so_far.final is None
    saved = read_run(tmp_path / "run").record
    assert saved.metrics == caught.value.so_far.test.mean()
    assert saved.extra["interrupted"] == caught.value.so_far.interruption
