"""The weights of a network: as arrays, copied, averaged, and as a fingerprint."""

import hashlib
from typing import TypeAlias

import torch
from torch import Tensor, nn

from leporid.errors import DataError
from leporid.models.fitted_arrays import Arrays

Weights: TypeAlias = dict[str, Tensor]
"""Tensors by their name in the `state_dict` of a network."""


def to_arrays(tensors: Weights) -> Arrays:
    """Copy tensors to arrays in main memory."""
    arrays: Arrays = {}
    for name, tensor in tensors.items():
        arrays[name] = tensor.detach().cpu().numpy().copy()
    return arrays


def adopt_tensors(
    module: nn.Module,
    arrays: Arrays,
    where: str,
) -> None:
    """Put arrays into a module, without a copy where they lie in the same order in memory."""
    checked = check_tensors(module, arrays, where)
    with torch.no_grad():
        for name, tensor in module.state_dict(keep_vars=True).items():
            stored = torch.from_numpy(checked[name])
            if tensor.stride() == stored.stride() and tensor.dtype == stored.dtype:
                tensor.data = stored
            else:
                tensor.copy_(stored)


def check_tensors(
    module: nn.Module,
    arrays: Arrays,
    where: str,
) -> Arrays:
    """Return the arrays in the shapes of the module's tensors; refuse arrays that do not fit."""
    state = module.state_dict(keep_vars=True)
    odd = sorted(set(state) ^ set(arrays))
    if odd:
        raise DataError(
            f"{where} does not fit the model: unexpected or missing {', '.join(odd)}"
        )
    checked: Arrays = {}
    for name, tensor in state.items():
        array = arrays[name]
        if tensor.ndim == 0 and array.size == 1:
            # Files store a scalar as one entry.
            array = array.reshape(())
        dtype = torch.empty(0, dtype=tensor.dtype).numpy().dtype
        if array.shape != tuple(tensor.shape) or array.dtype != dtype:
            raise DataError(
                f"{where}: {name} is {array.dtype} of {list(array.shape)}, "
                f"the model needs {dtype} of shape {list(tensor.shape)}"
            )
        checked[name] = array
    return checked


def copy_weights(module: nn.Module) -> Weights:
    """Copy all tensors of a module."""
    weights = module.state_dict()
    return {name: tensor.detach().clone() for name, tensor in weights.items()}


@torch.no_grad()
def update_ema(
    average: Weights,
    module: nn.Module,
    decay: float,
) -> None:
    """Update the running average: average <- decay * average + (1 - decay) * weights.

    Counters are copied. An empty average stays empty.
    """
    if not average:
        return
    current = module.state_dict()
    floats = [name for name in average if average[name].is_floating_point()]
    torch._foreach_lerp_(
        [average[name] for name in floats],
        [current[name] for name in floats],
        1 - decay,
    )
    for name in average.keys() - set(floats):
        average[name].copy_(current[name])


def fingerprint(module: nn.Module) -> str:
    """Return a hash of the weights."""
    hasher = hashlib.sha256()
    for array in to_arrays(module.state_dict()).values():
        hasher.update(array.tobytes())
    return hasher.hexdigest()[:16]
