"""`Backward`: the gradients of a step, on a GPU as a recorded CUDA graph.

A step launches many short kernels. A CUDA graph records them once and then launches them together;
it is recorded anew whenever other parameters are trained.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from leporid.errors import LeporidError
from leporid.models.neural.sampler import Batch
from leporid.models.neural.settings import own_generators
from leporid.models.neural.trainable import Trainable

_WARM_UPS = 3
"""Steps before a CUDA graph is recorded: libraries choose kernels and allocate buffers."""


class RecordedStep(NamedTuple):
    """A loss and its gradients as a CUDA graph."""

    graph: torch.cuda.CUDAGraph
    inputs: Batch
    """The batch whose memory the graph reads."""
    loss: Tensor
    """Where the graph writes the loss."""

    def replay(self, batch: Batch) -> Tensor:
        """Compute the gradients of another batch, and return its loss."""
        for recorded, new in zip(self.inputs.tensors(), batch.tensors(), strict=True):
            recorded.copy_(new)
        self.graph.replay()
        return self.loss.clone()


class Backward:
    """Computes the loss of a batch and leaves its gradients in the parameters."""

    def __init__(self, model: Trainable) -> None:
        on_gpu = model.device.type == "cuda"
        self.records = on_gpu and model.supports_cuda_graph and model.config.cuda_graph
        self._model = model
        self._trained: tuple[bool, ...] = ()
        self._recorded: RecordedStep | None = None

    def __call__(self, batch: Batch) -> Tensor:
        if not self.records:
            return self.eager(batch)
        parameters = self._model.net.parameters()
        trained = tuple(parameter.requires_grad for parameter in parameters)
        with torch.cuda.device(self._model.device):
            if trained != self._trained:
                self._trained = trained
                self._recorded = self._record(batch) if any(trained) else None
            if self._recorded is None:
                return self.eager(batch)
            return self._recorded.replay(batch)

    def eager(self, batch: Batch) -> Tensor:
        """Compute loss and gradients one operation after the other."""
        self._model.net.zero_grad(set_to_none=True)
        with self._model.autocast():
            loss = self._model.loss(batch)
        # A model of tables alone has nothing to learn while they are frozen.
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def _record(self, batch: Batch) -> RecordedStep:
        """Record a step without changing running statistics or random numbers."""
        network = self._model.net
        inputs = batch.map(torch.clone)
        statistics = {
            name: tensor.clone()
            for name, tensor in network.named_buffers()
            if tensor.layout == torch.strided
        }
        with own_generators(self._model.device):
            self._warm_up(inputs)
            # Without gradients to add to, the graph writes them: no step has to clear them.
            network.zero_grad(set_to_none=True)
            try:
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    loss = self.eager(inputs)
            except RuntimeError as error:
                raise LeporidError(
                    f"a step of {self._model.name} could not be recorded as a CUDA graph "
                    f"({str(error).splitlines()[0]}): train with cuda_graph=False"
                ) from error
        for name, tensor in statistics.items():
            network.get_buffer(name).copy_(tensor)
        return RecordedStep(graph, inputs, loss)

    def _warm_up(self, inputs: Batch) -> None:
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UPS):
                self.eager(inputs)
        torch.cuda.current_stream().wait_stream(stream)
