"""`FitContext`: how a fit runs, as opposed to what is fitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from leporid.data import Interactions, ItemTable
from leporid.embeddings import InitialEmbeddings
from leporid.foundation import Progress, ProgressLike, make_progress
from leporid.models.callbacks import Callback
from leporid.models.fitting import Fitting

if TYPE_CHECKING:
    import torch

CHECKPOINT_FILE = "checkpoint.safetensors"
"""Name of the file that holds the state of a training."""


class FittedNetwork(Protocol):
    """A fitted network, as far as a training that goes on from its weights looks at it."""

    @property
    def train(self) -> Interactions: ...

    fitting: Fitting


@dataclass(frozen=True)
class BestBaseline:
    """The simple model that is best on validation: what a training has to beat."""

    name: str
    """The name as it is written in the literature, such as ItemKNN."""
    metric: str
    value: float
    """The metric on validation."""

    def standing(self, value: float) -> str:
        """Return where a model of that value stands: "better than EASE (0.0893)"."""
        words = "equal to"
        if value != self.value:
            words = "better than" if value > self.value else "worse than"
        return f"{words} {self.name} ({self.value:.4f})"


@dataclass(frozen=True)
class FitContext:
    """Where a fit runs, who is told about it, and what it starts from.

    None of this belongs to the settings of a model. A closed-form model uses `progress` and
    `tables` alone.
    """

    init: InitialEmbeddings | None = None
    """Initial embeddings of users and items; None draws small random numbers."""
    device: str | torch.device = "auto"
    """Device of a neural model: "auto" (the first GPU if there is one), "cpu", "cuda", "cuda:1"."""
    progress: ProgressLike = field(default_factory=ProgressLike)
    """Receives the stages and steps of the fit."""
    checkpoint: Path | None = None
    """Folder for checkpoints; without one, an interrupted training is lost."""
    resume: bool = False
    """Whether to go on from the checkpoint in that folder, if there is one."""
    baseline: BestBaseline | None = None
    """What progress compares the validations of a training with."""
    callbacks: tuple[Callback, ...] = ()
    """Objects that are told about steps and validations and may end the training."""
    keep_interrupted: bool = False
    """Whether a training that Ctrl-C or SIGTERM interrupts ends with its best weights so far, and
    its history says so; otherwise it raises `TrainingInterruptedError` at once."""
    tables: Mapping[str, ItemTable] = field(default_factory=dict)
    """Feature tables in memory by side ("items", "users"); they replace the files that the settings
    name."""
    warm_start: FittedNetwork | None = None
    """A fitted network whose weights the training starts from; rows of new users and items are
    computed as `extend` does."""
    first_step: int | None = None
    """Position in the learning-rate schedule at which a warm start begins; None is 0 in `fit` and
    the middle in `refit`."""

    @property
    def has_checkpoint(self) -> bool:
        """Whether the checkpoint folder holds the state of a training."""
        if self.checkpoint is None:
            return False
        return (self.checkpoint / CHECKPOINT_FILE).is_file()

    @classmethod
    def of(
        cls,
        context: FitContext | None,
        *,
        init: InitialEmbeddings | None = None,
        device: str | torch.device | None = None,
        progress: Progress = None,
    ) -> FitContext:
        """Return `context` (or the default one), with the other arguments in place where given."""
        context = context or cls()
        if init is not None:
            context = replace(context, init=init)
        if device is not None:
            context = replace(context, device=device)
        if progress is not None:
            context = replace(context, progress=make_progress(progress))
        return context
