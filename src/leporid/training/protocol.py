"""`Trainable`: what the loop, validation and the backward pass need of a model."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from leporid.data import Sequences
from leporid.training.config import TrainingConfig
from leporid.training.sampler import Batch, Sampling


class Trainable(Protocol):
    """A network with a loss and scores; every neural model of the catalogue is one."""

    name: ClassVar[str]
    recordable: ClassVar[bool]
    """Whether `loss` may be recorded as a CUDA graph: it must not wait for the device, and no
    shape inside it may depend on values."""
    config: TrainingConfig
    tables: list[nn.Embedding]
    """The tables that hold initial vectors (what `freeze_steps` freezes)."""

    @property
    def net(self) -> nn.Module: ...
    @property
    def device(self) -> torch.device: ...
    def sampling(self) -> Sampling: ...

    def loss(self, batch: Batch) -> Tensor:
        """Scalar: the mean over the rows of the batch."""

    def autocast(self) -> AbstractContextManager[Any]:
        """Mixed precision as the settings and the device have it."""

    def keep_near_start(self) -> None:
        """After a step: undo what moved initial vectors farther than the settings allow."""

    def weights_changed(self) -> None:
        """Forget what was derived from the weights."""

    def score_tensor(self, users: NDArray[np.int32], history: Sequences | None = None) -> Tensor:
        """float32[len(users), n_items], higher is better (what validation ranks)."""
