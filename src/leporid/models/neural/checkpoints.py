"""What a run keeps and whom it tells: its state and checkpoints, the history, callbacks.

A checkpoint is everything a run needs to go on, in one file that is wholly there or not there.
"""

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from leporid.artifacts import check_sealed, read_arrays, write_arrays
from leporid.errors import ConfigError, DataError
from leporid.models.context import CHECKPOINT_FILE, FitContext
from leporid.models.history import TrainingHistory
from leporid.models.neural.settings import TrainingConfig, learning_rate

_HEADER = "leporid.2"


def to_arrays(tensors: dict[str, Tensor]) -> dict[str, NDArray[Any]]:
    return {
        name: tensor.detach().cpu().numpy().copy() for name, tensor in tensors.items()
    }


def adopt_tensors(
    module: nn.Module, arrays: dict[str, NDArray[Any]], where: str
) -> None:
    """Put arrays into a module, without a copy where they lie in the same order in memory."""
    with torch.no_grad():
        for tensor, array in check_tensors(module, arrays, where):
            stored = torch.from_numpy(array)
            if tensor.stride() == stored.stride() and tensor.dtype == stored.dtype:
                tensor.data = stored
            else:
                tensor.copy_(stored)


def check_tensors(
    module: nn.Module, arrays: dict[str, NDArray[Any]], where: str
) -> list[tuple[Tensor, NDArray[Any]]]:
    """Every tensor of the module's state beside its array; arrays that do not fit are refused."""
    state = module.state_dict(keep_vars=True)
    if odd := sorted(set(state) ^ set(arrays)):
        raise DataError(
            f"{where} does not fit the model: unexpected or missing {', '.join(odd)}"
        )
    pairs = []
    for name, tensor in state.items():
        # Files store a scalar as one entry.
        scalar = tensor.ndim == 0 and arrays[name].size == 1
        array = arrays[name].reshape(()) if scalar else arrays[name]
        dtype = torch.empty(0, dtype=tensor.dtype).numpy().dtype
        if (array.shape, array.dtype) != (tuple(tensor.shape), dtype):
            needed = f"the model needs {dtype} of shape {list(tensor.shape)}"
            raise DataError(
                f"{where}: {name} is {array.dtype} of {list(array.shape)}, {needed}"
            )
        pairs.append((tensor, array))
    return pairs


@dataclass
class TrainingState:
    """All that changes from step to step."""

    module: nn.Module
    optimizer: torch.optim.Optimizer
    average: dict[str, Tensor] = field(default_factory=dict)
    """Running average of the weights; empty where it is not asked for."""
    best: dict[str, Tensor] = field(default_factory=dict)
    """Weights of the best validation so far."""
    step: int = 0
    """Optimiser steps done."""
    progress: dict[str, Any] = field(
        default_factory=lambda: {
            "rows": [],
            "best_metric": None,
            "best_step": 0,
            "stale": 0,
        }
    )
    """JSON-able: history rows, best metric and step, validations without a better one."""

    def save(self, folder: Path, identity: dict[str, Any]) -> None:
        """Write the checkpoint; `identity` says which run it belongs to."""
        groups = {
            "module": self.module.state_dict(),
            "average": self.average,
            "best": self.best,
        }
        for index, moments in self.optimizer.state_dict()["state"].items():
            groups[f"optimizer/{index}"] = moments
        arrays = {
            f"{group}/{name}": array
            for group, tensors in groups.items()
            for name, array in to_arrays(tensors).items()
        }
        header = {"step": self.step, "progress": self.progress, "identity": identity}
        write_arrays(
            folder / CHECKPOINT_FILE, arrays, {_HEADER: json.dumps(header)}, sealed=True
        )

    def load(self, folder: Path, identity: dict[str, Any]) -> None:
        """Go on from the checkpoint of the same run, where there is one."""
        if not (path := folder / CHECKPOINT_FILE).is_file():
            return
        arrays, metadata = read_arrays(path)
        if _HEADER not in metadata:
            raise DataError(f"{path} is not a checkpoint: train without --resume")
        check_sealed(path, metadata)
        header = json.loads(metadata[_HEADER])
        for key, value in identity.items():
            stored = header["identity"].get(key)
            if stored != value:
                raise ConfigError(
                    f"{path} is from another run: its {key} is {_short(stored, value)}, this run's "
                    f"is {_short(value, stored)}; resume with those settings or in another folder"
                )
        moments: dict[int, dict[str, Tensor]] = {}
        parameters = self.optimizer.param_groups[0]["params"]
        for name, array in _group(arrays, "optimizer").items():
            index, _, key = name.partition("/")
            own = parameters[int(index)].detach()
            moments.setdefault(int(index), {})[key] = (
                _laid_out(array, own)
                if array.shape == tuple(own.shape)
                else torch.from_numpy(array)[
                    0
                ]  # the step: files store a scalar as one entry
            )
        with torch.no_grad():
            weights = _group(arrays, "module")
            for own, array in check_tensors(self.module, weights, str(path)):
                own.copy_(torch.from_numpy(np.array(array)))
        self.optimizer.load_state_dict(
            {**self.optimizer.state_dict(), "state": moments}
        )
        like = self.module.state_dict()
        self.average, self.best = (
            {
                name: _laid_out(array, like[name])
                for name, array in _group(arrays, group).items()
            }
            for group in ("average", "best")
        )
        self.step, self.progress = header["step"], header["progress"]


