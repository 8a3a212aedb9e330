"""`Trainable`: what the training loop needs of a model."""

from contextlib import AbstractContextManager
from typing import ClassVar, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from leporid.data import Sequences
from leporid.models.neural.sampler import Batch, Sampling
from leporid.models.neural.settings import TrainingConfig
from leporid.models.neural.weights import Weights


class Trainable(Protocol):
    """A network with a loss and scores, as in `NeuralRecommender`."""

    name: ClassVar[str]
    supports_cuda_graph: ClassVar[bool]
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

    def autocast(self) -> AbstractContextManager[object]: ...

    def freeze_untrained_rows(self) -> None:
        """Undo what an optimiser step did to rows that must not move."""

    def weights_changed(self) -> None:
        """Forget what was computed from the weights."""

    def score_tensor(
        self,
        users: NDArray[np.int32],
        history: Sequences | None = None,
    ) -> Tensor: ...


def load_weights(model: Trainable, weights: Weights) -> None:
    """Put weights into the network of a model; empty ones leave it as it is."""
    if weights:
        model.net.load_state_dict(weights)
    model.weights_changed()
