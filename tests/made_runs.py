"""Runs for tests: of a model that is fitted already, or trained into a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from leporid.data import Split
from leporid.embeddings import EmbeddingSpec
from leporid.models import Init, ModelSpec, Recommender
from leporid.runs import Cost, Run, RunSpec, evaluate_run, execute_to_folder


def run_of(
    model: Recommender,
    split: Split,
    *,
    seed: int = 0,
    init: str | None = None,
    extra: dict[str, Any] | None = None,
) -> Run:
    """Test a fitted model, as the end of a run does."""
    start = None if init is None else EmbeddingSpec.resolve(init, {})
    spec = RunSpec(
        ModelSpec(type(model), model.requested, init=start, seed=seed),
        dataset="toy",
        experiment="x",
        extra=extra or {},
    )
    return evaluate_run(spec, split, model, Cost(0.1, 1.0))


def train_to(
    folder: Path,
    model: str,
    split: Split,
    init: Init = None,
    *,
    final: bool = False,
    baselines: bool = True,
    **settings: Any,
) -> Run:
    """Train a model into a run folder."""
    spec = RunSpec(
        ModelSpec.resolve(
            model, split.train, init=init, recipe=None, settings=settings, cache=True
        ),
        dataset="toy",
        final=final,
    )
    if baselines:
        spec = spec.with_baselines(split)
    run, _ = execute_to_folder(spec, split, folder, device="cpu")
    return run
