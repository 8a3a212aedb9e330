"""`NeuralRecommender`: the base class of neural models.

A model says four things: its network (`build`), what a batch holds (`sampling`), its loss on a
batch (`loss`), and how it scores: by dot products of `encode` and `item_outputs`, or by `scores`.
Training is `leporid.models.neural.trainer`.
"""

import abc
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from leporid.data import Interactions, Sequences, Split
from leporid.embeddings import InitialEmbeddings, TableExtension, scale_for_model
from leporid.errors import LeporidError, warn
from leporid.models.base import Recommender
from leporid.models.context import FitContext
from leporid.models.fitting import provenance
from leporid.models.history import TrainingHistory
from leporid.models.neural.checkpoints import adopt_tensors, check_tensors, to_arrays
from leporid.models.neural.cold_items import ColdItems, fit_cold_items
from leporid.models.neural.linear_part import (
    LinearPart,
    fit_linear_part,
    resolved_config,
)
from leporid.models.neural.new_items import Extension, extended
from leporid.models.neural.sampler import Batch, Sampling, recent_items
from leporid.models.neural.settings import (
    TrainingConfig,
    derive_seed,
    mixed_precision,
    own_generators,
    resolve_device,
    seed_default,
)
from leporid.models.neural.tables import (
    BuildContext,
    HeldRows,
    movement,
    sketched,
)
from leporid.models.neural.trainer import train_loop
from leporid.progress import ProgressLike, make_progress
from leporid.ranking import Indices, Scores, VectorsUnsupportedError

_USERS_AT_ONCE = 256
_NEIGHBOURS = 100
"""Fitted users whose rows give a new user's row."""
_NEWEST = 50
"""Items that give a user's content, where the model reads none."""
_COLD_ITEM_SHARE = 0.25
"""Of items without training interactions whose initial embeddings come from content."""


