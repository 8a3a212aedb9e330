"""`NeuralRecommender`: what a neural model says of itself; everything else is done here once.

A model says four things: its network (`build`), what a batch holds (`sampling`), its loss on a
batch (`loss`) and its scores (`scores`). Training is `leporid.training.loop`.
"""

from __future__ import annotations

import abc
import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from leporid.data import Interactions, Sequences, Split
from leporid.errors import LeporidError, LeporidWarning
from leporid.initializers import InitialEmbeddings
from leporid.models.shared.base import HistoryUnsupportedError, Indices, Recommender, Scores
from leporid.models.shared.build_context import BuildContext as BuildContext
from leporid.models.shared.build_context import sketched
from leporid.models.shared.growing import grow
from leporid.models.shared.newcomers import Newcomers, fit_newcomers
from leporid.models.shared.refitting import Fitting, origin
from leporid.models.shared.row_limits import RowLimits
from leporid.models.shared.start_size import sized
from leporid.progress import ProgressLike, make_progress
from leporid.training import (
    Batch,
    Callback,
    Sampling,
    TrainingConfig,
    TrainingHistory,
    adopt_tensors,
    check_tensors,
    derive_seed,
    mixed_precision,
    own_generators,
    recent_items,
    resolve_device,
    seed_default,
    to_arrays,
    train_loop,
)

_NEWEST = 50
"""Items that tell the content of a person, where the model reads none."""
_UNTRAINED = 0.25
"""Exposure of items that training has not touched: a start is no request to show them."""

