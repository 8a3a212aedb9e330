"""`NeuralRecommender`: what a neural model says of itself; everything else is done here once.

A model says four things: its network (`build`), what a batch holds (`sampling`), its loss on a
batch (`loss`) and its scores (`scores`). Training is `leporid.training.loop`.
"""

from __future__ import annotations

import abc
import contextlib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from leporid.data import Interactions, Sequences, Split
from leporid.errors import ConfigError, LeporidError, LeporidWarning
from leporid.initializers import InitialEmbeddings
from leporid.models.shared.base import HistoryUnsupportedError, Indices, Recommender, Scores
from leporid.models.shared.refitting import Fitting, origin
from leporid.models.shared.start_size import sized
from leporid.progress import ProgressLike, make_progress
from leporid.spectral import Embedding
from leporid.training import (
    Batch,
    Callback,
    Sampling,
    TrainingConfig,
    TrainingHistory,
    adopt_tensors,
    derive_seed,
    mixed_precision,
    own_generators,
    recent_items,
    resolve_device,
    seed_default,
    to_arrays,
    train_loop,
)

_RANDOM_SCALE = 0.01
"""Without initial vectors the tables are drawn from N(0, 0.01^2), as in the paper."""

GENERAL: dict[str, Any] = {
    "schedule": "inverse-root", "ema_share": 0.1, "steps": 10_000, "passes": 0.0,
    "eval_every": 125, "patience": 4,
}  # fmt: skip
"""The recipe `general`: patience on validation ends a run, on any log."""


@dataclass
class BuildContext:
    """What a network is built from."""

    train: Interactions
    """The training part: graph models derive their adjacency from it."""
    dim: int
    """D."""
    init: InitialEmbeddings | None = None
    """The starting vectors as they go into the tables (standardised and scaled already)."""
    tables: list[tuple[nn.Embedding, Tensor]] = field(default_factory=list)
    """Every table made here, with the vectors it was given."""
    isolated: dict[str, int] = field(default_factory=dict)
    """Rows of each side without an initial vector, which start from small random numbers."""

    def user_table(self) -> nn.Embedding:
        """A trainable float32[n_users, D] table that holds the initial user vectors."""
        return self._table("users", self.train.n_users, self.init.users if self.init else None)

    def item_table(self) -> nn.Embedding:
        """A trainable float32[n_items, D] table that holds the initial item vectors."""
        return self._table("items", self.train.n_items, self.init.items if self.init else None)

    def _table(self, side: str, rows: int, start: Embedding | None) -> nn.Embedding:
        vectors = (
            torch.randn(rows, self.dim) * _RANDOM_SCALE
            if start is None
            else torch.from_numpy(np.array(start.vectors, dtype=np.float32))
        )
        if tuple(vectors.shape) != (rows, self.dim):
            raise ConfigError(
                f"the initial vectors have shape {list(vectors.shape)}, the model needs "
                f"{[rows, self.dim]}: fit the initialiser on this training part with "
                f"dim={self.dim}"
            )
        if start is not None and (empty := torch.from_numpy(start.isolated)).any():
            self.isolated[side] = int(empty.sum())
            vectors[empty] = torch.randn(self.isolated[side], self.dim) * _RANDOM_SCALE
        table = nn.Embedding(rows, self.dim, _weight=vectors)
        self.tables.append((table, vectors.clone()))
        return table