class NeuralRecommender(Recommender):
    """Base class of all neural models."""

    config: TrainingConfig
    history: TrainingHistory
    network_class: ClassVar[type[nn.Module]]
    """Made from a `BuildContext` and the settings; or override `build`."""
    takes_initial_vectors: ClassVar[bool] = True
    recordable: ClassVar[bool] = False

    def __init__(self, config: TrainingConfig | None = None, **settings: Any) -> None:
        super().__init__(config, **settings)
        self.module: nn.Module | None = None
        self.history: TrainingHistory = TrainingHistory()
        self.tables: list[nn.Embedding] = []
        self._prepared: Any = None
        self._new_users: TableExtension | None = None
        self.summary: dict[str, Any] = {}
        self._held: list[HeldRows] = []
        self.cold_items: ColdItems | None = None
        """How items that training has not seen are scored."""
        self.linear: LinearPart | None = None
        """What is added to the scores of the network, if anything."""

    @classmethod
    def from_recipe(
        cls,
        recipe: str | None = None,
        train: Interactions | None = None,
        **settings: Any,
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

    def scores(self, rows: Tensor | None, recent: Tensor | None) -> Tensor:
        """[m, n_items]: higher is better. Called in evaluation mode without gradients.

        rows: [m, width] of the user table; None where there is none. recent: int64[m, length], the
        newest items of each user, padded as in training (-1 throughout for a user without
        history); None for models of pairs.
        """
        return torch.mm(self.encode(rows, recent), self.item_outputs().T)

    def encode(self, rows: Tensor | None, recent: Tensor | None) -> Tensor:
        """[m, width]: `user_vectors`, traceable; arguments as in `scores`."""
        raise VectorsUnsupportedError(self.name)

    def item_outputs(self) -> Tensor:
        raise VectorsUnsupportedError(self.name)

    def user_table(self) -> Tensor | None:
        """float32[n_users, width]: a row per user, by default those of the network's `users`."""
        return self.net.users.weight if hasattr(self.net, "users") else None

    def prepare(self) -> Any:
        """What scoring shares between calls (all item vectors, say); kept until weights change."""
        return None

    def _fit(self, split: Split, seed: int, context: FitContext) -> None:
        if split.train.time is None and self.sampling().kind != "pairs":
            warn(
                f"{self.name} learns from the order of each user's items, and the training part "
                f"has no times: it reads no order"
            )
        device = resolve_device(context.device)
        init = context.init
        if init is not None:
            noise_seed = derive_seed(seed, "missing vectors")
            init = init.aligned(split.users, split.items, noise_seed)
            init = scale_for_model(
                init,
                standardize=self.config.standardize,
                init_scale=self.config.init_scale,
                size=self.init_size,
            )
        build = BuildContext(split.train, self.config.dim, init)
        self._build(build, seed)
        self.linear = None
        if context.warm_start is not None:
            Extension(context.warm_start.train, split.train).copy(
                context.warm_start, self
            )
        build.add_features(self.config, context.tables)
        initial = [table.weight.detach().clone() for table in self.tables]
        self.net.to(device)
        self._held = [rows.to(self.device) for rows in self._held]
        self.history = train_loop(self, split, seed, context)
        build.fold_features()
        for rows in self._held:
            rows.settle()
        self.net.eval()
        self.weights_changed()
        self.summary |= movement(self.tables, initial)
        self.linear = fit_linear_part(self.score, self.config, split)
        self.config = resolved_config(self.config, self.linear)

    def _finish(self, split: Split, seed: int, context: FitContext) -> None:
        for rows in self._held:
            if rows.side == "items":
                held = rows.held.cpu().numpy()
                share = _COLD_ITEM_SHARE * held.mean()
                self.cold_items = fit_cold_items(
                    self, np.flatnonzero(held), share=share
                )
        origin = provenance(context.init)
        if context.warm_start is not None:
            origin = context.warm_start.fitting.init
        self.fitting = self.fitting.replace(
            init=origin, steps=self.history.steps, best_step=self.history.best_step
        )

    def _refit(
        self,
        whole: Split,
        init: InitialEmbeddings | Recommender | None,
        context: FitContext,
    ) -> Self:
        if isinstance(init, Recommender):
            first_step = context.first_step
            if first_step is None:
                first_step = self.fitting.first_step()
            context = replace(context, warm_start=init, first_step=first_step)
            init = None
        if init is None and (context.warm_start is None or self.fitting.item_table):
            init = self.fitting.initial_again(self.name, whole, context.progress)
        model = type(self)(self.fitting.schedule().applied_to(self.config))
        return model.fit(
            whole, seed=self.fitting.seed, context=replace(context, init=init)
        )

    def training_summary(self) -> dict[str, Any]:
        """What a record keeps of the training: steps, the best validation, speed, drift."""
        done, last = self.history, self.history.rows[-1] if self.history.rows else {}
        return {
            "steps": last.get("step", 0),
            "best_step": done.best_step,
            "best_metric": done.best_metric,
            "examples_per_second": last.get("examples_per_second"),
            **self.summary,
            "start": self.fitting.init,
        }

    def _build(self, context: BuildContext, seed: int) -> None:
        cpu = torch.device("cpu")
        with own_generators(cpu):
            seed_default(cpu, derive_seed(seed, "build"))
            self.module = self.build(context)
        for table, vectors, _ in context.tables:
            if not torch.equal(table.weight, vectors):
                raise LeporidError(
                    f"{self.name} overwrote initial embeddings in build()"
                )
        self.tables = [table for table, *_ in context.tables]
        self.summary = {"drift": [], "start_size": [], "isolated": context.isolated}
        self._held, self.cold_items = context.held, None
        if context.isolated:
            counts = ", ".join(
                f"{n:,} of the {side}" for side, n in context.isolated.items()
            )
            text = (
                f"rows without an initial embedding are small random numbers: {counts}"
            )
            warn(text)
        self.weights_changed()

    @property
    def net(self) -> Any:
        """The network of a fitted model: an `nn.Module` of the model's own class."""
        return self._if_fitted(self.module)

    @property
    def device_name(self) -> str:
        if self.device.type == "cuda":
            return torch.cuda.get_device_name(self.device)
        return str(self.device)

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
        self._prepared = self._new_users = None

    def prepared(self) -> Any:
        if self._prepared is None:
            self._prepared = self.prepare()
        return self._prepared

    def score(self, users: Indices, history: Sequences | None = None) -> Scores:
        return cast(Scores, self.score_tensor(users, history).cpu().numpy())

    def score_histories(self, histories: Sequence[Indices]) -> Scores:
        return cast(
            Scores,
            self.score_tensor(None, Sequences.from_rows(histories)).cpu().numpy(),
        )

    def score_tensor(
        self, users: Indices | None, history: Sequences | None = None
    ) -> Tensor:
        """`score` as a float32 tensor on the model's device; None: of new users, by `history`."""
        if users is not None:
            users = self._check_users(users)
        with self._scoring():
            rows = self.user_rows(history, users)
            places = (
                np.arange(len(history or ()), dtype=np.int32)
                if users is None
                else users
            )
            scores = self.scores(rows, self._recent(history, places)).float()
            if self.linear is not None:
                known = self.known.sequences() if history is None else history
                scores = self.linear.add(scores, known.take(places))
            if self.cold_items is None:
                return scores
            return self.cold_items.adjust(scores, self.newest(history, places))

    def user_rows(
        self, histories: Sequences | None, users: Indices | None
    ) -> Tensor | None:
        """[m, width] of the user table, or with None those of new users with these histories."""
        table = self.user_table()
        if table is None:
            return None
        if users is None:
            return self.new_rows(cast(Sequences, histories))
        return table[torch.from_numpy(users.astype(np.int64)).to(self.device)]

    def new_rows(self, histories: Sequences) -> Tensor:
        """float32[len(histories), width] on the table's device: means of similar fitted users."""
        table = cast(Tensor, self.user_table()).detach()
        if self._new_users is None:
            fitted = table.float().cpu().numpy()
            self._new_users = TableExtension(self.train.csr(), fitted, _NEIGHBOURS)
        rows = self._new_users.extend(histories.csr(self.train.n_items))
        return torch.from_numpy(rows).to(table)

    @property
    def vectors_rank(self) -> Literal["everything", "first stage"]:
        """A linear part ranks what the vectors retrieve."""
        return "everything" if self.linear is None else "first stage"

    def item_vectors(self) -> Scores:
        with self._scoring():
            vectors = self.item_outputs().float()
            if self.cold_items is not None and self.vectors_rank == "everything":
                vectors = self.cold_items.item_vectors(vectors)
            return cast(Scores, vectors.cpu().numpy())

    def user_vectors(
        self, histories: Sequences, users: Indices | None = None
    ) -> Scores:
        parts = []
        with self._scoring():
            for first in range(0, len(histories), _USERS_AT_ONCE):
                part = np.arange(first, min(first + _USERS_AT_ONCE, len(histories)))
                some, places = (
                    histories.take(part),
                    np.arange(len(part), dtype=np.int32),
                )
                rows = self.user_rows(some, None if users is None else users[part])
                newest = None if self.cold_items is None else self.newest(some, places)
                recent = self._recent(some, places)
                parts.append(self.encode_users(rows, recent, newest).float().cpu())
        return cast(Scores, torch.cat(parts).numpy())

    def encode_users(
        self, rows: Tensor | None, recent: Tensor | None, newest: Tensor | None
    ) -> Tensor:
        """`encode`, with what the scores of cold items need; newest: int64[m, l], -1 for none."""
        vectors = self.encode(rows, recent)
        if (
            self.cold_items is None
            or newest is None
            or self.vectors_rank != "everything"
        ):
            return vectors
        return self.cold_items.user_vectors(vectors.float(), newest)

    def newest(self, sequences: Sequences | None, users: Indices) -> Tensor:
        """int64[m, l] on the model's device: what `scores` reads of the newest items, or some."""
        return cast(Tensor, self._recent(sequences, users, _NEWEST))

    def _recent(
        self, sequences: Sequences | None, users: Indices, otherwise: int = 0
    ) -> Tensor | None:
        """What `scores` reads of the newest items; `sequences` is by default all that is known."""
        sampling = self.sampling()
        length = sampling.length or otherwise
        if not length:
            return None
        rows = self.known.sequences() if sequences is None else sequences
        repeat = sampling.kind == "windows" and sampling.repeat
        return recent_items(rows, users, length, repeat).to(self.device)

    @contextlib.contextmanager
    def _scoring(self) -> Iterator[None]:
        """Evaluation mode without gradients; training mode comes back after it."""
        was_training = self.net.training
        if was_training:  # to walk through all modules takes as long as a small network
            self.net.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            if was_training:
                self.net.train()

    def extend(
        self,
        items: Any = None,
        interactions: Any = None,
        *,
        columns: tuple[str, ...] = (),
        length: float | None = None,
        cold_item_share: float | None = None,
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
            units of their share of all items, at most half of the ranks in all; None is 1, at
            most a tenth of the ranks
        length : of the new items' rows, in units of the median of the old ones: their scores are
            then the network's own, and `cold_item_share` is not looked at
        steps : of training, by which only the new rows move, on the histories that hold them
        """
        options = columns, length, cold_item_share, steps, make_progress(progress)
        return cast(Self, extended(self, items, interactions, *options))

    def _arrays(self) -> dict[str, NDArray[Any]]:
        arrays = to_arrays(self.net.state_dict())
        for part in (self.cold_items, self.linear):
            arrays |= {} if part is None else part.arrays()
        return arrays

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        where = f"the saved {self.name}"
        cold_items = ColdItems.taken_from(arrays, self.train.n_items)
        self.linear = LinearPart.taken_from(arrays, self.train)
        # Settings that do not go with the arrays are refused before anything is allocated.
        if (sketch := sketched(self.build, self.train, self.config.dim)) is not None:
            check_tensors(sketch, arrays, where)
        self._build(BuildContext(self.train, self.config.dim), seed=0)
        adopt_tensors(self.net, arrays, where)
        self.cold_items = cold_items
        self.net.eval()
