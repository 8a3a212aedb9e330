"""`Recommender`: the one interface of every model, classical or neural.

A model implements `_fit` and `score`; optionally `score_histories` for users it was not fitted on
and `retrieve` where it has a cheap first stage. What it learns is declared as `FittedArray`.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leporid.data import (
    Frame,
    IdMap,
    Interactions,
    Sequences,
    Split,
    frame_like,
    is_frame,
)
from leporid.embeddings import InitialEmbeddings
from leporid.errors import (
    ConfigError,
    DataError,
    NotFittedError,
    UnknownIdError,
    article,
    warn,
)
from leporid.foundation import (
    Config,
    JsonValue,
    Progress,
    ProgressLike,
    SearchSpace,
    SettingValue,
    checks_arguments,
    described,
    from_mapping,
)
from leporid.models import registry
from leporid.models.context import FitContext
from leporid.models.final_split import everything
from leporid.models.fitted_arrays import Arrays, arrays_of, restore_arrays
from leporid.models.fitting import Fitting
from leporid.models.history import TrainingHistory
from leporid.models.item_vectors import vectors_of
from leporid.models.recipes import Settings, adapted_to, recipe_settings
from leporid.models.saved_models import (
    SavedModel,
    model_folder,
    read_saved,
    write_saved,
)
from leporid.ranking import (
    Allowed,
    AskedUsers,
    BoundRules,
    ExtensionUnsupportedError,
    HistoryUnsupportedError,
    Ids,
    Indices,
    ItemColumns,
    ItemListsUnsupportedError,
    ItemNeighbours,
    Lists,
    Scores,
    TopK,
    Unknown,
    UnknownPair,
    VectorsUnsupportedError,
    allowed_items,
    asked_users,
    check_list,
    check_n,
    history_indices,
    id_indices,
    is_id,
    item_list_schema,
    list_frames,
    list_schema,
    most_similar,
    padded_lists,
    rank_asked,
    rank_in_chunks,
    rank_users,
    score_frame,
)

if TYPE_CHECKING:
    import torch

T = TypeVar("T")


class Recommender(abc.ABC):
    """Base class of all models. Scores are float32, higher is better.

    In all `recommend*`, `only` names the items that may be recommended, `exclude` those that may
    not: ids for everybody, a list of ids for each user (of any lengths, None is padding), or a
    frame with columns of users and items. `include_seen` says whether lists may show what a user
    has already; None does as the model was fitted (`train(..., include_seen=True)`). What a user
    dislikes is always excluded. `rules` are `Rules.bind(model.item_columns(items))`.

    `unknown` says what becomes of a user whom the model does not know, and of a history without
    items that it knows: "error" raises an `UnknownIdError`, "skip" gives no list, "popular" gives
    the items with most interactions, whose number is the score. The last two count them in a
    `LeporidWarning`, and leave unknown items of `only` and `exclude` out. So are unknown items of
    a history in any case.
    """

    name: ClassVar[str]
    """The registry name."""
    config_class: ClassVar[type[Config]]
    """The class of the model's settings."""
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
    """What the number of a reason of `explain` is."""
    recipes: ClassVar[dict[str, Settings]] = {}
    """Named settings, chosen with `recipe=`."""
    general_by_kind: ClassVar[dict[str, Settings]] = {}
    """What the recipe `general` changes for a kind of data (`kinds_of`)."""

    def __init__(
        self,
        config: Config | None = None,
        **settings: SettingValue,
    ) -> None:
        if config is None:
            config = self.config_class.from_dict(settings)
        elif settings:
            config = config.replace(**settings)
        if not isinstance(config, self.config_class):
            raise ConfigError(
                f"{self.name} takes {article(self.config_class.__name__)}, not {config!r}"
            )
        self.requested = config
        """The settings that were asked for."""
        self.config = config
        """The settings that were asked for, with "auto" replaced by what a fit has found."""
        self.fitting = Fitting()
        """How the model was fitted."""
        self.history: TrainingHistory | None = None
        """Loss and validation over the steps of a training; None for closed-form models."""
        self.summary: dict[str, JsonValue] = {}
        """What a training found out besides its history, for the record."""
        self.validated: Recommender | None = None
        """The model to evaluate, if this one is the final model of `train(..., final=True)`."""
        self._known: Interactions | None = None
        self._train: Interactions | None = None

    def __repr__(self) -> str:
        state = "not fitted"
        if self._known is not None:
            state = f"fitted on {len(self.users):,} users, {len(self.items):,} items"
        changed = self.requested.changed_words()
        words = f"{changed}; {state}" if changed else state
        return f"{type(self).__name__}({words})"

    # What a model implements.

    @abc.abstractmethod
    def _fit(self, split: Split, seed: int, context: FitContext) -> None:
        """Learn from `split.train` (and select on `split.valid`, never on `split.test`)."""

    @abc.abstractmethod
    def score(self, users: Indices, history: Sequences | None = None) -> Scores:
        """Return float32[len(users), n_items]: scores of every item; nothing is masked.

        `history` is what is known of all users at that moment, in time order; None means
        everything the model was fitted with (train and validation).
        """

    def score_histories(self, histories: Sequence[Indices]) -> Scores:
        """Return float32[len(histories), n_items]: scores for new users, from item indices."""
        raise HistoryUnsupportedError(self.name)

    @classmethod
    def supports_new_users(cls) -> bool:
        """Tell whether `recommend_history` has an answer."""
        return cls.score_histories is not Recommender.score_histories

    def retrieve(
        self,
        users: Indices | None,
        n: int,
        candidates: int,
        *,
        histories: Sequences | None = None,
        excluded: Sequences,
    ) -> TopK | None:
        """Return the best `n` items by a cheap first stage that keeps only `candidates` of them.

        None where there is no such stage, or where it would not be cheaper. With `users=None` the
        `histories` are those of new users. `excluded` has one row per user: items not to return.
        """
        return None

    def item_vectors(self) -> Scores:
        """Return float32[n_items, width]: products with a user's vector rank as the scores do."""
        raise VectorsUnsupportedError(self.name)

    def user_vectors(
        self,
        histories: Sequences,
        users: Indices | None = None,
    ) -> Scores:
        """Return float32[len(histories), width] of these users, or with None of new users."""
        raise VectorsUnsupportedError(self.name)

    @property
    def vectors_rank(self) -> Literal["everything", "first stage"]:
        """Whether products of the vectors are all there is to a score."""
        return "everything"

    def extend(
        self,
        items: object = None,
        interactions: object = None,
        *,
        columns: tuple[str, ...] = (),
        length: float | None = None,
        cold_item_share: float | None = None,
        steps: int = 0,
        progress: bool | ProgressLike | None = None,
    ) -> Self:
        """Return a new model with rows for new users and items; only neural models have such."""
        raise ExtensionUnsupportedError(self.name)

    def item_list_frames(self, n: int) -> Iterator[pa.Table]:
        """Yield the rows of `item_lists` in parts."""
        raise ItemListsUnsupportedError(self.name)

    def training_summary(self) -> dict[str, JsonValue]:
        """Return what a record keeps of a training; nothing for closed-form models."""
        return {}

    @property
    def device_name(self) -> str:
        """Name of the processor or accelerator that the model computes on."""
        return "cpu"

    # What callers use.

    @classmethod
    def recipe_settings(
        cls,
        recipe: str | None,
        train: Interactions | None = None,
    ) -> Settings:
        """Return the settings of a named recipe, fitted to the training part; none for None."""
        settings = recipe_settings(recipe, cls.recipes, cls.name)
        if recipe == "general" and train is not None:
            settings = adapted_to(train, settings, cls.general_by_kind)
        return settings

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
        self.fitting = replace(self.fitting, seed=seed)
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
        final_split = replace(
            everything(data),
            include_seen=self.fitting.include_seen,
        )
        refitted = self._refit(final_split, init, context)
        refitted.fitting = replace(refitted.fitting, final=True)
        return refitted

    @checks_arguments()
    def recommend(
        self,
        users: object,
        n: int = 10,
        *,
        unknown: Unknown = "error",
        include_seen: bool | None = None,
        only: Ids = None,
        exclude: Ids = None,
        rules: BoundRules | None = None,
    ) -> Lists:
        """Return the best `n` items for known users, by external id.

        Returns `(items, scores)`, of shape [n] for one id and [m, n] for several; where fewer than
        n items remain, None and -inf fill the row. `recommend_frame` takes and returns frames.
        """
        if users is None or is_frame(users):
            raise DataError(
                f"recommend takes one user id or a list of user ids, not {described(users)}: "
                f"recommend_frame takes frames, and None for all users"
            )
        is_single = is_id(users)
        asked = asked_users(
            self.users, [users] if is_single else users, unknown, self.name
        )
        allowed = allowed_items(self.users, self.items, asked, only, exclude, rules)
        top = rank_users(self, asked, n, include_seen, allowed)
        return self._external(top, is_single)

    @checks_arguments()
    def recommend_history(
        self,
        histories: Sequence[Any],
        n: int = 10,
        *,
        unknown: Unknown = "error",
        include_seen: bool | None = None,
        only: Ids = None,
        exclude: Ids = None,
        rules: BoundRules | None = None,
    ) -> Lists:
        """Return the best `n` items for new users, from lists of item ids in time order, or one.

        Shaped as in `recommend`. With `unknown="popular"`, an empty history gets popular items.
        """
        check_list(histories)
        histories = list(histories)
        is_single = len(histories) > 0 and is_id(histories[0])
        if is_single:
            histories = [histories]
        rows = history_indices(self.items, histories, self.name, unknown)
        asked = AskedUsers.of_histories(
            np.array([len(r) > 0 for r in rows], bool), unknown
        )
        asked.warn_of_unknown(f"histories have no item that {self.name} knows", 3)
        allowed = allowed_items(self.users, self.items, asked, only, exclude, rules)
        seen = Sequences.from_rows(rows)

        def rank(places: NDArray[np.integer]) -> TopK:
            known = [rows[place] for place in places]
            return rank_in_chunks(
                lambda part: self.score_histories(known[part]),
                count=len(known),
                n=n,
                n_items=self.known.n_items,
                seen=None if self.shows(include_seen) else seen.take(places),
                allowed=None if allowed is None else allowed.take(places),
            )

        top = rank_asked(asked, rank, n, self.known, allowed)
        return self._external(top, is_single)

    @checks_arguments()
    def recommend_frame(
        self,
        users: object = None,
        n: int = 10,
        *,
        unknown: Unknown = "error",
        include_seen: bool | None = None,
        only: Ids = None,
        exclude: Ids = None,
        rules: BoundRules | None = None,
        progress: Progress = None,
    ) -> Frame:
        """Return lists of many users (None: of all) as a frame: `user`, `rank`, `item`, `score`.

        `users` are ids, or a frame with a column of users, each of whom counts once. A pandas or
        polars frame or series gives such a frame; all else a pyarrow table. Nothing is padded: a
        user with fewer than `n` items has fewer rows.
        """
        if is_id(users):
            users = [users]
        asked = asked_users(self.users, users, unknown, self.name).distinct()
        allowed = allowed_items(self.users, self.items, asked, only, exclude, rules)
        names = asked.names(self.users)
        frames = list_frames(self, asked, names, n, include_seen, allowed, progress)
        no_lists = list_schema(names, self.items).empty_table()
        return frame_like(users, pa.concat_tables([no_lists, *frames]))

    @checks_arguments()
    def score_pairs(
        self,
        pairs: object,
        *,
        user: str | None = None,
        item: str | None = None,
        unknown: UnknownPair = "error",
    ) -> Frame:
        """Return a frame of users and items with one more column, the `score` of each pair.

        Rows, columns and their order stay, in a pandas or polars frame; all else gives a pyarrow
        table. `user` and `item` name the columns if their names are unusual. With
        `unknown="skip"`, the score of a pair is missing where the model does not know the user or
        the item; a warning counts them. To rank candidates of each user, give them to
        `recommend_frame` as `only`.
        """
        roles = {"user": user, "item": item}
        return score_frame(self.score, self.users, self.items, pairs, roles, unknown)

    @checks_arguments()
    def top_k(
        self,
        users: Indices,
        n: int,
        *,
        include_seen: bool | None = None,
        only: Ids = None,
        exclude: Ids = None,
    ) -> TopK:
        """Return what `recommend` does, as item indices for user indices."""
        users = self._check_users(users)
        asked = AskedUsers.by_index(users)
        allowed = allowed_items(self.users, self.items, asked, only, exclude)
        return self._top_k(users, n, include_seen, allowed)

    @checks_arguments()
    def similar_items(self, items: object, n: int = 10) -> Lists:
        """Return the `n` items most like an item, or like each of several, by the users they share.

        The similarity is the Jaccard index of the two sets of users, whatever the model. Shaped
        as in `recommend`.
        """
        check_n(n)
        indices = id_indices(self.items, items)
        top = most_similar(self.known.csr().T.tocsr(), indices, n)
        return self._external(top, is_id(items))

    @checks_arguments()
    def similar_users(self, users: object, n: int = 10) -> Lists:
        """Return the `n` users most like a user, or like each of several, by the items they share.

        The similarity is the Jaccard index of the two sets of items, whatever the model. Shaped
        as in `recommend`.
        """
        check_n(n)
        indices = id_indices(self.users, users)
        top = most_similar(self.known.csr(), indices, n)
        similar = self.users.externals(top.items)
        return (similar[0], top.scores[0]) if is_id(users) else (similar, top.scores)

    @checks_arguments()
    def item_lists(self, n: int = 10) -> pa.Table:
        """Return a table of the `n` items that each item speaks for most.

        Its columns are `item`, `rank`, `other_item` and `score`, the model's own weight between the
        two: for `transitions`, the smoothed count of what users had next. Only weights above 0 are
        listed. Models without such weights raise `ItemListsUnsupportedError`.
        """
        frames = self.item_list_frames(n)
        no_lists = item_list_schema(self.items).empty_table()
        return pa.concat_tables([no_lists, *frames])

    @checks_arguments()
    def explain(self, user: Any, item: Any, n: int = 3) -> Lists:
        """Say why an item: at most `n` items of a user, the strongest reason first.

        `user` is an id, or a history as a list of item ids. `reason_kind` says what the reasons
        are.
        """
        check_n(n)
        if is_id(user):
            index = self.users.index(user)
            history = self.known.sequences().take(np.asarray([index]))
        else:
            rows = history_indices(self.items, [user], self.name)
            history = Sequences.from_rows(rows)
        items = np.asarray([self.items.index(item)], np.int32)
        [reasons] = self.reasons(history, items, n)
        return self._external(padded_lists([reasons], len(reasons)), True)

    def reasons(
        self,
        history: Sequences,
        items: Indices,
        n: int = 3,
        near: ItemNeighbours | None = None,
    ) -> list[list[tuple[int, float]]]:
        """Return what `explain` does, as indices; `near` saves the search for neighbours."""
        past = history.of(0)
        if near is None:
            near = ItemNeighbours(self.known, items=[*items.tolist(), *past.tolist()])
        return near.reasons_for(items, past, n)

    def item_columns(self, items: object = None) -> ItemColumns:
        """Return what rules are bound to: vectors, and a table as `ItemTable.load` takes it."""
        return ItemColumns(self.known, items, lambda: vectors_of(self))

    @checks_arguments()
    def save(self, path: str | Path) -> Path:
        """Write the directory `path`, which is replaced as a whole; a crash leaves the old one."""
        saved = SavedModel(
            name=self.name,
            config=self.config.to_dict(),
            fitting=asdict(self.fitting),
            learnt=self._arrays(),
            known=self.known,
            train=self.train,
        )
        return write_saved(path, saved)

    @classmethod
    @checks_arguments()
    def load(cls, path: str | Path, *, mapped: bool = False) -> Self:
        """Read what `save` wrote, or the model to deploy of a run's folder.

        A folder of `leporid train -o` or `leporid choose -o` will do: its final model where there
        is one. Called on `Recommender`, it finds the class by name. With `mapped` the weights stay
        in the file and are paged in when used.
        """
        path = model_folder(path)
        saved = read_saved(path, mapped=mapped)
        name = saved.name
        model_class = registry.get(name)
        if not issubclass(model_class, cls):
            raise DataError(
                f"{path} holds {article(name)} model, not {article(cls.__name__)}"
            )
        config = model_class.config_class.from_dict(saved.config)
        model: Self = model_class(config)
        model.fitting = from_mapping(Fitting, saved.fitting)
        model._known = saved.known
        model._train = saved.train
        try:
            model._restore(saved.learnt)
            model._check_scores()
        except KeyError as error:
            raise DataError(f"the weights in {path} lack the array {error}") from None
        except DataError as error:
            raise DataError(f"{path} does not hold a sound {name}: {error}") from None
        return model

    @property
    def known(self) -> Interactions:
        """Train and validation interactions of the fit: seen items, and recent history."""
        return self._if_fitted(self._known)

    @property
    def train(self) -> Interactions:
        """Interactions of the training part."""
        return self._if_fitted(self._train)

    @property
    def users(self) -> IdMap:
        """Ids of the users."""
        return self.known.users

    @property
    def items(self) -> IdMap:
        """Ids of the items."""
        return self.known.items

    @property
    def nbytes(self) -> int:
        """Size of everything learnt, in bytes."""
        return sum(array.nbytes for array in self._arrays().values())

    def shows(self, include_seen: bool | None) -> bool:
        """Tell whether lists may show what a user has; None does as the model was fitted."""
        return self.fitting.include_seen if include_seen is None else include_seen

    # What the methods above share, and what some models override.

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
        # A final fit comes after one that has said so.
        is_final = split.protocol == "everything"
        uses_weights = self.uses_weights or self.combines
        has_weights = split.train.weight is not None and split.train.has_weights
        if has_weights and not uses_weights and not is_final:
            warn(
                f"{self.name} cannot use weights: every interaction counts the same "
                f"(see `leporid models`)",
                4,
            )
        self.config = self.requested
        self.fitting = Fitting(include_seen=split.include_seen)
        self._known = None
        self._train = split.train

    def _finish(  # noqa: B027 (most models have nothing to do here)
        self,
        split: Split,
        seed: int,
        context: FitContext,
    ) -> None:
        """Do what needs a model that can score already, at the end of a fit."""

    def _refit(
        self,
        full_split: Split,
        init: InitialEmbeddings | Recommender | None,
        context: FitContext,
    ) -> Self:
        """Fit a new model with the same settings on a split that holds nothing out."""
        model = type(self)(self.config)
        return model.fit(full_split, seed=self.fitting.seed, context=context)

    def _top_k(
        self,
        users: Indices,
        n: int,
        include_seen: bool | None,
        allowed: Allowed | None,
    ) -> TopK:
        """Return the best `n` allowed items for user indices."""
        excluded = self.known.excluded_items(self.shows(include_seen))
        return rank_in_chunks(
            lambda part: self.score(users[part]),
            count=len(users),
            n=n,
            n_items=self.known.n_items,
            seen=excluded.take(users),
            allowed=allowed,
        )

    def _arrays(self) -> Arrays:
        """Return everything learnt, as named arrays: what is declared as `FittedArray`."""
        return arrays_of(self)

    def _restore(self, arrays: Arrays) -> None:
        """Take over what `_arrays` returned; `known` and `train` are set already."""
        sizes = dict(vars(self.config))
        sizes["users"] = self.train.n_users
        sizes["items"] = self.train.n_items
        restore_arrays(self, arrays, sizes)

    def _check_scores(self) -> None:
        """Refuse weights and settings that are sound one by one but overflow together.

        The user with the most interactions is scored, since a history leads through all layers.
        """
        if not len(self.users) or not len(self.items):
            return
        n_interactions = np.bincount(self.known.user, minlength=len(self.users))
        user = int(n_interactions.argmax())
        with np.errstate(all="ignore"):
            scores = self.score(np.array([user], np.int32))
        if not (scores < np.inf).all():
            raise DataError("its scores are NaN or infinite, train it again")

    def _check_users(self, users: object) -> Indices:
        """Return user indices as int32[n]; those that do not exist are refused."""
        rows = np.atleast_1d(np.asarray(users))
        if rows.size and not np.issubdtype(rows.dtype, np.integer):
            raise UnknownIdError(
                f"user indices must be whole numbers, not {rows.dtype}"
            )
        n_users = self.train.n_users
        wrong = rows[(rows < 0) | (rows >= n_users)]
        if len(wrong):
            raise UnknownIdError(
                f"no user has the index {wrong[0]}: there are {n_users}"
            )
        return np.ascontiguousarray(rows, dtype=np.int32)

    def _if_fitted(self, value: T | None) -> T:
        """Return what a fit has set; a model that is not fitted is refused."""
        if value is None:
            raise NotFittedError(
                f"{self.name} is not fitted yet: call fit(split) first"
            )
        return value

    def _external(self, top: TopK, is_single: bool) -> Lists:
        """Return lists of external ids, or the only one of them."""
        items = self.items.externals(top.items)
        if is_single:
            return items[0], top.scores[0]
        return items, top.scores