class NeuralRecommender(Recommender):
    """Base class of all neural models."""

    config: TrainingConfig
    network_class: ClassVar[type[nn.Module]]
    """The network, made from a `BuildContext` and the settings; or override `build`."""
    default_init_scale: ClassVar[float] = 1.0
    """Scale of z-scored initial vectors where the settings say None, as in older records and
    saved models."""
    takes_initial_vectors: ClassVar[bool] = True
    recordable: ClassVar[bool] = False
    """Whether `loss` may be recorded as a CUDA graph: it must not wait for the device, and no
    shape inside it may depend on values."""

    def __init__(self, config: TrainingConfig | None = None, **settings: Any) -> None:
        super().__init__(config, **settings)
        self.module: nn.Module | None = None
        self.history = TrainingHistory()
        self.tables: list[nn.Embedding] = []
        """The tables that hold initial vectors (what `freeze_steps` freezes)."""
        self._prepared: Any = None
        self._drift: list[float] = []
        self._start_size: list[float] = []
        self._isolated: dict[str, int] = {}

    @classmethod
    def from_recipe(
        cls, recipe: str | None = None, train: Interactions | None = None, **settings: Any
    ) -> Self:
        """A model with the settings of a named recipe for `train`, some of them changed."""
        return cls(**{**cls.recipe_settings(recipe, train), **settings})

    @property
    def start_size(self) -> float:
        """Root mean square of the entries of initial vectors with `init_scale="auto"`."""
        return 0.03

    def build(self, context: BuildContext) -> nn.Module:
        """The network. Initial vectors come in `context.user_table()` / `.item_table()`."""
        return self.network_class(context, self.config)

    @abc.abstractmethod
    def sampling(self) -> Sampling:
        """What a batch holds."""

    @abc.abstractmethod
    def loss(self, batch: Batch) -> Tensor:
        """Scalar: the mean over the rows of the batch. Called in training mode."""

    @abc.abstractmethod
    def scores(self, users: Tensor, recent: Tensor | None) -> Tensor:
        """[m, n_items]: higher is better. Called in evaluation mode without gradients.

        users: int64[m] on the model's device. recent: int64[m, length], the newest items of
        each user for models that sample windows or sequences, padded as in training; None for
        pairs. A user without any history has -1 throughout.
        """

    def history_scores(self, recent: Tensor | None, histories: Sequences) -> Tensor:
        """`scores` for people who were not in the training data; optional."""
        raise HistoryUnsupportedError(self.name)

    @classmethod
    def answers_new_people(cls) -> bool:
        """Whether the model has `history_scores` of its own."""
        return cls.history_scores is not NeuralRecommender.history_scores

    def prepare(self) -> Any:
        """What scoring shares between calls (all item vectors, say); kept until weights change."""
        return None

    def fit(
        self,
        split: Split,
        *,
        seed: int = 0,
        progress: bool | ProgressLike | None = None,
        init: InitialEmbeddings | None = None,
        device: str | torch.device = "auto",
        checkpoint: str | Path | None = None,
        resume: bool = False,
        callbacks: Sequence[Callback] = (),
    ) -> Self:
        """Train on the training part from the vectors of `init`; returns self.

        Without `init` the tables start random. With `checkpoint` (a folder) the run can be
        stopped and taken up again by `resume=True`. `callbacks` are told of steps and validations,
        and may end the training.
        """
        self._begin(split)
        if split.train.time is None and self.sampling().kind != "pairs":
            warnings.warn(
                f"{self.name} learns from the order of each user's items, and the training part "
                f"has no times: it sees no order",
                LeporidWarning,
                stacklevel=2,
            )
        self._fit(
            split,
            seed=seed,
            progress=make_progress(progress),
            init=init,
            device=resolve_device(device),
            checkpoint=None if checkpoint is None else Path(checkpoint),
            resume=resume,
            callbacks=callbacks,
        )
        self._known, done = split.train_valid, self.history
        self.fitting = Fitting(
            seed=seed, start=origin(init), steps=done.steps, best_step=done.best_step
        )
        return self

    def _fit(
        self,
        split: Split,
        *,
        seed: int,
        progress: ProgressLike,
        init: InitialEmbeddings | None = None,
        device: torch.device | None = None,
        checkpoint: Path | None = None,
        resume: bool = False,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        if init is not None:
            init = sized(init, self.config, self.start_size, self.default_init_scale)
        self._build(BuildContext(split.train, self.config.dim, init), seed)
        start = [table.weight.detach().clone() for table in self.tables]
        self.net.to(device)
        how: dict[str, Any] = {"seed": seed, "progress": progress, "callbacks": callbacks}
        self.history = train_loop(self, split, checkpoint=checkpoint, resume=resume, **how)
        self.net.eval()
        self.weights_changed()
        self._start_size = [float(b.square().mean().sqrt()) for b in start]
        # How far each table moved: ||now - start|| / ||start||.
        self._drift = [
            float((table.weight.detach().float().cpu() - b).norm() / b.norm().clamp(min=1e-12))
            for table, b in zip(self.tables, start, strict=True)
        ]

    def training_summary(self) -> dict[str, Any]:
        """What a record keeps of the training: steps, the best validation, speed, drift."""
        rows = self.history.rows
        return {
            "steps": rows[-1]["step"] if rows else 0,
            "best_step": self.history.best_step,
            "best_metric": self.history.best_metric,
            "examples_per_second": rows[-1]["examples_per_second"] if rows else None,
            "drift": self._drift,
            "start": self.fitting.start,
            "start_size": self._start_size,
            "isolated": self._isolated,
        }

    def _build(self, context: BuildContext, seed: int) -> None:
        cpu = torch.device("cpu")
        with own_generators(cpu):
            seed_default(cpu, derive_seed(seed, "build"))
            self.module = self.build(context)
        for table, vectors in context.tables:
            if not torch.equal(table.weight, vectors):
                raise LeporidError(f"{self.name} overwrote initial vectors in build()")
        self.tables = [table for table, _ in context.tables]
        self._isolated = context.isolated
        if context.isolated:
            counts = ", ".join(f"{n:,} of the {side}" for side, n in context.isolated.items())
            warnings.warn(
                f"rows without an initial vector start from small random numbers: {counts}",
                LeporidWarning,
                stacklevel=2,
            )
        self.weights_changed()

    @property
    def net(self) -> Any:
        """The network of a fitted model: an `nn.Module` of the model's own class."""
        return self._if_fitted(self.module)

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return cast(torch.device, next(self.net.parameters()).device)

    def to(self, device: str | torch.device) -> Self:
        """Move the network; returns self."""
        self.net.to(resolve_device(device))
        self.weights_changed()
        return self

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """Mixed precision as the settings and the device have it."""
        return mixed_precision(self.config.precision, self.device)

    def weights_changed(self) -> None:
        """Forget what `prepare` made."""
        self._prepared = None

    def prepared(self) -> Any:
        """What `prepare` made from the present weights."""
        if self._prepared is None:
            self._prepared = self.prepare()
        return self._prepared

    def score_tensor(self, users: Indices, history: Sequences | None = None) -> Tensor:
        """`score` as a float32 tensor on the model's device."""
        users = self._check_users(users)
        recent = self._recent(history, users)
        rows = torch.from_numpy(users.astype(np.int64)).to(self.device)
        with self._scoring():
            return self.scores(rows, recent).float()

    def score(self, users: Indices, history: Sequences | None = None) -> Scores:
        """float32[len(users), n_items] on the CPU."""
        return cast(Scores, self.score_tensor(users, history).cpu().numpy())

    def score_histories(self, histories: Sequence[Indices]) -> Scores:
        """float32[len(histories), n_items] for people never seen."""
        sequences = Sequences.from_rows(histories)
        recent = self._recent(sequences, np.arange(len(histories), dtype=np.int32))
        with self._scoring():
            scores = self.history_scores(recent, sequences).float()
        return cast(Scores, scores.cpu().numpy())

    def _recent(self, sequences: Sequences | None, users: Indices) -> Tensor | None:
        """What `scores` reads of the newest items; `sequences` is by default all that is known."""
        sampling = self.sampling()
        if not sampling.length:
            return None
        rows = self.known.sequences() if sequences is None else sequences
        repeat = sampling.kind == "windows" and sampling.repeat
        return recent_items(rows, users, sampling.length, repeat).to(self.device)

    @contextlib.contextmanager
    def _scoring(self) -> Iterator[None]:
        """Evaluation mode without gradients; training mode comes back after it."""
        was_training = self.net.training
        # Switching walks through all layers: for a single user that is time that counts.
        if was_training:
            self.net.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            if was_training:
                self.net.train()

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return to_arrays(self.net.state_dict())

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        self._build(BuildContext(self.train, self.config.dim), seed=0)
        adopt_tensors(self.net, arrays, f"the saved {self.name}")
        self.net.eval()