GENERAL: dict[str, Any] = {
    "schedule": "inverse-root", "ema_share": 0.1, "steps": 10_000, "passes": 0.0,
    "eval_every": 125, "patience": 4,
}  # fmt: skip
"""The recipe `general`: patience on validation ends a run, on any log."""


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
    """As `Trainable` says it."""

    def __init__(self, config: TrainingConfig | None = None, **settings: Any) -> None:
        super().__init__(config, **settings)
        self.module: nn.Module | None = None
        self.history = TrainingHistory()
        self.tables: list[nn.Embedding] = []
        self._prepared: Any = None
        self._drift: list[float] = []
        self._start_size: list[float] = []
        self._isolated: dict[str, int] = {}
        self._limits: list[RowLimits] = []
        self.newcomers: Newcomers | None = None
        """How items that training has not seen are scored."""

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
        after: Self | None = None,
        first_step: int = 0,
    ) -> Self:
        """Train on the training part from the vectors of `init`; returns self.

        Without `init` the tables start random. With `checkpoint` (a folder) the run can be
        stopped and taken up again by `resume=True`. `callbacks` are told of steps and validations,
        and may end it. `after` gives all weights, `first_step` the place in the schedule.
        """
        self._begin(split)
        if split.train.time is None and self.sampling().kind != "pairs":
            warnings.warn(
                f"{self.name} learns from the order of each user's items, and the training part "
                f"has no times: it sees no order",
                LeporidWarning,
                stacklevel=2,
            )
        loop: dict[str, Any] = {"seed": seed, "progress": make_progress(progress)}
        loop |= {"checkpoint": None if checkpoint is None else Path(checkpoint), "resume": resume}
        loop |= {"callbacks": callbacks, "first_step": first_step}
        self._fit(split, init=init, device=resolve_device(device), after=after, **loop)
        self._known, done = split.train_valid, self.history
        for held in (limits.held for limits in self._limits if limits.side == "items"):
            if held.any():
                share = _UNTRAINED * held.mean()
                self.newcomers = fit_newcomers(self, np.flatnonzero(held), share=share)
        self.fitting = Fitting(
            seed=seed,
            start=after.fitting.start if after is not None else origin(init),
            steps=done.steps,
            best_step=done.best_step,
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
        after: Self | None = None,
        **loop: Any,
    ) -> None:
        if init is not None:
            train = split.train
            init = init.aligned(train.users, train.items, derive_seed(seed, "missing vectors"))
            init = sized(init, self.config, self.start_size, self.default_init_scale)
        bound = self.config.max_delta if self.config.freeze == "bounded" else None
        self._build(BuildContext(split.train, self.config.dim, init, max_delta=bound), seed)
        if after is not None:
            self.net.load_state_dict(after.net.state_dict())
        start = [table.weight.detach().clone() for table in self.tables]
        self.net.to(device)
        self._limits = [limits.to(self.device) for limits in self._limits]
        self.history = train_loop(self, split, seed=seed, progress=progress, **loop)
        for limits in self._limits:
            limits.settle()
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
        self._isolated, self._limits, self.newcomers = context.isolated, context.limits, None
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
        self.newcomers = self.newcomers and self.newcomers.to(self.device)
        self.weights_changed()
        return self

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """Mixed precision as the settings and the device have it."""
        return mixed_precision(self.config.precision, self.device)

    def keep_near_start(self) -> None:
        """After a step: back within `max_delta` of the initial vectors, where they are bounded."""
        for limits in self._limits:
            limits.enforce()

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
            return self._comparable(self.scores(rows, recent), history, users)

    def score(self, users: Indices, history: Sequences | None = None) -> Scores:
        """float32[len(users), n_items] on the CPU."""
        return cast(Scores, self.score_tensor(users, history).cpu().numpy())

    def score_histories(self, histories: Sequence[Indices]) -> Scores:
        """float32[len(histories), n_items] for people never seen."""
        sequences = Sequences.from_rows(histories)
        people = np.arange(len(histories), dtype=np.int32)
        with self._scoring():
            scores = self.history_scores(self._recent(sequences, people), sequences)
            return cast(Scores, self._comparable(scores, sequences, people).cpu().numpy())

    def _comparable(self, scores: Tensor, sequences: Sequences | None, people: Indices) -> Tensor:
        """The scores as float32; of a grown model, with those of new items on the others' scale."""
        if self.newcomers is None:
            return scores.float()
        return self.newcomers.adjust(scores.float(), self.newest(sequences, people))

    def newest(self, sequences: Sequences | None, people: Indices) -> Tensor:
        """int64[m, l] on the model's device: what `scores` reads of the newest items, or some."""
        recent = self._recent(sequences, people)
        if recent is None:
            rows = self.known.sequences() if sequences is None else sequences
            recent = recent_items(rows, people, _NEWEST, False).to(self.device)
        return recent

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

    def grow(
        self,
        items: Any = None,
        interactions: Any = None,
        *,
        columns: tuple[str, ...] = (),
        length: float | None = None,
        exposure: float = 1.0,
        steps: int = 0,
        progress: bool | ProgressLike | None = None,
    ) -> Self:
        """A new model with rows for new items and users; all else is as it was trained.

        Parameters
        ----------
        items : a file or table about items (`leporid.data.ItemTable.load`); all it names that
            the model does not know are added. It names old items too, unless the model started
            from a table that does
        interactions : a log (`leporid.load`) or `Interactions` with new items or new users
        columns : of the table, as for the initialiser `content`
        exposure : places that new items get among the first ten of people the model knows, in
            units of their share of the catalogue (at most half of the places in all)
        length : of the new items' rows, in units of the median of the old ones: their scores are
            then the network's own, and `exposure` is not looked at
        steps : of training, by which only the new rows move, on the histories that hold them
        """
        how: dict[str, Any] = {"columns": columns, "length": length, "exposure": exposure}
        return grow(self, items, interactions, steps=steps, progress=progress, **how)

    def _adopt(self, old: Self, grown: Callable[[str, Tensor, tuple[int, ...]], Tensor]) -> None:
        """Build the network and fill it with `grown(name, old tensor, new shape)`."""
        self._build(BuildContext(self.train, self.config.dim), seed=0)
        before = old.net.state_dict()
        fresh = self.net.state_dict()
        tensors = {name: grown(name, before[name], tuple(fresh[name].shape)) for name in fresh}
        self.net.load_state_dict(tensors)
        self.to(old.device)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        new = {} if self.newcomers is None else self.newcomers.arrays()
        return to_arrays(self.net.state_dict()) | new

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        where = f"the saved {self.name}"
        newcomers = Newcomers.taken_from(arrays, self.train.n_items)
        # Settings that do not go with the arrays are refused before anything is allocated.
        if (sketch := sketched(self.build, self.train, self.config.dim)) is not None:
            check_tensors(sketch, arrays, where)
        self._build(BuildContext(self.train, self.config.dim), seed=0)
        adopt_tensors(self.net, arrays, where)
        self.newcomers = newcomers
        self.net.eval()
