"""`NeuralRecommender`: the base class of neural models.

A model says four things: its network (`build`), what a batch holds (`sampling`), its loss on a
batch (`loss`), and how it scores: by dot products of `encode` and `item_outputs`, or by `scores`.
Training is `leporid.models.neural.trainer`, scoring `leporid.models.neural.scoring`.
"""

import abc
import contextlib
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from leporid.data import Interactions, Split, load
from leporid.embeddings import InitialEmbeddings, scale_for_model
from leporid.errors import (
    ConfigError,
    DataError,
    LeporidError,
    article,
    warn,
)
from leporid.foundation import JsonValue, ProgressLike, SettingValue, make_progress
from leporid.models.base import Recommender
from leporid.models.context import FitContext, FittedNetwork
from leporid.models.fitted_arrays import Arrays
from leporid.models.fitting import provenance
from leporid.models.history import TrainingHistory
from leporid.models.merged_log import merge_interactions
from leporid.models.neural.closed_form_part import (
    ClosedFormPart,
    fit_closed_form_part,
    resolved_config,
)
from leporid.models.neural.cold_items import ColdItems, fit_cold_items
from leporid.models.neural.meta_build import build_on_meta
from leporid.models.neural.new_items import (
    fit_new_cold_items,
    item_tables,
    train_new_rows,
)
from leporid.models.neural.sampler import Batch
from leporid.models.neural.scoring import NetworkScoring
from leporid.models.neural.settings import (
    TrainingConfig,
    derive_seed,
    mixed_precision,
    own_generators,
    resolve_device,
    seed_default,
)
from leporid.models.neural.table_growth import TableGrowth
from leporid.models.neural.tables import BuildContext, movement
from leporid.models.neural.trainer import train_loop
from leporid.models.neural.untrained_rows import UntrainedRows
from leporid.models.neural.weights import adopt_tensors, check_tensors, to_arrays

_COLD_ITEM_SHARE = 0.25
"""Share of the ranks for items without training interactions whose initial embeddings come from
content, in units of their share of all items."""