def _group(arrays: dict[str, NDArray[Any]], group: str) -> dict[str, NDArray[Any]]:
    prefix = f"{group}/"
    own = {name: array for name, array in arrays.items() if name.startswith(prefix)}
    return {name.removeprefix(prefix): array for name, array in own.items()}


def _laid_out(array: NDArray[Any], like: Tensor) -> Tensor:
    """The array with the device and strides of `like`, which fused optimisers rely on."""
    return torch.empty_like(like).copy_(torch.from_numpy(array).reshape(like.shape))


def _short(value: Any, other: Any) -> str:
    """The value; of two settings tables only what differs."""
    if isinstance(value, dict) and isinstance(other, dict):
        value = {k: v for k, v in value.items() if other.get(k) != v}
    return json.dumps(value)


class Log:
    """Rows of the history, and what the progress bar shows and callbacks are told."""

    def __init__(
        self,
        state: TrainingState,
        config: TrainingConfig,
        context: FitContext,
        device: torch.device,
        identity: dict[str, Any],
    ) -> None:
        self._state, self._config = state, config
        self._progress, self._callbacks = context.progress, context.callbacks
        self._identity = identity
        self._rows: list[dict[str, Any]] = state.progress["rows"]
        row = self._rows[-1]["seconds"] if self._rows else 0.0
        # What a checkpoint between two rows has kept of the row to come.
        kept = state.progress.get(
            "pending", {"losses": [], "examples": 0, "seconds": row}
        )
        self._before = kept["seconds"]
        self._begin = time.perf_counter()
        self._mark = self._begin - (self._before - row)
        self._losses = [*torch.tensor(kept["losses"], device=device)]
        self._examples, self._shown = kept["examples"], state.step
        self._progress.start(f"training {identity['model']}", config.last_step)
        self._progress.advance(state.step)

    def __enter__(self) -> Self:
        about = {
            **self._identity,
            "steps": self._config.last_step,
            "step": self._state.step,
        }
        for callback in self._callbacks:
            callback.start(about)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: Any, trace: Any
    ) -> None:
        message = None if kind is None else str(error) or kind.__name__
        for callback in self._callbacks:
            callback.end({"steps": self._state.step, **self._best(), "error": message})

    def step(self, loss: Tensor, examples: int) -> bool:
        """One step is done, without waiting for the device; whether a callback ends the run."""
        self._losses.append(loss)
        self._examples += examples
        answers = [callback.step(self._state.step) for callback in self._callbacks]
        return any(answers)

    def validation(self, metric: float) -> bool:
        """Whether a callback ends the run."""
        row = {"step": self._state.step, "metric": metric, **self._best()}
        answers = [callback.validation(row) for callback in self._callbacks]
        return any(answers)

    def keep(self) -> None:
        """Note in the state what the next row has so far."""
        self._state.progress["pending"] = {
            "losses": torch.stack(self._losses).tolist() if self._losses else [],
            "examples": self._examples,
            "seconds": self._before + time.perf_counter() - self._begin,
        }

    def write(self, metric: float | None) -> None:
        """A row of what happened since the last."""
        now = time.perf_counter()
        row: dict[str, Any] = {
            "step": self._state.step,
            "loss": torch.stack(self._losses).mean().item(),
            "lr": learning_rate(self._config, self._state.step - 1),
            "examples_per_second": self._examples / max(now - self._mark, 1e-9),
            "seconds": self._before + now - self._begin,
        }
        shown = {"loss": row["loss"], "examples/s": round(row["examples_per_second"])}
        config, so_far = self._config, self._state.progress
        if (best := so_far["best_metric"]) is not None:
            shown[f"best {config.metric}"] = best
        is_first = row["step"] < config.eval_every
        if config.patience and (is_first or best is not None):
            more = (
                config.patience - so_far["stale"] + is_first
            )  # the first is never stale
            soonest = (row["step"] // config.eval_every + more) * config.eval_every
            shown["can_end_at"] = min(soonest, config.last_step)
        self._progress.advance(self._state.step - self._shown, **shown)
        self._losses, self._examples, self._mark = [], 0, now
        self._shown = self._state.step
        self._rows.append(row if metric is None else {**row, "metric": metric})
        for callback in self._callbacks:
            callback.log(dict(self._rows[-1]))

    def history(self) -> TrainingHistory:
        best = self._best()
        if best["best_metric"] is None:
            best["best_step"] = self._state.step
        return TrainingHistory(self._rows, **best, steps=self._config.steps)

    def _best(self) -> dict[str, Any]:
        return {key: self._state.progress[key] for key in ("best_step", "best_metric")}
