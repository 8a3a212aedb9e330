"""`Recommender`: the one interface of every model, classical or neural.

A model implements `_fit` and `score`; optionally `score_histories` for users it was not fitted on
and `retrieve` where it has a cheap first stage. What it learns is declared as `FittedArray`.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leporid.arguments import checks_arguments, takes_exclude_seen
from leporid.config import Config, JsonValue, SearchSpace
from leporid.data import IdMap, Interactions, Sequences, Split
from leporid.embeddings import InitialEmbeddings
from leporid.errors import (
    ConfigError,
    DataError,
    NotFittedError,
    UnknownNameError,
    article,
    warn,
)
from leporid.models import persistence as saved
from leporid.models import registry as catalogue
from leporid.models.context import FitContext
from leporid.models.history import TrainingHistory
from leporid.models.item_vectors import vectors_of
from leporid.progress import Progress, ProgressLike
from leporid.ranking import (
    Allowed,
    BoundRules,
    Catalogue,
    ExtensionUnsupportedError,
    HistoryUnsupportedError,
    Ids,
    Indices,
    ItemNeighbours,
    Lists,
    Scores,
    TopK,
    VectorsUnsupportedError,
    allowed_items,
    check_list,
    check_n,
    history_indices,
    id_indices,
    is_id,
    list_frames,
    list_schema,
    padded_lists,
    rank_in_chunks,
)

if TYPE_CHECKING:
    import torch

T = TypeVar("T")


def kinds_of(train: Interactions) -> list[str]:
    """The kinds of log that `general` tells apart (docs/models.md), the general ones first."""
    n, users, ordered = len(train), train.n_users, train.time is not None
    kinds = {
        "short histories": n < 25 * users,
        "small": n < 50_000,
        "large": n >= 200_000,
        "large with long histories in order": n >= max(200_000, 50 * users) and ordered,
        "large without order": n >= 200_000 and not ordered,
    }
    return [kind for kind, belongs in kinds.items() if belongs]


class Recommender(abc.ABC):
    """Base class of all models. Scores are float32, higher is better.

    In all `recommend*`, `only` names the items that may be recommended, `exclude` those that may
    not, and `include_seen` says whether lists may show what a user has already; None does as the
    model was fitted (`train(..., include_seen=True)`). What a user dislikes is hidden in any case.
    `rules` are `Rules.bind(model.catalogue(items))`. An unknown id is an `UnknownIdError`; in a
    history it is left out and counted in a `LeporidWarning`.
    """

    name: ClassVar[str]
    """The registry name."""
    config_class: ClassVar[type[Config]]
    takes_initial_vectors: ClassVar[bool] = False
    """Whether the model has embedding tables that an initialiser can fill."""
    combines: ClassVar[bool] = False
    """Whether the model is made of other models."""
    uses_weights: ClassVar[bool] = False
    """Whether the model learns from the weights of interactions; one that does not says so."""
    reads_history: ClassVar[bool] = False
    """Whether `score` reads `history`; otherwise the scores rest on the training part alone."""
    search_space: ClassVar[SearchSpace] = {}
    """What `leporid.tune` may try, by setting."""
    reason_kind: ClassVar[str] = "nearest by shared users"
    """What the reasons of `explain` are; `reason_value` names their number."""
    reason_value: ClassVar[str] = "similarity"
    recipes: ClassVar[dict[str, dict[str, Any]]] = {}
    """Named settings, chosen with `recipe=`."""
    general_by_kind: ClassVar[dict[str, dict[str, Any]]] = {}
    """What the recipe `general` changes for a kind of log (`kinds_of`)."""

    def __init__(self, config: Config | None = None, **settings: Any) -> None:
        if config is None:
            config = self.config_class.from_dict(settings)
        elif settings:
            config = config.replace(**settings)
        if not isinstance(config, self.config_class):
            raise ConfigError(
                f"{self.name} takes {article(self.config_class.__name__)}, not {config!r}"
            )
        self.history: TrainingHistory | None = None
        """Loss and validation over the steps of a training; None for closed-form models."""
        self.summary: dict[str, JsonValue] = {}
        """What a training found out besides its history, for the record."""
        self.config = self.asked = config
        """`config` is what was asked for, with "auto" replaced by what a fit has found."""
        self._known: Interactions | None = None
        self._train: Interactions | None = None
        self.fitting = saved.Fitting()
        self.validated: Recommender | None = (
            None  # by train(..., final=True): what to evaluate
        )

    def __repr__(self) -> str:
        state = "not fitted"
        if self._known is not None:
            state = f"fitted on {len(self.users):,} users, {len(self.items):,} items"
        parts = filter(None, [self.asked.changed_words(), state])
        return f"{type(self).__name__}({'; '.join(parts)})"

    @classmethod
    def recipe_settings(
        cls, recipe: str | None, train: Interactions | None = None
    ) -> dict[str, Any]:
        """The settings of a named recipe, fitted to the training part; none for None."""
        if recipe is not None and recipe not in cls.recipes:
            if not cls.recipes:
                raise ConfigError(f"{cls.name} has no recipes: leave `recipe` out")
            raise UnknownNameError(f"recipe of {cls.name}", recipe, cls.recipes)
        settings = {} if recipe is None else dict(cls.recipes[recipe])
        if recipe == "general" and train is not None:
            for kind in kinds_of(train):
                settings |= cls.general_by_kind.get(kind, {})
            if settings.get("dim", 0) > min(train.n_users, train.n_items):
                del settings["dim"]  # small graphs have no more eigenvectors
        return settings

    @abc.abstractmethod
    def _fit(self, split: Split, seed: int, context: FitContext) -> None:
        """Learn from `split.train` (and select on `split.valid`, never on `split.test`)."""

    def _finish(  # noqa: B027 (most models have nothing to do here)
        self, split: Split, seed: int, context: FitContext
    ) -> None:
        """Do what needs a model that can score already, at the end of a fit."""

    @abc.abstractmethod
    def score(self, users: Indices, history: Sequences | None = None) -> Scores:
        """float32[len(users), n_items] scores of every item for user indices; nothing is masked.

        `history` is what is known of all users at that moment, in time order; None means
        everything the model was fitted with (train and validation).
        """

    def score_histories(self, histories: Sequence[Indices]) -> Scores:
        """float32[len(histories), n_items] scores for new users, from item indices."""
        raise HistoryUnsupportedError(self.name)

    @classmethod
    def supports_new_users(cls) -> bool:
        """Whether `recommend_history` has an answer."""
        return cls.score_histories is not Recommender.score_histories

    def retrieve(
        self,
        users: Indices | None,
        n: int,
        candidates: int,
        *,
        histories: Sequences | None = None,
        hidden: Sequences,
    ) -> TopK | None:
        """The best `n` items by a cheap first stage that keeps only `candidates` of them.

        None where there is no such stage, or where it would not be cheaper. With `users=None` the
        `histories` are those of new users. `hidden` has one row per user: items not to return.
        """
        return None

    def item_vectors(self) -> Scores:
        """float32[n_items, width]: their products with a user's vector rank as the scores do."""
        raise VectorsUnsupportedError(self.name)

    def user_vectors(
        self, histories: Sequences, users: Indices | None = None
    ) -> Scores:
        """float32[len(histories), width] of these users, or with None of new users."""
        raise VectorsUnsupportedError(self.name)

    @property
    def vectors_rank(self) -> Literal["everything", "first stage"]:
        """Whether products of the vectors are all there is to a score."""
        return "everything"

    def fit(
        self,
        split: Split,
        *,
        seed: int = 0,
        init: InitialEmbeddings | None = None,
        device: str | torch.device | None = None,
        progress: Progress = None,
        context: FitContext | None = None,
    ) -> Self:
        """Fit on the training part and return the model; a second call starts afresh.

        `init`, `device` and `progress` are those of the `context`, which also holds what is needed
        more rarely: checkpoints, callbacks, feature tables, a warm start.
        """
        context = FitContext.of(context, init=init, device=device, progress=progress)
        self._begin(split, context)
        self._fit(split, seed, context)
        self._known = split.train_valid
        self.fitting = self.fitting.replace(seed=seed)
        self._finish(split, seed, context)
        return self

    def refit(
        self,
        data: Interactions | Split,
        *,
        init: InitialEmbeddings | Recommender | None = None,
        device: str | torch.device | None = None,
        progress: Progress = None,
        context: FitContext | None = None,
    ) -> Self:
        """Return a new model to deploy: the same settings, fitted on everything in `data`.

        A neural model stops at the step whose weights validation kept. Its initial embeddings are
        computed again, or are those of `init`. With a fitted model as `init` it goes on from that
        model's weights, for the last half of the steps: vectors keep their coordinates, and lists
        change little.
        """
        self._if_fitted(self._known)
        context = FitContext.of(context, device=device, progress=progress)
        everything = saved.everything(data)
        whole = replace(everything, include_seen=self.fitting.include_seen)
        refitted = self._refit(whole, init, context)
        refitted.fitting = refitted.fitting.replace(final=True)
        return refitted

    def _refit(
        self,
        whole: Split,
        init: InitialEmbeddings | Recommender | None,
        context: FitContext,
    ) -> Self:
        """Fit a new model with the same settings on a split that holds nothing out."""
        model = type(self)(self.config)
        return model.fit(whole, seed=self.fitting.seed, context=context)

    def _begin(self, split: Split, context: FitContext) -> None:
        """Check the split and the context, and forget what was learnt before."""
        if not isinstance(split, Split):
            kind = type(split).__name__
            raise DataError(
                f"fit takes a Split, not {kind}: use leporid.temporal_split(data)"
            )
        if len(split.train) == 0:
            raise DataError(
                "the training part of the split is empty: nothing to fit on"
            )
        if context.init is not None and not self.takes_initial_vectors:
            raise ConfigError(
                f"{self.name} has no embedding tables to fill: leave `init` out"
            )
        ignores = not (
            self.uses_weights or self.combines or split.protocol == "everything"
        )
        if (
            ignores and split.train.has_weights
        ):  # a final fit comes after one that has said so
            text = "cannot use weights: every interaction counts the same (see `leporid models`)"
            warn(f"{self.name} {text}", 4)
        self.config, self._known, self._train = self.asked, None, split.train
        self.fitting = saved.Fitting(include_seen=split.include_seen)

    @property
    def known(self) -> Interactions:
        """Train and validation interactions of the fit: seen items, and recent history."""
        return self._if_fitted(self._known)

    @property
    def train(self) -> Interactions:
        return self._if_fitted(self._train)

    @property
    def users(self) -> IdMap:
        return self.known.users

    @property
    def items(self) -> IdMap:
        return self.known.items

    @property
    def device_name(self) -> str:
        """Name of the processor or accelerator that the model computes on."""
        return "cpu"

    def training_summary(self) -> dict[str, Any]:
        """Return what a record keeps of a training; nothing for closed-form models."""
        return {}

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._arrays().values())

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
        """A new model with rows for new users and items; only neural models have such rows."""
        raise ExtensionUnsupportedError(self.name)

    def _if_fitted(self, value: T | None) -> T:
        if value is None:
            raise NotFittedError(
                f"{self.name} is not fitted yet: call fit(split) first"
            )
        return value

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Everything learnt, as named arrays: what is declared as `FittedArray`."""
        return saved.arrays_of(self)

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """The inverse of `_arrays`; `known` and `train` are set already."""
        sizes = {
            **vars(self.config),
            "users": self.train.n_users,
            "items": self.train.n_items,
        }
        saved.restore(self, arrays, sizes)

    @checks_arguments()
    def save(self, path: str | Path) -> Path:
        """Write the directory `path`, which is replaced as a whole; a crash leaves the old one."""
        config, fitting = self.config.to_dict(), self.fitting.to_dict()
        about = {"model": self.name, "config": config, "fitting": fitting}
        return saved.write_saved(path, about, self._arrays(), self.known, self.train)

    @classmethod
    @checks_arguments()
    def load(cls, path: str | Path, *, mapped: bool = False) -> Self:
        """Read what `save` wrote, or the model to deploy of a run's folder.

        A folder of `leporid train -o` or `leporid choose -o` will do: its final model where there
        is one. Called on `Recommender`, it finds the class by name. With `mapped` the weights stay
        in the file and are paged in when used.
        """
        path = saved.model_folder(path)
        about, learnt, known, train = saved.read_saved(path, mapped=mapped)
        name, actual = about["model"], catalogue.get(about["model"])
        if not issubclass(actual, cls):
            raise DataError(
                f"{path} holds {article(name)} model, not {article(cls.__name__)}"
            )
        model: Self = actual(actual.config_class.from_dict(about.get("config", {})))
        model.fitting = saved.Fitting.from_dict(about.get("fitting", {}))
        model._known, model._train = known, train
        try:
            model._restore(learnt)
            model._check_scores()
        except KeyError as error:
            raise DataError(f"the weights in {path} lack the array {error}") from None
        except DataError as error:
            raise DataError(f"{path} does not hold a sound {name}: {error}") from None
        return model

    def _check_scores(self) -> None:
        """Refuse weights and settings that are sound one by one but overflow together.

        The user with the most interactions is scored, since a history leads through all layers.
        """
        if not len(self.users) or not len(self.items):
            return
        user = int(np.bincount(self.known.user, minlength=len(self.users)).argmax())
        with np.errstate(all="ignore"):
            scores = self.score(np.array([user], np.int32))
        if not (scores < np.inf).all():
            raise DataError("its scores are NaN or infinite, train it again")

    @takes_exclude_seen
    @checks_arguments()
    def recommend(
        self,
        users: Any,
        n: int = 10,
        *,
        include_seen: bool | None = None,
        only: Ids = None,
        exclude: Ids = None,
        rules: BoundRules | None = None,
    ) -> Lists:
        """The best `n` items for known users, by external id.

        Returns `(items, scores)`, of shape [n] for one id and [m, n] for several; where fewer than
        n items remain, None and -inf fill the row.
        """
        index = id_indices(self.users, users)
        allowed = allowed_items(self.items, only, exclude, rules)
        return self._external(
            self._top_k(index, n, include_seen, allowed), is_id(users)
        )

    @takes_exclude_seen
    @checks_arguments()
    def recommend_history(
        self,
        histories: Sequence[Any],
        n: int = 10,
        *,
        include_seen: bool | None = None,
        only: Ids = None,
        exclude: Ids = None,
        rules: BoundRules | None = None,
    ) -> Lists:
        """The best `n` items for new users, from lists of item ids in time order, or one list.

        A history of which the model knows no item is an `UnknownIdError`.
        """
        check_list(histories)
        asked = list(histories)
        single = len(asked) > 0 and is_id(asked[0])
        asked = [asked] if single else asked
        rows = history_indices(self.items, asked, self.name)
        allowed = allowed_items(self.items, only, exclude, rules)
        seen = None if self.shows(include_seen) else Sequences.from_rows(rows)
        shape = len(rows), n, self.known.n_items
        top = rank_in_chunks(
            lambda part: self.score_histories(rows[part]), *shape, seen, allowed
        )
        return self._external(top, single)

    @takes_exclude_seen
    @checks_arguments()
    def recommend_frame(
        self,
        users: Any = None,
        n: int = 10,
        *,
        include_seen: bool | None = None,
        only: Ids = None,
        exclude: Ids = None,
        rules: BoundRules | None = None,
        progress: Progress = None,
    ) -> pa.Table:
        """The lists of many users (None: of all) as a table: `user`, `rank`, `item`, `score`."""
        allowed = allowed_items(self.items, only, exclude, rules)
        parts = list_frames(self, users, n, include_seen, allowed, progress)
        return pa.concat_tables(
            [list_schema(self.users, self.items).empty_table(), *parts]
        )

    @checks_arguments()
    def similar_items(self, items: Any, n: int = 10) -> Lists:
        """The `n` items most like an item, or like each of several, by the users they share.

        The similarity is the Jaccard index of the two sets of users, whatever the model. Shaped
        as in `recommend`.
        """
        check_n(n)
        single = is_id(items)
        index = id_indices(self.items, items)
        near = ItemNeighbours(self.known, n, index.tolist())
        found = [near.similar(int(item), n) for item in index]
        return self._external(padded_lists(found, n), single)

    @checks_arguments()
    def explain(self, user: Any, item: Any, n: int = 3) -> Lists:
        """Why an item: at most `n` items of a user, the strongest reason first, by `reason_kind`.

        `user` is an id, or a history as a list of item ids.
        """
        check_n(n)
        if is_id(user):
            history = self.known.sequences().take(np.asarray([self.users.index(user)]))
        else:
            history = Sequences.from_rows(
                history_indices(self.items, [user], self.name)
            )
        [found] = self.reasons(
            history, np.asarray([self.items.index(item)], np.int32), n
        )
        return self._external(padded_lists([found], len(found)), True)

    def reasons(
        self,
        history: Sequences,
        items: Indices,
        n: int = 3,
        near: ItemNeighbours | None = None,
    ) -> list[list[tuple[int, float]]]:
        """`explain` of distinct items on indices; `near` saves the search for neighbours."""
        past = history.of(0)
        near = near or ItemNeighbours(
            self.known, items=[*items.tolist(), *past.tolist()]
        )
        return near.reasons_for(items, past, n)

    def catalogue(self, items: Any = None) -> Catalogue:
        """What rules are bound to: an item table, as `ItemTable.load` takes it, and vectors."""
        return Catalogue(self.known, items, lambda: vectors_of(self))

    @takes_exclude_seen
    def top_k(
        self, users: Indices, n: int, *, include_seen: bool | None = None, only: Ids = None,
        exclude: Ids = None,
    ) -> TopK:  # fmt: skip
        """`recommend` on user indices, returning item indices."""
        users, allowed = (
            self._check_users(users),
            allowed_items(self.items, only, exclude),
        )
        return self._top_k(users, n, include_seen, allowed)

    def shows(self, include_seen: bool | None) -> bool:
        """Whether lists may show what a user already has; None does as the model was fitted."""
        return self.fitting.include_seen if include_seen is None else include_seen

    def _top_k(
        self, users: Indices, n: int, include_seen: bool | None, allowed: Allowed
    ) -> TopK:
        seen = self.known.hidden(self.shows(include_seen)).take(users)
        shape = len(users), n, self.known.n_items
        return rank_in_chunks(
            lambda part: self.score(users[part]), *shape, seen, allowed
        )

    def _check_users(self, users: Any) -> Indices:
        return self.train.users.checked(users)

    def _external(self, top: TopK, single: bool) -> Lists:
        items = self.items.externals(top.items)
        return (items[0], top.scores[0]) if single else (items, top.scores)