class NeuralRecommender(NetworkScoring):
    """Base class of all neural models."""

    history: TrainingHistory
    network_class: ClassVar[type[nn.Module]]
    """Made from a `BuildContext` and the settings; or override `build`."""
    takes_initial_vectors: ClassVar[bool] = True
    supports_cuda_graph: ClassVar[bool] = False
    """Whether `loss` never waits for the device, and no shape inside it depends on values."""

    def __init__(
        self,
        config: TrainingConfig | None = None,
        **settings: SettingValue,
    ) -> None:
        super().__init__(config, **settings)
        self.history = TrainingHistory()
        self.tables: list[nn.Embedding] = []
        """The tables that hold initial embeddings."""
        self._untrained: list[UntrainedRows] = []

    @classmethod
    def from_recipe(
        cls,
        recipe: str | None = None,
        train: Interactions | None = None,
        **settings: SettingValue,
    ) -> Self:
        """Return a model with the settings of a named recipe for `train`, some of them changed."""
        recipe_settings = cls.recipe_settings(recipe, train)
        return cls(cls.config_class.from_dict(recipe_settings | settings))

    @property
    def init_size(self) -> float:
        """Root mean square of the entries of initial embeddings with `init_scale="auto"`."""
        return 0.03

    def build(self, context: BuildContext) -> nn.Module:
        """Return the network; initial embeddings are in `context.user_table()`, `.item_table()`."""
        return self.network_class(context, self.config)

    @abc.abstractmethod
    def loss(self, batch: Batch) -> Tensor:
        """Return the loss on a batch, a scalar."""

    def autocast(self) -> contextlib.AbstractContextManager[object]:
        """Return the context in which the loss is computed."""
        return mixed_precision(self.config.precision, self.device)

    def freeze_untrained_rows(self) -> None:
        """Undo what an optimiser step did to rows that must not move."""
        for rows in self._untrained:
            rows.restore()

    def _fit(
        self,
        split: Split,
        seed: int,
        context: FitContext,
    ) -> None:
        if split.train.time is None and self.sampling().kind != "pairs":
            warn(
                f"{self.name} learns from the order of each user's items, and the training part "
                f"has no times: it reads no order"
            )
        device = resolve_device(context.device)
        init = context.init
        if init is not None:
            noise_seed = derive_seed(seed, "missing vectors")
            size = self.init_size
            train = split.train
            init = scale_for_model(
                init.aligned(train.users, train.items, noise_seed),
                standardize=self.config.standardize,
                init_scale=self.config.init_scale,
                size=size,
            )
        build = BuildContext(split.train, self.config.dim, init)
        self._build(build, seed)
        self.closed_form = None
        warm_start = context.warm_start
        if warm_start is not None:
            growth = TableGrowth(warm_start.train, split.train)
            self._take_weights(warm_start, growth)
        build.add_features(self.config, context.tables)
        initial = [table.weight.detach().clone() for table in self.tables]
        self.net.to(device)
        self._untrained = [rows.to(self.device) for rows in self._untrained]
        self.history = train_loop(self, split, seed, context)
        build.fold_features()
        for rows in self._untrained:
            rows.follow_trained_rows()
        self.net.eval()
        self.weights_changed()
        moved = movement(self.tables, initial)
        self.summary["start_size"] = moved["start_size"]
        self.summary["drift"] = moved["drift"]
        if self.config.has_closed_form_part:
            context.progress.start("closed-form part")
        self.closed_form = fit_closed_form_part(self.score, self.config, split)
        self.config = resolved_config(self.config, self.closed_form)

    def _build(self, context: BuildContext, seed: int) -> None:
        """Make the network from a context, with random numbers of `seed`."""
        cpu = torch.device("cpu")
        with own_generators(cpu):
            seed_default(cpu, derive_seed(seed, "build"))
            self.module = self.build(context)
        for made in context.tables:
            if not torch.equal(made.table.weight, made.vectors):
                raise LeporidError(
                    f"{self.name} overwrote initial embeddings in build()"
                )
        self.tables = [made.table for made in context.tables]
        self.summary = {
            "drift": [],
            "start_size": [],
            "isolated": context.isolated,
        }
        self._untrained = context.untrained
        self.cold_items = None
        if context.isolated:
            counts = ", ".join(
                f"{count:,} of the {side}" for side, count in context.isolated.items()
            )
            warn(
                f"rows without an initial embedding are small random numbers: {counts}"
            )
        self.weights_changed()

    def _take_weights(self, trained: FittedNetwork, growth: TableGrowth) -> None:
        """Take over all weights of a trained model, with rows for new users and items."""
        current = self.net.state_dict()
        if (
            not isinstance(trained, NeuralRecommender)
            or trained.name != self.name
            or trained.net.state_dict().keys() != current.keys()
        ):
            raise ConfigError(
                f"{self.name} goes on from {article(self.name)} of the same settings only"
            )
        grown = growth.grown(trained.net.state_dict(), current)
        self.net.load_state_dict(grown)

    def _finish(
        self,
        split: Split,
        seed: int,
        context: FitContext,
    ) -> None:
        for rows in self._untrained:
            if rows.side == "items":
                untrained = rows.untrained.cpu().numpy()
                self.cold_items = fit_cold_items(
                    self,
                    np.flatnonzero(untrained),
                    share=_COLD_ITEM_SHARE * untrained.mean(),
                )
        origin = provenance(context.init)
        if context.warm_start is not None:
            origin = context.warm_start.fitting.init
        self.fitting = replace(
            self.fitting,
            init=origin,
            steps=self.history.steps,
            best_step=self.history.best_step,
        )

    def _refit(
        self,
        full_split: Split,
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
            init = self.fitting.initial_again(self.name, full_split, context.progress)
        context = replace(context, init=init)
        config = self.fitting.schedule().applied_to(self.config)
        model = type(self)(config)
        return model.fit(full_split, seed=self.fitting.seed, context=context)

    def training_summary(self) -> dict[str, JsonValue]:
        """Return what a record keeps of the training: steps, the best validation, speed, drift."""
        history = self.history
        last_row = history.rows[-1] if history.rows else {}
        return {
            "steps": history.last_step,
            "best_step": history.best_step,
            "best_metric": history.best_metric,
            "ended": history.ended,
            "examples_per_second": last_row.get("examples_per_second"),
            **self.summary,
            "start": self.fitting.init,
        }

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
        """Return a new model with rows for new users and items; all else is as it was trained.

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
        growth = self._growth(items, interactions, columns, length)
        new_items = growth.items.new_rows
        if not len(growth.users.new_rows) and not len(new_items):
            raise DataError(
                "nothing is new: the model knows all of these items and users already"
            )
        extended = self._with_rows(growth)
        if steps:
            seed = self.fitting.seed
            train_new_rows(
                extended,
                growth,
                steps,
                seed,
                make_progress(progress),
            )
        earlier = None
        if self.cold_items is not None:
            items_now = growth.items
            earlier = self.cold_items.among(items_now.rows_after, items_now.n_after)
        if length is not None or not len(new_items):
            extended.cold_items = earlier
        else:
            extended.cold_items = fit_new_cold_items(
                extended, growth, earlier, cold_item_share
            )
        return extended

    def _growth(
        self,
        items: object,
        interactions: object,
        columns: tuple[str, ...],
        length: float | None,
    ) -> TableGrowth:
        """Find out which users and items are new, and what is known of them."""
        tables = item_tables(self.items, items, self.fitting.item_table)
        if interactions is not None and not isinstance(interactions, Interactions):
            interactions = load(interactions)
        merged = merge_interactions(self.known, interactions, tables)
        return TableGrowth(
            self.known,
            merged,
            tables,
            columns,
            length,
        )

    def _with_rows(self, growth: TableGrowth) -> Self:
        """Return a copy of the model with rows for new users and items."""
        extended = type(self)(self.config)
        extended._known = growth.merged
        extended._train = growth.merged
        extended.fitting = self.fitting
        context = BuildContext(growth.merged, self.config.dim)
        extended._build(context, seed=0)
        extended._take_weights(self, growth)
        extended.to(self.device)
        extended.net.eval()
        if self.closed_form is not None:
            extended.closed_form = self.closed_form.extended(
                growth.merged, growth.shares
            )
        return extended

    def _arrays(self) -> Arrays:
        arrays = to_arrays(self.net.state_dict())
        if self.cold_items is not None:
            arrays |= self.cold_items.arrays()
        if self.closed_form is not None:
            arrays |= self.closed_form.arrays()
        return arrays

    def _restore(self, arrays: Arrays) -> None:
        where = f"the saved {self.name}"
        cold_items = ColdItems.taken_from(arrays, self.train.n_items)
        self.closed_form = ClosedFormPart.taken_from(arrays, self.train, self.config)
        # Settings that do not go with the arrays are refused before anything is allocated.
        without_memory = build_on_meta(self.build, self.train, self.config.dim)
        if without_memory is not None:
            check_tensors(without_memory, arrays, where)
        context = BuildContext(self.train, self.config.dim)
        self._build(context, seed=0)
        adopt_tensors(self.net, arrays, where)
        self.cold_items = cold_items
        self.net.eval()
