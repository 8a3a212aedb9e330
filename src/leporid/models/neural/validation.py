"""Validation during a training: who validates, which weights are kept, and when to stop early."""

from dataclasses import replace

import numpy as np

from leporid.data import Split
from leporid.evaluation import evaluate, parse_metric
from leporid.foundation import kept_torch_threads
from leporid.models.neural.checkpoints import TrainingProgress, TrainingState
from leporid.models.neural.settings import TrainingConfig, derive_seed
from leporid.models.neural.trainable import Trainable, load_weights
from leporid.models.neural.weights import copy_weights


def validation_split(
    split: Split,
    config: TrainingConfig,
    seed: int,
) -> Split | None:
    """Return the split with the users that validate; None if nobody does."""
    if not config.eval_every or not len(split.valid.target_events):
        return None
    users = np.unique(split.valid.target_events.user)
    if not 0 < config.eval_users < len(users):
        return split
    source = np.random.default_rng(derive_seed(seed, "validation users"))
    sample = source.choice(users, config.eval_users, replace=False)
    part = split.valid.select(np.isin(split.valid.user, sample))
    return replace(split, valid=part)


def measure(model: Trainable, split: Split) -> float:
    """Return `config.metric` on `split.valid`; `split.test` is never read."""
    metric = model.config.metric
    _, cutoff = parse_metric(metric)
    with kept_torch_threads():
        table = evaluate(
            model,
            split,
            at=(cutoff,),
            part="valid",
        )
    return table.mean()[metric]


def validate(
    model: Trainable,
    split: Split,
    state: TrainingState,
) -> float:
    """Return the metric of the (averaged) weights, and keep these if they are the best so far."""
    trained = copy_weights(model.net) if state.average else {}
    load_weights(model, state.average)
    metric = measure(model, split)
    progress = state.progress
    if progress.best_metric is None or metric > progress.best_metric:
        state.best = copy_weights(model.net)
        progress.best_metric = metric
        progress.best_step = state.step
        progress.no_improvement = 0
    else:
        progress.no_improvement += 1
    load_weights(model, trained)
    return metric


def early_stopping(config: TrainingConfig, progress: TrainingProgress) -> bool:
    """Whether `patience` validations in a row brought no improvement."""
    return 0 < config.patience <= progress.no_improvement
