"""The training loop of all neural models, on one page, and what it needs of a model.

A step is a pure function of (seed, step): a resumed run gives the weights of an unbroken one.
"""

import contextlib
import hashlib
import math
import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from leporid.data import Sequences, Split
from leporid.errors import LeporidError, TrainingInterruptedError
from leporid.evaluation import evaluate, parse_metric
from leporid.machine import kept_torch_threads
from leporid.models.context import FitContext
from leporid.models.history import TrainingHistory
from leporid.models.neural.checkpoints import Log, TrainingState, to_arrays
from leporid.models.neural.sampler import Batch, Sampler, Sampling, TrainingData
from leporid.models.neural.settings import (
    TrainingConfig,
    averaging,
    derive_seed,
    learning_rate,
    own_generators,
    seed_default,
)

_LOG_EVERY = 50
"""Steps between two rows of the history; each row waits for the device."""
_MIN_STEPS = 750
"""`passes` never allows fewer steps, however small the log."""
_WARM_UPS = 3
"""Steps before a CUDA graph is recorded: libraries choose kernels and allocate buffers."""


class Trainable(Protocol):
    """A network with a loss and scores, as in `NeuralRecommender`."""

    name: ClassVar[str]
    recordable: ClassVar[bool]
    """Whether `loss` never waits for the device, and no shape inside it depends on values."""
    config: TrainingConfig
    tables: list[nn.Embedding]
    """The tables that hold initial embeddings (what `freeze_steps` freezes)."""

    @property
    def net(self) -> nn.Module: ...
    @property
    def device(self) -> torch.device: ...
    def sampling(self) -> Sampling: ...

    def loss(self, batch: Batch) -> Tensor: ...
    def autocast(self) -> AbstractContextManager[Any]: ...
    def hold_rows(self) -> None: ...
    def weights_changed(self) -> None: ...
    def score_tensor(
        self, users: NDArray[np.int32], history: Sequences | None = None
    ) -> Tensor: ...


def train_loop(
    model: Trainable, split: Split, seed: int, context: FitContext
) -> TrainingHistory:
    """Train `model.net` in place and leave the best weights in it."""
    module, device = model.net, model.device
    data = TrainingData.from_interactions(split.train, device)
    sampler = Sampler(data, model.sampling(), model.config.batch_size, seed)
    config = _spread(model.config, sampler)
    validation = _validation_part(split, config, seed)
    kind = torch.optim.Adam if config.optimizer == "adam" else torch.optim.AdamW
    decay = config.weight_decay
    optimizer = kind(module.parameters(), lr=config.lr, weight_decay=decay, fused=True)
    average = _copy(module) if config.ema_decay or config.ema_share else {}
    state = TrainingState(
        module, optimizer, average=average, step=context.first_step or 0
    )
    identity = {"model": model.name, "config": config.to_dict(), "seed": seed}
    identity |= {"data": split.digest, "start": _fingerprint(module)}
    folder = context.checkpoint
    if context.resume and folder is not None:
        state.load(folder, identity)
    log = Log(state, config, context, device, identity)
    backward = Backward(model)
    finished = _stale(config, state)
    module.train()
    with (
        _interruptible() as interrupted,
        own_generators(device),
        kept_torch_threads(),
        log,
    ):
        while state.step < config.last_step and not finished:
            step = state.step
            _freeze(model, frozen=config.freeze_steps < 0 or step < config.freeze_steps)
            optimizer.param_groups[0]["lr"] = learning_rate(config, step)
            batch = sampler.batch(step)
            # Without the last 0, the recorded runs would have other bits.
            seed_default(device, derive_seed(seed, "layers", step, 0))
            loss = backward(batch)
            if config.clip_norm:
                nn.utils.clip_grad_norm_(module.parameters(), config.clip_norm)
            optimizer.step()
            model.hold_rows()
            model.weights_changed()
            state.step = step + 1
            _blend(state.average, module, averaging(config, state.step))
            stop = log.step(loss, len(batch))
            finished = last = stop or state.step == config.last_step
            metric = None
            if validation is not None and (last or state.step % config.eval_every == 0):
                metric = _validate(model, validation, state)
                finished = log.validation(metric) or last or _stale(config, state)
            if metric is not None or last or state.step % _LOG_EVERY == 0:
                log.write(metric)
            stopping = interrupted.is_set()
            save = (
                last
                or finished
                or stopping
                or state.step % config.checkpoint_every == 0
            )
            if save and folder is not None:
                log.keep()
                state.save(folder, identity)
            if stopping and not (last or finished):
                raise TrainingInterruptedError(_resume_advice(state, config, folder))
    _freeze(model, frozen=False)
    module.zero_grad(set_to_none=True)
    _load(model, state.best or state.average)
    return log.history()


