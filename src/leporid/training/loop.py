"""The training loop of all neural models, on one page.

A step is a pure function of (seed, step): a resumed run gives the weights of an unbroken one.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import signal
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from leporid.data import Split
from leporid.errors import TrainingInterruptedError
from leporid.evaluation import evaluate, parse_metric
from leporid.progress import ProgressLike
from leporid.threads import kept_torch_threads
from leporid.training.backward import Trainable, backward_of
from leporid.training.callbacks import Callback, Callbacks
from leporid.training.checkpoint import FILE_NAME, TrainingState, to_arrays
from leporid.training.config import TrainingConfig, averaging, learning_rate
from leporid.training.device import Group, derive_seed, own_generators, seed_default
from leporid.training.history import Log, TrainingHistory
from leporid.training.sampler import Sampler, TrainingData

_LOG_EVERY = 50
"""Steps between two rows of the history; each row waits for the device."""
_MIN_STEPS = 750
"""`passes` never allows fewer steps, however small the log."""


def train_loop(
    model: Trainable,
    split: Split,
    *,
    seed: int,
    progress: ProgressLike,
    checkpoint: Path | None = None,
    resume: bool = False,
    callbacks: Sequence[Callback] = (),
    first_step: int = 0,
) -> TrainingHistory:
    """Train `model.net` in place, from `first_step` on, and leave the best weights in it."""
    module, device = model.net, model.device
    group = Group(device)
    data = TrainingData.from_interactions(split.train, device)
    sampler = Sampler(data, model.sampling(), model.config.batch_size, seed)
    config = _spread(model.config, sampler)
    validation = Validation(model, split, seed) if config.eval_every and len(split.valid) else None
    optimizer = _optimizer(module, config)
    average = _copy(module) if config.ema_decay or config.ema_share else {}
    state = TrainingState(module, optimizer, average=average, step=first_step)
    identity = {"model": model.name, "config": config.to_dict(), "seed": seed}
    identity |= {"data": split.digest, "start": _fingerprint(module)}
    if resume and checkpoint is not None and (checkpoint / FILE_NAME).is_file():
        state.load(checkpoint, identity, config)
    group.share(module.state_dict().values())
    log = Log(state, config, progress, f"training {model.name}", group)
    backward = backward_of(model, group.world)
    finished = _stale(config, state)
    module.train()
    events = Callbacks(callbacks if group.is_main else (), state, identity, config.last_step)
    with _interruptible() as interrupted, own_generators(device), kept_torch_threads(), events:
        while state.step < config.last_step and not finished:
            step = state.step
            _freeze(model, frozen=config.freeze_steps < 0 or step < config.freeze_steps)
            optimizer.param_groups[0]["lr"] = learning_rate(config, step)
            whole = sampler.batch(step)
            batch = whole.shard(group.rank, group.world)
            seed_default(device, derive_seed(seed, "layers", step, group.rank))
            # Shares may differ by one row: weighted, their sum is the mean of the batch.
            loss = backward(batch, len(batch) / len(whole))
            group.sum_gradients(module.parameters())
            if config.clip_norm:
                nn.utils.clip_grad_norm_(module.parameters(), config.clip_norm)
            optimizer.step()
            model.hold_rows()
            model.weights_changed()
            state.step = step + 1
            _blend(state.average, module, averaging(config, state.step))
            # Asking all processes waits for the device: only where a callback may stop the run.
            stop = len(callbacks) > 0 and group.agree(events.step())
            finished = last = stop or state.step == config.last_step
            log.add(loss, len(whole))
            metric = None
            due = validation is not None and (last or state.step % config.eval_every == 0)
            if validation is not None and due:
                if group.is_main:
                    metric = _validate(validation, state, model)
                    finished = events.validation(metric) or last or _stale(config, state)
                finished = group.agree(finished)
            logged = due or last or state.step % _LOG_EVERY == 0
            if logged:
                events.log(log.write(group, metric))
            # Processes must ask at the same steps; a single one may ask at every step.
            stopping = (logged or group.world == 1) and group.agree(interrupted.is_set())
            save = last or finished or stopping or state.step % config.checkpoint_every == 0
            if save and checkpoint is not None:
                log.keep(group)
                if group.is_main:
                    state.save(checkpoint, identity)
            if stopping and not (last or finished):
                raise TrainingInterruptedError(_resume_advice(state, config, checkpoint))
    _freeze(model, frozen=False)
    module.zero_grad(set_to_none=True)
    _load(module, state.best or state.average)
    group.share(module.state_dict().values())
    model.weights_changed()
    history = log.history()
    history.best_step = group.from_main(history.best_step)
    return history


def _optimizer(module: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    kind = torch.optim.Adam if config.optimizer == "adam" else torch.optim.AdamW
    decay = config.weight_decay
    return kind(module.parameters(), lr=config.lr, weight_decay=decay, fused=True)


@contextlib.contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """Turn the first Ctrl-C in the main thread into an event: the loop stops between two steps."""
    asked = threading.Event()

    def ask(number: int, frame: Any) -> None:
        if asked.is_set():
            signal.default_int_handler(number, frame)
        asked.set()

    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = signal.signal(signal.SIGINT, ask)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


def _spread(config: TrainingConfig, sampler: Sampler) -> TrainingConfig:
    """The settings with the steps that `passes` allows, and as many validations as before."""
    allowed = math.ceil(config.passes * sampler.n_examples / sampler.batch_size)
    allowed = max(allowed, _MIN_STEPS)
    if not config.passes or allowed >= config.steps:
        return config
    apart = -(-config.eval_every * allowed // config.steps)
    return config.replace(steps=allowed, eval_every=apart)


def _freeze(model: Trainable, frozen: bool) -> None:
    for table in model.tables:
        table.weight.requires_grad_(not frozen)


def _stale(config: TrainingConfig, state: TrainingState) -> bool:
    return 0 < config.patience <= int(state.progress["stale"])


class Validation:
    """Computes `config.metric` on `split.valid`; `split.test` is never read."""

    def __init__(self, model: Trainable, split: Split, seed: int) -> None:
        self._model, self._metric, self._split = model, model.config.metric, split
        _, self._depth = parse_metric(self._metric)
        present, users = np.unique(split.valid.user), model.config.eval_users
        if 0 < users < len(present):
            source = np.random.default_rng(derive_seed(seed, "validation users"))
            chosen = source.choice(present, users, replace=False)
            part = split.valid.select(np.isin(split.valid.user, chosen))
            self._split = Split(split.train, part, split.test, split.protocol)

    def __call__(self) -> float:
        with kept_torch_threads():
            table = evaluate(self._model, self._split, at=(self._depth,), part="valid")
        return table.mean()[self._metric]


def _validate(validation: Validation, state: TrainingState, model: Trainable) -> float:
    """The metric of the (averaged) weights, which are kept if they are the best so far."""
    trained = _copy(model.net) if state.average else {}
    _load(model.net, state.average)
    model.weights_changed()
    metric, best = validation(), state.progress["best_metric"]
    if best is None or metric > best:
        state.best = _copy(model.net)
        state.progress |= {"best_metric": metric, "best_step": state.step, "stale": 0}
    else:
        state.progress["stale"] += 1
    _load(model.net, trained)
    model.weights_changed()
    return metric


def _copy(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


def _load(module: nn.Module, tensors: dict[str, Tensor]) -> None:
    if tensors:
        module.load_state_dict(tensors)


@torch.no_grad()
def _blend(average: dict[str, Tensor], module: nn.Module, decay: float) -> None:
    """average <- decay * average + (1 - decay) * weights; counters are copied."""
    if not average:
        return
    state = module.state_dict()
    floats = [name for name in average if average[name].is_floating_point()]
    torch._foreach_lerp_([average[n] for n in floats], [state[n] for n in floats], 1 - decay)
    for name in average.keys() - set(floats):
        average[name].copy_(state[name])


def _fingerprint(module: nn.Module) -> str:
    """A hash of the initial weights: resuming from other initial embeddings is refused."""
    hasher = hashlib.sha256()
    for array in to_arrays(module.state_dict()).values():
        hasher.update(array.tobytes())
    return hasher.hexdigest()[:16]


def _resume_advice(state: TrainingState, config: TrainingConfig, checkpoint: Path | None) -> str:
    advice = "nothing was kept, give a checkpoint folder to be able to go on"
    if checkpoint is not None:
        advice = f"go on from the checkpoint in {checkpoint} with --resume (resume=True in Python)"
    return f"training stopped at step {state.step:,} of {config.last_step:,}; {advice}"
