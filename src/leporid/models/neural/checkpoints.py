"""The state of a training, and checkpoints of it.

A checkpoint is everything a training needs to go on, in one file that is wholly there or not there.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NotRequired, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from leporid.errors import ConfigError, DataError
from leporid.foundation import (
    JsonValue,
    SettingValue,
    check_has_checksum,
    read_arrays,
    write_arrays,
)
from leporid.models.context import CHECKPOINT_FILE
from leporid.models.fitted_arrays import Arrays
from leporid.models.neural.weights import Weights, check_tensors, to_arrays

_HEADER = "leporid.4"


class HistoryRow(TypedDict):
    """What happened between two log points; see `TrainingHistory.rows`."""

    step: int
    loss: float
    lr: float
    examples_per_second: float
    seconds: float
    metric: NotRequired[float]


class PendingRow(TypedDict):
    """What the row to come has so far."""

    losses: list[float]
    examples: int
    seconds: float


@dataclass
class TrainingProgress:
    """The part of the state that is JSON: the history and the outcome of validations."""

    rows: list[HistoryRow] = field(default_factory=list)
    """Rows of the history."""
    best_metric: float | None = None
    """Metric of the best validation so far."""
    best_step: int = 0
    """Step of the best validation so far."""
    no_improvement: int = 0
    """Validations since the best one."""
    pending: PendingRow | None = None
    """Measurements since the last row of the history, in a checkpoint between two rows."""


@dataclass(frozen=True)
class TrainingIdentity:
    """Which training a checkpoint belongs to."""

    model: str
    """Name of the model."""
    config: dict[str, SettingValue]
    """Settings of the training."""
    seed: int
    """Seed of the training."""
    data: str
    """Hashes of the training and the validation part; the test part changes no training."""
    start: str
    """Hash of the initial weights: resuming from other initial embeddings is refused."""


@dataclass
class TrainingState:
    """All that changes from step to step."""

    module: nn.Module
    optimizer: torch.optim.Optimizer
    average: Weights = field(default_factory=dict)
    """Running average of the weights; empty if the settings ask for none."""
    best: Weights = field(default_factory=dict)
    """Weights of the best validation so far."""
    step: int = 0
    """Optimiser steps done."""
    progress: TrainingProgress = field(default_factory=TrainingProgress)
    """History rows, the best metric and its step."""

    def save(self, folder: Path, identity: TrainingIdentity) -> None:
        """Write the checkpoint; `identity` says which training it belongs to."""
        groups: dict[str, Weights] = {
            "module": self.module.state_dict(),
            "average": self.average,
            "best": self.best,
        }
        for index, moments in self.optimizer.state_dict()["state"].items():
            groups[f"optimizer/{index}"] = moments
        arrays: Arrays = {}
        for group, tensors in groups.items():
            for name, array in to_arrays(tensors).items():
                arrays[f"{group}/{name}"] = array
        header = {
            "step": self.step,
            "progress": asdict(self.progress),
            "identity": asdict(identity),
        }
        metadata = {_HEADER: json.dumps(header)}
        write_arrays(
            folder / CHECKPOINT_FILE,
            arrays,
            metadata,
            checksum=True,
        )

    def load(self, folder: Path, identity: TrainingIdentity) -> None:
        """Go on from the checkpoint of the same training, if there is one."""
        path = folder / CHECKPOINT_FILE
        if not path.is_file():
            return
        arrays, metadata = read_arrays(path)
        if _HEADER not in metadata:
            raise DataError(f"{path} is not a checkpoint: train without --resume")
        check_has_checksum(path, metadata)
        header = json.loads(metadata[_HEADER])
        _check_identity(path, header["identity"], asdict(identity))
        moments = self._stored_moments(_group(arrays, "optimizer"))
        self._load_module(_group(arrays, "module"), str(path))
        self.optimizer.load_state_dict(self.optimizer.state_dict() | {"state": moments})
        self.average = self._stored_weights(_group(arrays, "average"))
        self.best = self._stored_weights(_group(arrays, "best"))
        self.step = header["step"]
        progress = header["progress"]
        self.progress = TrainingProgress(
            rows=progress["rows"],
            best_metric=progress["best_metric"],
            best_step=progress["best_step"],
            no_improvement=progress["no_improvement"],
            pending=progress["pending"],
        )

    def _stored_moments(self, arrays: Arrays) -> dict[int, Weights]:
        """Return the state of the optimiser by the number of the parameter."""
        parameters = self.optimizer.param_groups[0]["params"]
        moments: dict[int, Weights] = {}
        for name, array in arrays.items():
            number, _, key = name.partition("/")
            index = int(number)
            parameter = parameters[index].detach()
            if array.shape == tuple(parameter.shape):
                moment = _laid_out(array, parameter)
            else:
                # The count of steps: files store a scalar as one entry.
                moment = torch.from_numpy(array)[0]
            moments.setdefault(index, {})[key] = moment
        return moments

    def _load_module(self, arrays: Arrays, where: str) -> None:
        checked = check_tensors(self.module, arrays, where)
        with torch.no_grad():
            for name, tensor in self.module.state_dict(keep_vars=True).items():
                tensor.copy_(torch.from_numpy(np.array(checked[name])))

    def _stored_weights(self, arrays: Arrays) -> Weights:
        current = self.module.state_dict()
        return {name: _laid_out(arrays[name], current[name]) for name in arrays}


def _group(arrays: Arrays, group: str) -> Arrays:
    """Return the arrays whose name begins with the group, under the rest of their name."""
    prefix = f"{group}/"
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


def _laid_out(array: NDArray[np.generic], like: Tensor) -> Tensor:
    """Return the array with the device and strides of `like`, which fused optimisers rely on."""
    return torch.empty_like(like).copy_(torch.from_numpy(array).reshape(like.shape))


def _check_identity(
    path: Path,
    stored: dict[str, JsonValue],
    current: dict[str, JsonValue],
) -> None:
    """Refuse the checkpoint of another training."""
    for key, value in current.items():
        other = stored.get(key)
        if other != value:
            raise ConfigError(
                f"{path} is from another run: its {key} is {_difference(other, value)}, "
                f"this run's is {_difference(value, other)}; "
                f"resume with those settings or in another folder"
            )


def _difference(value: JsonValue, other: JsonValue) -> str:
    """Write the value as JSON; only what differs if both are tables of settings."""
    if isinstance(value, dict) and isinstance(other, dict):
        value = {key: entry for key, entry in value.items() if other.get(key) != entry}
    return json.dumps(value)
