"""The training loop of all neural models, on one page.

A step is a pure function of (seed, step): a resumed run gives the weights of an unbroken one.
"""

import math
from pathlib import Path

import torch
from torch import nn

from leporid.data import Split
from leporid.errors import TrainingInterruptedError
from leporid.foundation import interruptible, kept_torch_threads
from leporid.models.context import FitContext
from leporid.models.history import TrainingHistory
from leporid.models.neural.checkpoints import TrainingIdentity, TrainingState
from leporid.models.neural.cuda_graph import Backward
from leporid.models.neural.sampler import Sampler
from leporid.models.neural.settings import (
    TrainingConfig,
    averaging,
    derive_seed,
    learning_rate,
    own_generators,
    seed_default,
)
from leporid.models.neural.trainable import Trainable, load_weights
from leporid.models.neural.training_data import TrainingData
from leporid.models.neural.training_log import TrainingLog
from leporid.models.neural.validation import early_stopping, validate, validation_split
from leporid.models.neural.weights import (
    Weights,
    copy_weights,
    fingerprint,
    update_ema,
)

_MIN_STEPS = 750
"""`epochs` never allows fewer steps, however small the log."""


def train_loop(
    model: Trainable,
    split: Split,
    seed: int,
    context: FitContext,
) -> TrainingHistory:
    """Train `model.net` in place, leave the best weights in it, and return the history."""
    network = model.net
    device = model.device
    data = TrainingData.from_interactions(split.train, device)
    sampler = Sampler(data, model.sampling(), model.config.batch_size, seed)
    config = limit_epochs(model.config, sampler)
    validation = validation_split(split, config, seed)
    optimizer = make_optimizer(network, config)
    state = TrainingState(
        network,
        optimizer,
        average=start_average(network, config),
        step=context.first_step or 0,
    )
    identity = TrainingIdentity(
        model=model.name,
        config=config.to_dict(),
        seed=seed,
        data=f"{split.train.digest}-{split.valid.digest}-{split.include_seen}",
        start=fingerprint(network),
    )
    folder = context.checkpoint
    if context.resume and folder is not None:
        state.load(folder, identity)
    backward = Backward(model)
    finished = early_stopping(config, state.progress)
    network.train()
    shown = config if validation is not None else config.replace(eval_every=0)
    log = TrainingLog(state, shown, context, device, identity)
    with (
        kept_torch_threads(),
        interruptible() as interruption,
        own_generators(device),
        log,
    ):
        while state.step < config.last_step and not finished:
            freeze_tables(model, frozen=tables_are_frozen(config, state.step))
            optimizer.param_groups[0]["lr"] = learning_rate(config, state.step)
            batch = sampler.batch(state.step)
            # Without the last 0, the recorded runs would have other bits.
            seed_default(device, derive_seed(seed, "layers", state.step, 0))
            loss = backward(batch)
            update_weights(model, state, config)

            is_last = log.step(loss, len(batch)) or state.step == config.last_step
            finished = is_last
            metric = None
            if validation is not None and (
                is_last or state.step % config.eval_every == 0
            ):
                metric = validate(model, validation, state)
                ended = log.validation(metric)
                finished = is_last or ended or early_stopping(config, state.progress)
            if metric is not None or is_last or log.is_due():
                log.write(metric)

            stopped_by = None if finished else interruption.by
            checkpoint_is_due = state.step % config.checkpoint_every == 0
            if folder is not None and (finished or stopped_by or checkpoint_is_due):
                log.keep()
                state.save(folder, identity)
            if stopped_by is not None:
                if not context.keep_interrupted:
                    advice = _resume_advice(state, config, folder)
                    raise TrainingInterruptedError(advice, stopped_by)
                log.ended = stopped_by.name
                break
        log.ended = log.ended or why_ended(state, config)
    freeze_tables(model, frozen=False)
    network.zero_grad(set_to_none=True)
    load_weights(model, state.best or state.average)
    return log.history()


def update_weights(
    model: Trainable, state: TrainingState, config: TrainingConfig
) -> None:
    """Move the weights by the gradients, and their average after them: one step."""
    if config.clip_norm:
        nn.utils.clip_grad_norm_(model.net.parameters(), config.clip_norm)
    state.optimizer.step()
    model.freeze_untrained_rows()
    model.weights_changed()
    state.step += 1
    update_ema(state.average, model.net, averaging(config, state.step))


def why_ended(state: TrainingState, config: TrainingConfig) -> str:
    """Return why a training that nobody interrupted ended, as in `TrainingHistory.ended`."""
    if early_stopping(config, state.progress):
        return "patience"
    return "steps" if state.step >= config.last_step else "callback"


def limit_epochs(config: TrainingConfig, sampler: Sampler) -> TrainingConfig:
    """Return the settings with the steps that `epochs` allows, and no fewer validations."""
    steps = math.ceil(config.epochs * sampler.n_examples / sampler.batch_size)
    steps = max(steps, _MIN_STEPS)
    if not config.epochs or steps >= config.steps:
        return config
    eval_every = -(-config.eval_every * steps // config.steps)
    return config.replace(steps=steps, eval_every=eval_every)


def make_optimizer(network: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """Return the optimiser of the settings."""
    kind = torch.optim.Adam if config.optimizer == "adam" else torch.optim.AdamW
    return kind(
        network.parameters(),
        lr=config.lr,
        weight_decay=config.weight_decay,
        fused=True,
    )


def start_average(network: nn.Module, config: TrainingConfig) -> Weights:
    """Return the running average before the first step; empty if the settings ask for none."""
    if config.ema_decay or config.ema_share:
        return copy_weights(network)
    return {}


def tables_are_frozen(config: TrainingConfig, step: int) -> bool:
    """Whether the tables of initial embeddings are not trained in a step."""
    return config.freeze_steps < 0 or step < config.freeze_steps


def freeze_tables(model: Trainable, frozen: bool) -> None:
    """Train the tables of initial embeddings from now on, or not."""
    for table in model.tables:
        table.requires_grad_(not frozen)


def _resume_advice(
    state: TrainingState,
    config: TrainingConfig,
    checkpoint: Path | None,
) -> str:
    advice = "nothing was kept, give a checkpoint folder to be able to go on"
    if checkpoint is not None:
        advice = f"go on from the checkpoint in {checkpoint} with --resume (resume=True in Python)"
    return f"training stopped at step {state.step:,} of {config.last_step:,}; {advice}"
