"""The training loop: every neural model, one page.

A step is a pure function of (seed, step): batch, negatives, dropout and learning rate follow
from them. Stopping anywhere and going on therefore gives the weights of an unbroken run.
"""

from __future__ import annotations

import hashlib
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from leporid.data.split import Split
from leporid.errors import TrainingInterruptedError
from leporid.progress import ProgressLike
from leporid.threads import kept_torch_threads
from leporid.training.backward import backward_of
from leporid.training.checkpoint import FILE_NAME, TrainingState, to_arrays
from leporid.training.config import TrainingConfig
from leporid.training.data import TrainingData
from leporid.training.history import TrainingHistory
from leporid.training.interrupt import Interrupt
from leporid.training.parallel import Group
from leporid.training.sampler import Sampler
from leporid.training.schedule import learning_rate
from leporid.training.seeding import derive_seed, own_generators, seed_default
from leporid.training.validation import Validation

if TYPE_CHECKING:
    from leporid.models.shared.neural import NeuralRecommender

__all__ = ["train_loop"]

_LOG_EVERY = 50
"""Steps between two looks at the loss; each look waits for the device."""
_FEWEST_STEPS = 750
"""`passes` never asks for fewer: a network has to learn something from the smallest log too."""


def train_loop(
    model: NeuralRecommender,
    split: Split,
    *,
    seed: int,
    progress: ProgressLike,
    checkpoint: Path | None = None,
    resume: bool = False,
) -> TrainingHistory:
    """Train `model.module` in place and leave the best weights in it."""
    module, device = model.net, model.device
    group = Group(device)
    data = TrainingData.from_interactions(split.train, device)
    sampler = Sampler(data, model.sampling(), model.config.batch_size, seed)
    config = _spread(model.config, sampler)
    validation = Validation(model, split, seed) if config.eval_every and len(split.valid) else None
    optimizer = _optimizer(config, module)
    state = TrainingState(module, optimizer, average=_copy(module) if config.ema_decay else {})
    identity = {
        "model": model.name,
        "config": config.to_dict(),
        "seed": seed,
        "data": split.digest,
        "start": _fingerprint(module),
    }
    if resume and checkpoint is not None and (checkpoint / FILE_NAME).is_file():
        state.load(checkpoint, identity)
    group.share(module.state_dict().values())

    log = _Log(state, config, progress, f"training {model.name}")
    backward = backward_of(model, group.world)
    finished = _stale(config, state)
    module.train()
    with Interrupt() as interrupt, own_generators(device), kept_torch_threads():
        while state.step < config.steps and not finished:
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
            model.weights_changed()
            _blend(state.average, module, config.ema_decay)
            state.step = step + 1

            last = state.step == config.steps
            log.add(loss, len(whole))
            metric = None
            judge = validation is not None and (last or state.step % config.eval_every == 0)
            if judge and validation is not None:
                if group.is_main:
                    metric = _validate(validation, state, model)
                finished = group.agree(_stale(config, state))
            look = last or judge or state.step % _LOG_EVERY == 0
            if look:
                log.write(group, metric)
            # Processes must ask at the same steps; a single one may ask at every step.
            stopping = (look or group.world == 1) and group.agree(interrupt.asked)
            due = last or finished or stopping or state.step % config.checkpoint_every == 0
            if due and checkpoint is not None and group.is_main:
                state.save(checkpoint, identity)
            if stopping and not (last or finished):
                raise TrainingInterruptedError(_how_to_go_on(state, config, checkpoint))
    _freeze(model, frozen=False)
    module.zero_grad(set_to_none=True)
    _load(module, state.best or state.average)
    group.share(module.state_dict().values())
    model.weights_changed()
    return log.history()


