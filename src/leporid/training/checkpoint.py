"""Checkpoints: everything a run needs to go on, in one file that is wholly there or not there."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from leporid.artifacts import check_sealed, read_arrays, write_arrays
from leporid.config import Config
from leporid.errors import ConfigError, DataError

FILE_NAME = "checkpoint.safetensors"
_HEADER = "leporid.2"


def to_arrays(tensors: dict[str, Tensor]) -> dict[str, NDArray[Any]]:
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in tensors.items()}


def adopt_tensors(module: nn.Module, arrays: dict[str, NDArray[Any]], where: str) -> None:
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
        raise DataError(f"{where} does not fit the model: unexpected or missing {', '.join(odd)}")
    pairs = []
    for name, tensor in state.items():
        # Files store a scalar as one entry.
        scalar = tensor.ndim == 0 and arrays[name].size == 1
        array = arrays[name].reshape(()) if scalar else arrays[name]
        dtype = torch.empty(0, dtype=tensor.dtype).numpy().dtype
        if (array.shape, array.dtype) != (tuple(tensor.shape), dtype):
            needed = f"the model needs {dtype} of shape {list(tensor.shape)}"
            raise DataError(f"{where}: {name} is {array.dtype} of {list(array.shape)}, {needed}")
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
        default_factory=lambda: {"rows": [], "best_metric": None, "best_step": 0, "stale": 0}
    )
    """JSON-able: history rows, best metric and step, validations without a better one."""

    def save(self, folder: Path, identity: dict[str, Any]) -> None:
        """Write the checkpoint; `identity` says which run it belongs to."""
        groups = {"module": self.module.state_dict(), "average": self.average, "best": self.best}
        for index, moments in self.optimizer.state_dict()["state"].items():
            groups[f"optimizer/{index}"] = moments
        arrays = {
            f"{group}/{name}": array
            for group, tensors in groups.items()
            for name, array in to_arrays(tensors).items()
        }
        header = {"step": self.step, "progress": self.progress, "identity": identity}
        write_arrays(folder / FILE_NAME, arrays, {_HEADER: json.dumps(header)}, sealed=True)

    def load(self, folder: Path, identity: dict[str, Any], config: Config) -> None:
        path = folder / FILE_NAME
        arrays, metadata = read_arrays(path)
        if _HEADER not in metadata:
            raise DataError(f"{path} is not a checkpoint: train without --resume")
        check_sealed(path, metadata)
        header = json.loads(metadata[_HEADER])
        for key, value in identity.items():
            stored = header["identity"].get(key)
            if key == "config":  # as this version would write it
                stored = config.from_saved(stored).to_dict()
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
                else torch.from_numpy(array)[0]  # the step: files store a scalar as one entry
            )
        with torch.no_grad():
            weights = _group(arrays, "module")
            for own, array in check_tensors(self.module, weights, str(path)):
                own.copy_(torch.from_numpy(np.array(array)))
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": moments})
        like = self.module.state_dict()
        self.average, self.best = (
            {name: _laid_out(array, like[name]) for name, array in _group(arrays, group).items()}
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