class Backward:
    """The loss of a batch; its gradients are left in the parameters.

    A GPU records the short kernels of a step as a CUDA graph, which launches them
    together, anew whenever other parameters are trained.
    """

    def __init__(self, model: Trainable) -> None:
        able = model.device.type == "cuda" and model.recordable
        self.records = able and model.config.cuda_graph
        self._model = model
        self._trained: tuple[bool, ...] = ()
        self._recorded: tuple[torch.cuda.CUDAGraph, Batch, Tensor] | None = None

    def __call__(self, batch: Batch) -> Tensor:
        if not self.records:
            return self.eager(batch)
        device = self._model.device
        trained = tuple(p.requires_grad for p in self._model.net.parameters())
        with torch.cuda.device(device):
            if trained != self._trained:
                self._trained, self._recorded = trained, None
                if any(trained):
                    with own_generators(device):
                        self._recorded = self._record(batch)
            if self._recorded is None:
                return self.eager(batch)
            graph, inputs, loss = self._recorded
            for ours, new in zip(inputs.tensors(), batch.tensors(), strict=True):
                ours.copy_(new)
            graph.replay()
            return loss.clone()

    def eager(self, batch: Batch) -> Tensor:
        self._model.net.zero_grad(set_to_none=True)
        with self._model.autocast():
            loss = self._model.loss(batch)
        # A model of tables alone has nothing to learn while they are frozen.
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def _record(self, batch: Batch) -> tuple[torch.cuda.CUDAGraph, Batch, Tensor]:
        """Trying the loss out changes neither running statistics nor random numbers."""
        net, inputs = self._model.net, batch.map(torch.clone)
        kept = {
            n: t.clone() for n, t in net.named_buffers() if t.layout == torch.strided
        }
        self._warm_up(inputs)
        # Without gradients to add to, the recorded run writes them: no step has to clear them.
        net.zero_grad(set_to_none=True)
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                loss = self.eager(inputs)
        except RuntimeError as error:
            raise LeporidError(
                f"a step of {self._model.name} could not be recorded as a CUDA graph "
                f"({str(error).splitlines()[0]}): train with cuda_graph=False"
            ) from error
        for name, tensor in kept.items():
            net.get_buffer(name).copy_(tensor)
        return graph, inputs, loss

    def _warm_up(self, inputs: Batch) -> None:
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(_WARM_UPS):
                self.eager(inputs)
        torch.cuda.current_stream().wait_stream(side)


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
    eval_every = -(-config.eval_every * allowed // config.steps)
    return config.replace(steps=allowed, eval_every=eval_every)


def _freeze(model: Trainable, frozen: bool) -> None:
    for table in model.tables:
        table.requires_grad_(not frozen)


def _stale(config: TrainingConfig, state: TrainingState) -> bool:
    return 0 < config.patience <= int(state.progress["stale"])


def _validation_part(split: Split, config: TrainingConfig, seed: int) -> Split | None:
    """The split with the users that validate; None where nobody does."""
    if not config.eval_every or not len(split.valid.goals):
        return None
    parse_metric(config.metric)  # refuses an unknown one before the first step
    present = np.unique(split.valid.goals.user)
    if not 0 < config.eval_users < len(present):
        return split
    source = np.random.default_rng(derive_seed(seed, "validation users"))
    chosen = source.choice(present, config.eval_users, replace=False)
    part = split.valid.select(np.isin(split.valid.user, chosen))
    return replace(split, valid=part)


def _measure(model: Trainable, split: Split) -> float:
    """`config.metric` on `split.valid`; `split.test` is never read."""
    metric = model.config.metric
    with kept_torch_threads():
        table = evaluate(model, split, at=(parse_metric(metric)[1],), part="valid")
    return table.mean()[metric]


def _validate(model: Trainable, split: Split, state: TrainingState) -> float:
    """The metric of the (averaged) weights, which are kept if they are the best so far."""
    trained = _copy(model.net) if state.average else {}
    _load(model, state.average)
    metric, best = _measure(model, split), state.progress["best_metric"]
    if best is None or metric > best:
        state.best = _copy(model.net)
        state.progress |= {"best_metric": metric, "best_step": state.step, "stale": 0}
    else:
        state.progress["stale"] += 1
    _load(model, trained)
    return metric


def _copy(module: nn.Module) -> dict[str, Tensor]:
    return {
        name: tensor.detach().clone() for name, tensor in module.state_dict().items()
    }


def _load(model: Trainable, tensors: dict[str, Tensor]) -> None:
    if tensors:
        model.net.load_state_dict(tensors)
    model.weights_changed()


@torch.no_grad()
def _blend(average: dict[str, Tensor], module: nn.Module, decay: float) -> None:
    """average <- decay * average + (1 - decay) * weights; counters are copied."""
    if not average:
        return
    state = module.state_dict()
    floats = [name for name in average if average[name].is_floating_point()]
    torch._foreach_lerp_(
        [average[n] for n in floats], [state[n] for n in floats], 1 - decay
    )
    for name in average.keys() - set(floats):
        average[name].copy_(state[name])


def _fingerprint(module: nn.Module) -> str:
    """A hash of the initial weights: resuming from other initial embeddings is refused."""
    hasher = hashlib.sha256()
    for array in to_arrays(module.state_dict()).values():
        hasher.update(array.tobytes())
    return hasher.hexdigest()[:16]


def _resume_advice(
    state: TrainingState, config: TrainingConfig, checkpoint: Path | None
) -> str:
    advice = "nothing was kept, give a checkpoint folder to be able to go on"
    if checkpoint is not None:
        advice = f"go on from the checkpoint in {checkpoint} with --resume (resume=True in Python)"
    return f"training stopped at step {state.step:,} of {config.last_step:,}; {advice}"