def _spread(config: TrainingConfig, sampler: Sampler) -> TrainingConfig:
    """The settings with the steps that `passes` allows, and as many validations as before."""
    if not config.passes:
        return config
    allowed = math.ceil(config.passes * sampler.n_examples / sampler.batch_size)
    allowed = max(allowed, _FEWEST_STEPS)
    if allowed >= config.steps:
        return config
    apart = -(-config.eval_every * allowed // config.steps)
    return config.replace(steps=allowed, eval_every=apart)


def _optimizer(config: TrainingConfig, module: nn.Module) -> torch.optim.Optimizer:
    kind = torch.optim.Adam if config.optimizer == "adam" else torch.optim.AdamW
    return kind(module.parameters(), lr=config.lr, weight_decay=config.weight_decay, fused=True)


def _freeze(model: NeuralRecommender, frozen: bool) -> None:
    for table in model.tables:
        table.weight.requires_grad_(not frozen)


def _stale(config: TrainingConfig, state: TrainingState) -> bool:
    stale: int = state.progress.get("stale", 0)
    return 0 < config.patience <= stale


def _validate(validation: Validation, state: TrainingState, model: NeuralRecommender) -> float:
    """The metric of the (averaged) weights, which are kept if they are the best so far."""
    trained = _copy(model.net) if state.average else {}
    _load(model.net, state.average)
    model.weights_changed()
    metric, best = validation(), state.progress.get("best_metric")
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
    """A hash of the starting weights: resuming from other initial vectors is refused."""
    hasher = hashlib.sha256()
    for array in to_arrays(module.state_dict()).values():
        hasher.update(array.tobytes())
    return hasher.hexdigest()[:16]


def _how_to_go_on(state: TrainingState, config: TrainingConfig, checkpoint: Path | None) -> str:
    where = f"training stopped at step {state.step:,} of {config.steps:,}"
    if checkpoint is None:
        return f"{where}; nothing was kept, give a checkpoint folder to be able to go on"
    return (
        f"{where}; the checkpoint is in {checkpoint}: run the same command again with --resume "
        f"(resume=True in Python) to go on"
    )


class _Log:
    """Loss since the last row, speed, and what the progress bar shows."""

    def __init__(
        self, state: TrainingState, config: TrainingConfig, progress: ProgressLike, title: str
    ) -> None:
        self._state, self._config, self._progress = state, config, progress
        state.progress = {
            "rows": [],
            "best_metric": None,
            "best_step": 0,
            "stale": 0,
            **state.progress,
        }
        self._rows: list[dict[str, Any]] = state.progress["rows"]
        self._before = self._rows[-1]["seconds"] if self._rows else 0.0
        self._begin = self._mark = time.perf_counter()
        self._losses: list[Tensor] = []
        self._examples = 0
        progress.start(title, config.steps)
        progress.advance(state.step)

    def add(self, loss: Tensor, examples: int) -> None:
        """One step is done; nothing waits for the device here."""
        self._losses.append(loss)
        self._examples += examples

    def write(self, group: Group, metric: float | None) -> None:
        """One row of history, and the bar."""
        now = time.perf_counter()
        row: dict[str, Any] = {
            "step": self._state.step,
            "loss": group.sum(torch.stack(self._losses).mean()).item(),
            "lr": learning_rate(self._config, self._state.step - 1),
            "examples_per_second": self._examples / max(now - self._mark, 1e-9),
            "seconds": self._before + now - self._begin,
        }
        if metric is not None:
            row["metric"] = metric
        self._rows.append(row)
        shown = {"loss": row["loss"], "examples/s": round(row["examples_per_second"])}
        best = self._state.progress["best_metric"]
        if best is not None:
            shown[f"best {self._config.metric}"] = best
        self._progress.advance(len(self._losses), **shown)
        self._losses, self._examples, self._mark = [], 0, now

    def history(self) -> TrainingHistory:
        """All rows, those before a resume too."""
        done = self._state.progress
        step = done["best_step"] if done["best_metric"] is not None else self._state.step
        return TrainingHistory(self._rows, step, done["best_metric"])
