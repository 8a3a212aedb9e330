"""`NeuralRecommender`: the base class of neural models.

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

from leporid._deprecated import renamed, renamed_arguments
from leporid.data import Interactions, Sequences, Split
from leporid.errors import LeporidError, LeporidWarning
from leporid.initializers import InitialEmbeddings
from leporid.models.shared.cold_start import ColdItems, fit_cold_items
from leporid.models.shared.extension import Extension, item_tables
from leporid.models.shared.lists import HistoryUnsupportedError, Indices, Scores
from leporid.models.shared.recommender import Recommender
from leporid.models.shared.saved import Fitting, provenance
from leporid.models.shared.tables import BuildContext, HeldRows, sized, sketched
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
"""Items that give a user's content, where the model reads none."""
_COLD_ITEM_SHARE = 0.25
"""Of items without training interactions whose initial embeddings come from content."""


class NeuralRecommender(Recommender):
    """Base class of all neural models."""

    config: TrainingConfig
    network_class: ClassVar[type[nn.Module]]
    """Made from a `BuildContext` and the settings; or override `build`."""
    takes_initial_vectors: ClassVar[bool] = True
    recordable: ClassVar[bool] = False

    def __init__(self, config: TrainingConfig | None = None, **settings: Any) -> None:
        super().__init__(config, **settings)
        self.module: nn.Module | None = None
        self.history = TrainingHistory()
        self.tables: list[nn.Embedding] = []
        self._prepared: Any = None
        self._tables_summary: dict[str, Any] = {"drift": [], "start_size": []}
        self._isolated: dict[str, int] = {}
        self._held: list[HeldRows] = []
        self.cold_items: ColdItems | None = None
        """How items that training has not seen are scored."""

    @classmethod
    def from_recipe(
        cls, recipe: str | None = None, train: Interactions | None = None, **settings: Any
    ) -> Self:
        """A model with the settings of a named recipe for `train`, some of them changed."""
        return cls(**{**cls.recipe_settings(recipe, train), **settings})

    @property
    def init_size(self) -> float:
        """Root mean square of the entries of initial embeddings with `init_scale="auto"`."""
        return 0.03

    def build(self, context: BuildContext) -> nn.Module:
        """The network. Initial embeddings come in `context.user_table()` / `.item_table()`."""
        return self.network_class(context, self.config)

    @abc.abstractmethod
    def sampling(self) -> Sampling: ...

    @abc.abstractmethod
    def loss(self, batch: Batch) -> Tensor: ...

    @abc.abstractmethod
    def scores(self, users: Tensor, recent: Tensor | None) -> Tensor:
        """[m, n_items]: higher is better. Called in evaluation mode without gradients.

        users: int64[m]. recent: int64[m, length], the newest items of each user, padded as in
        training (-1 throughout for a user without history); None for models of pairs.
        """

    def history_scores(self, recent: Tensor | None, histories: Sequences) -> Tensor:
        """`scores` for users who were not in the training data; optional."""
        raise HistoryUnsupportedError(self.name)

    @classmethod
    def supports_new_users(cls) -> bool:
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
        """Train on the training part; returns self. Without `init` the tables are drawn.

        With `checkpoint` (a folder) the run can be stopped and resumed by `resume=True`.
        `callbacks` are told of steps and validations, and may end it. `after` gives all weights,
        `first_step` the position in the schedule.
        """
        self._begin(split)
        if split.train.time is None and self.sampling().kind != "pairs":
            warnings.warn(
                f"{self.name} learns from the order of each user's items, and the training part "
                f"has no times: it reads no order",
                LeporidWarning,
                stacklevel=2,
            )
        self._fit(
            split, seed=seed, progress=make_progress(progress), init=init, after=after,
            device=resolve_device(device), resume=resume, callbacks=callbacks,
            checkpoint=None if checkpoint is None else Path(checkpoint), first_step=first_step,
        )  # fmt: skip
        self._known, done = split.train_valid, self.history
        for held in (rows.held.cpu().numpy() for rows in self._held if rows.side == "items"):
            share = _COLD_ITEM_SHARE * held.mean()
            self.cold_items = fit_cold_items(self, np.flatnonzero(held), share=share)
        first = provenance(init) if after is None else after.fitting.init
        self.fitting = Fitting(seed=seed, init=first, steps=done.steps, best_step=done.best_step)
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
            init = sized(init, self.config, self.init_size)
        self._build(BuildContext(split.train, self.config.dim, init), seed)
        if after is not None:
            self.net.load_state_dict(after.net.state_dict())
        initial = [table.weight.detach().clone() for table in self.tables]
        self.net.to(device)
        self._held = [rows.to(self.device) for rows in self._held]
        self.history = train_loop(self, split, seed=seed, progress=progress, **loop)
        for rows in self._held:
            rows.settle()
        self.net.eval()
        self.weights_changed()
        moved = (
            (table.weight.detach().float().cpu() - b).norm() / b.norm().clamp(min=1e-12)
            for table, b in zip(self.tables, initial, strict=True)
        )
        sizes = (b.square().mean().sqrt() for b in initial)
        self._tables_summary = {"drift": [*map(float, moved)], "start_size": [*map(float, sizes)]}

    def training_summary(self) -> dict[str, Any]:
        """What a record keeps of the training: steps, the best validation, speed, drift."""
        done, last = self.history, self.history.rows[-1] if self.history.rows else {}
        return {
            "steps": last.get("step", 0),
            "best_step": done.best_step,
            "best_metric": done.best_metric,
            "examples_per_second": last.get("examples_per_second"),
            **self._tables_summary,
            "start": self.fitting.init,
            "isolated": self._isolated,
        }

    def _build(self, context: BuildContext, seed: int) -> None:
        cpu = torch.device("cpu")
        with own_generators(cpu):
            seed_default(cpu, derive_seed(seed, "build"))
            self.module = self.build(context)
        for table, vectors in context.tables:
            if not torch.equal(table.weight, vectors):
                raise LeporidError(f"{self.name} overwrote initial embeddings in build()")
        self.tables = [table for table, _ in context.tables]
        self._isolated, self._held, self.cold_items = context.isolated, context.held, None
        if context.isolated:
            counts = ", ".join(f"{n:,} of the {side}" for side, n in context.isolated.items())
            text = f"rows without an initial embedding are small random numbers: {counts}"
            warnings.warn(text, LeporidWarning, stacklevel=2)
        self.weights_changed()

    @property
    def net(self) -> Any:
        """The network of a fitted model: an `nn.Module` of the model's own class."""
        return self._if_fitted(self.module)

    @property
    def device(self) -> torch.device:
        return cast(torch.device, next(self.net.parameters()).device)

    def to(self, device: str | torch.device) -> Self:
        self.net.to(resolve_device(device))
        self.cold_items = self.cold_items and self.cold_items.to(self.device)
        self.weights_changed()
        return self

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        return mixed_precision(self.config.precision, self.device)

    def hold_rows(self) -> None:
        """After a step: undo what it did to rows that must not move."""
        for rows in self._held:
            rows.restore()

    def weights_changed(self) -> None:
        self._prepared = None

    def prepared(self) -> Any:
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
        return cast(Scores, self.score_tensor(users, history).cpu().numpy())

    def score_histories(self, histories: Sequence[Indices]) -> Scores:
        sequences = Sequences.from_rows(histories)
        rows = np.arange(len(histories), dtype=np.int32)
        with self._scoring():
            scores = self.history_scores(self._recent(sequences, rows), sequences)
            return cast(Scores, self._comparable(scores, sequences, rows).cpu().numpy())

    def _comparable(self, scores: Tensor, sequences: Sequences | None, users: Indices) -> Tensor:
        """The scores as float32, with those of cold items on the others' scale."""
        if self.cold_items is None:
            return scores.float()
        return self.cold_items.adjust(scores.float(), self.newest(sequences, users))

    def newest(self, sequences: Sequences | None, users: Indices) -> Tensor:
        """int64[m, l] on the model's device: what `scores` reads of the newest items, or some."""
        recent = self._recent(sequences, users)
        if recent is None:
            rows = self.known.sequences() if sequences is None else sequences
            recent = recent_items(rows, users, _NEWEST, False).to(self.device)
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
        self.net.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            self.net.train(was_training)

    @renamed_arguments(exposure="cold_item_share")
    def extend(
        self,
        items: Any = None,
        interactions: Any = None,
        *,
        columns: tuple[str, ...] = (),
        length: float | None = None,
        cold_item_share: float = 1.0,
        steps: int = 0,
        progress: bool | ProgressLike | None = None,
    ) -> Self:
        """A new model with rows for new items and users; all else is as it was trained.

        Parameters
        ----------
        items : a file or table about items (`leporid.data.ItemTable.load`); all it names that
            the model does not know are added. It names old items too, unless the initial
            embeddings came from a table that does
        interactions : a log (`leporid.load`) or `Interactions` with new items or new users
        columns : of the table, as for the initialiser `content`
        cold_item_share : how often cold items appear in the first ten ranks of known users, in
            units of their share of all items (at most half of the ranks in all)
        length : of the new items' rows, in units of the median of the old ones: their scores are
            then the network's own, and `cold_item_share` is not looked at
        steps : of training, by which only the new rows move, on the histories that hold them
        """
        initial = (self.fitting.init or {}).get("parameters", {}).get("items")
        tables = item_tables(self.items, items, initial)
        extension = Extension(self.known, tables, interactions, columns, length)
        model = type(self)(self.config)
        model._known = model._train = extension.merged
        model.fitting = self.fitting
        model._adopt(self, extension.tensor)
        model.net.eval()
        if steps:
            extension.train(model, steps, self.fitting.seed, make_progress(progress))
        cold, n_items = extension.items.new, extension.items.after
        earlier = self.cold_items and self.cold_items.among(extension.items.old, n_items)
        if length is not None or not len(cold):
            model.cold_items = earlier
            return model
        content = extension.content()
        if earlier is not None:
            cold = np.union1d(cold, earlier.items.cpu().numpy())
            content = content if tables else earlier.content.cpu().numpy()
        model.cold_items = fit_cold_items(
            model, cold, content, extension.content_weight(cold),
            share=cold_item_share * len(cold) / n_items,
        )  # fmt: skip
        return model

    grow = renamed("grow", "extend")

    def _adopt(self, old: Self, extended: Callable[[str, Tensor, tuple[int, ...]], Tensor]) -> None:
        """Build the network and fill it with `extended(name, old tensor, new shape)`."""
        self._build(BuildContext(self.train, self.config.dim), seed=0)
        before, fresh = old.net.state_dict(), self.net.state_dict()
        tensors = {name: extended(name, before[name], tuple(fresh[name].shape)) for name in fresh}
        self.net.load_state_dict(tensors)
        self.to(old.device)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        cold = {} if self.cold_items is None else self.cold_items.arrays()
        return to_arrays(self.net.state_dict()) | cold

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        where = f"the saved {self.name}"
        cold_items = ColdItems.taken_from(arrays, self.train.n_items)
        # Settings that do not go with the arrays are refused before anything is allocated.
        if (sketch := sketched(self.build, self.train, self.config.dim)) is not None:
            check_tensors(sketch, arrays, where)
        self._build(BuildContext(self.train, self.config.dim), seed=0)
        adopt_tensors(self.net, arrays, where)
        self.cold_items = cold_items
        self.net.eval()
