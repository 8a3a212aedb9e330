"""`Trainable`: what the loop needs of a model; and loss and gradients of one batch.

On a GPU a CUDA graph records the short kernels of a step once and launches them together.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from leporid.data import Sequences
from leporid.errors import LeporidError
from leporid.training.config import TrainingConfig
from leporid.training.device import own_generators
from leporid.training.sampler import Batch, Sampling

Backward = Callable[[Batch, float], Tensor]
"""(batch, weight) -> weight * loss; its gradients are left in the parameters."""

_WARM_UPS = 3  # in which libraries choose their kernels and allocate their buffers


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


def backward_of(model: Trainable, world: int) -> Backward:
    """The fastest way this model, device and group of processes allow."""
    able = model.device.type == "cuda" and world == 1 and model.recordable
    return Recorded(model) if able and model.config.cuda_graph else Eager(model)


class Eager:
    def __init__(self, model: Trainable) -> None:
        self._model = model

    def __call__(self, batch: Batch, weight: float) -> Tensor:
        self._model.net.zero_grad(set_to_none=True)
        with self._model.autocast():
            loss = self._model.loss(batch) * weight
        # A model of tables alone has nothing to learn while they are frozen.
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()


class Recorded:
    """A CUDA graph of loss and gradients, recorded anew whenever other parameters are trained."""

    def __init__(self, model: Trainable) -> None:
        self._model, self._eager = model, Eager(model)
        self._trained: tuple[bool, ...] = ()
        self._recorded: tuple[torch.cuda.CUDAGraph, Batch, Tensor] | None = None

    def __call__(self, batch: Batch, weight: float) -> Tensor:
        device = self._model.device
        trained = tuple(p.requires_grad for p in self._model.net.parameters())
        with torch.cuda.device(device):
            if trained != self._trained:
                with own_generators(device):
                    self._record(batch, weight)
                self._trained = trained
            if self._recorded is None:
                return self._eager(batch, weight)
            graph, inputs, loss = self._recorded
            for ours, new in zip(inputs.tensors(), batch.tensors(), strict=True):
                ours.copy_(new)
            graph.replay()
            return loss.clone()

    def _record(self, batch: Batch, weight: float) -> None:
        """Trying the loss out changes neither running statistics nor random numbers."""
        net = self._model.net
        self._recorded = None
        if not any(p.requires_grad for p in net.parameters()):
            return
        inputs = batch.map(torch.clone)
        kept = {n: t.clone() for n, t in net.named_buffers() if t.layout == torch.strided}
        self._warm_up(inputs, weight)
        # Without gradients to add to, the recorded run writes them: no step has to clear them.
        net.zero_grad(set_to_none=True)
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                loss = self._eager(inputs, weight)
        except RuntimeError as error:
            raise LeporidError(
                f"a step of {self._model.name} could not be recorded as a CUDA graph "
                f"({str(error).splitlines()[0]}): train with cuda_graph=False"
            ) from error
        self._recorded = graph, inputs, loss
        for name, tensor in kept.items():
            net.get_buffer(name).copy_(tensor)

    def _warm_up(self, inputs: Batch, weight: float) -> None:
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(_WARM_UPS):
                self._eager(inputs, weight)
        torch.cuda.current_stream().wait_stream(side)
