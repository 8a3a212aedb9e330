"""`Recommender`: the one interface of every model, classical or neural.

A model implements `_fit` and `score`; optionally `score_histories` for people it has never seen
and `retrieve` where it has a cheap first stage. What it learns is declared as `FittedArray`, or
comes from `_arrays` and goes back by `_restore`. What a model is asked is in `recommending`.
"""

from __future__ import annotations

import abc
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.artifacts import check_csr
from leporid.config import Config
from leporid.data import Interactions, Sequences, Split
from leporid.errors import (
    ConfigError,
    DataError,
    LeporidError,
    LeporidWarning,
    NotFittedError,
    UnknownIdError,
    UnknownNameError,
)
from leporid.evaluation import TopK
from leporid.models.shared import catalogue
from leporid.models.shared.log_kinds import kinds_of
from leporid.models.shared.recommending import Indices as Indices
from leporid.models.shared.recommending import Recommending
from leporid.models.shared.recommending import Scores as Scores
from leporid.models.shared.refitting import Fitting, refit
from leporid.models.shared.saved import Saved, read_saved, write_saved
from leporid.models.shared.sparse import canonical, csr_parts
from leporid.progress import ProgressLike, make_progress
from leporid.space import SearchSpace

T = TypeVar("T")


class HistoryUnsupportedError(LeporidError, TypeError):
    """This model cannot score people who were not in its training data."""

    def __init__(self, model: str) -> None:
        super().__init__(
            f"{model} cannot recommend from a history alone; "
            f"refit it with these people, or choose a model that can (dlr2, sasrec, itemknn)"
        )


class VectorsUnsupportedError(LeporidError, TypeError):
    """This model does not rank by dot products."""

    def __init__(self, model: str) -> None:
        super().__init__(
            f"{model} does not rank by the dot product of two vectors: serve it with "
            f"`leporid serve`, or choose a model that does (bpr, dgcf, hgn, ials, lightgcn, ngcf, "
            f"sasrec, or dlr2 with a trained G and its squared distance)"
        )


class FittedArray(Generic[T]):
    """What `fit` learns: an array or a square CSR matrix, which `save` writes under `key`.

    The key is by default the attribute's name. Reading it before `fit` is a `NotFittedError`.
    A saved model is refused where it is not float32 of the `shape`, such as `("users", "dim")`: a
    size is "users", "items", a setting, or None for any.
    """

    def __init__(
        self, key: str | None = None, *, shape: tuple[str | None, ...], sparse: bool = False
    ) -> None:
        self.key, self.shape, self.sparse = key or "", shape, sparse

    def __set_name__(self, owner: type, name: str) -> None:
        self.key, self._slot = self.key or name, f"_{name}"

    def __get__(self, model: Recommender, owner: type | None = None) -> T:
        model.known  # noqa: B018 (says "not fitted" where it is not)
        value: T = getattr(model, self._slot)
        return value

    def __set__(self, model: Recommender, value: T) -> None:
        setattr(model, self._slot, value)


class Recommender(Recommending):
    """Base class of all models. Scores are float32, higher is better."""

    name: ClassVar[str]
    """The registry name."""
    config_class: ClassVar[type[Config]]
    takes_initial_vectors: ClassVar[bool] = False
    """Whether the model has embedding tables that an initialiser can fill."""
    combines: ClassVar[bool] = False
    """Whether the model is made of other models."""
    uses_weights: ClassVar[bool] = False
    """Whether the model learns from the weights of interactions; one that does not says so."""
    sees: ClassVar[Literal["train and validation", "train only"]] = "train only"
    """Which items of a user its scores rest on when it is tested: all that are known, if `score`
    reads `history`. Records and tables say it."""
    search_space: ClassVar[SearchSpace] = {}
    """What `leporid.tune` may try, by setting."""
    recipes: ClassVar[dict[str, dict[str, Any]]] = {}
    """Named settings, chosen with `recipe=`."""
    general_by_kind: ClassVar[dict[str, dict[str, Any]]] = {}
    """What the recipe `general` changes for a kind of log (`log_kinds`)."""

    def __init__(self, config: Config | None = None, **settings: Any) -> None:
        if config is None:
            config = self.config_class.from_dict(settings)
        elif settings:
            config = config.replace(**settings)
        if not isinstance(config, self.config_class):
            raise ConfigError(f"{self.name} takes a {self.config_class.__name__}, not {config!r}")
        self.config = config
        self._known: Interactions | None = None
        self._train: Interactions | None = None
        self.fitting = Fitting()
        self.validated: Recommender | None = None  # by train(..., final=True): what to evaluate

    def __repr__(self) -> str:
        state = "not fitted"
        if self._known is not None:
            state = f"fitted on {len(self.users):,} users, {len(self.items):,} items"
        settings = self.config.changed_words()
        return f"{type(self).__name__}({settings}{'; ' if settings else ''}{state})"

    @classmethod
    def recipe_settings(
        cls, recipe: str | None, train: Interactions | None = None
    ) -> dict[str, Any]:
        """The settings of a named recipe, fitted to the training part; none for None."""
        if recipe is not None and not cls.recipes:
            raise ConfigError(f"{cls.name} has no recipes: leave `recipe` out")
        if recipe is not None and recipe not in cls.recipes:
            raise UnknownNameError(f"recipe of {cls.name}", recipe, cls.recipes)
        settings = {} if recipe is None else dict(cls.recipes[recipe])
        if recipe == "general" and train is not None:
            for kind in kinds_of(train):
                settings |= cls.general_by_kind.get(kind, {})
        return settings

    @abc.abstractmethod
    def _fit(self, split: Split, *, seed: int, progress: ProgressLike) -> None:
        """Learn from `split.train` (and select on `split.valid`, never on `split.test`)."""

    @abc.abstractmethod
    def score(self, users: Indices, history: Sequences | None = None) -> Scores:
        """float32[len(users), n_items] scores of every item for user indices.

        `history` is what is known of all users at that moment, in time order; None means
        everything the model was fitted with (train and validation). Models that see "train
        only" do not read it. Nothing is masked here.
        """

    def score_histories(self, histories: Sequence[Indices]) -> Scores:
        """float32[len(histories), n_items] scores for unseen people, from item indices."""
        raise HistoryUnsupportedError(self.name)

    @classmethod
    def answers_new_people(cls) -> bool:
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
        """The best `n` items where a cheap first stage keeps only `candidates` of them.

        None where the model has no such stage, or where it would not be cheaper than scoring all
        items. People are user indices, or with `users=None` the `histories` of people never seen.
        `hidden` has one row per person: items not to return.
        """
        return None

    def item_vectors(self) -> Scores:
        """float32[n_items, width]: their products with a person's vector rank as the scores do."""
        raise VectorsUnsupportedError(self.name)

    def person_vectors(self, histories: Sequences, users: Indices | None = None) -> Scores:
        """float32[len(histories), width] of these users, or with None of people never seen.

        `histories` has one row per person: all that is known of them, in time order.
        """
        raise VectorsUnsupportedError(self.name)

    @property
    def vectors_rank(self) -> Literal["everything", "first stage"]:
        """Whether products of the vectors are all there is to a score."""
        return "everything"

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Everything learnt, as named arrays: what is declared as `FittedArray`."""
        arrays: dict[str, NDArray[Any]] = {}
        for attribute, learnt in self._learnt().items():
            key, value = learnt.key, getattr(self, attribute)
            if sparse.issparse(value):
                parts = zip(("indptr", "indices", "data"), csr_parts(value), strict=True)
                arrays |= {f"{key}.{part}": array for part, array in parts}
            else:
                arrays[key] = value
        return arrays

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """The inverse of `_arrays`; `known` and `train` are set already."""
        sizes = {**vars(self.config), "users": self.train.n_users, "items": self.train.n_items}
        for attribute, learnt in self._learnt().items():
            key, stored = learnt.key, f"{learnt.key}.indptr" in arrays
            if stored or learnt.sparse:
                names = ("data", "indices", "indptr")
                data, indices, indptr = (arrays[f"{key}.{part}"] for part in names)
                n, dtype = max(indptr.size - 1, 0), data.dtype
                check_csr(indptr, indices, data, n, key)
                value = canonical(sparse.csr_array((data, indices, indptr), shape=(n, n)))
            else:
                value, dtype = arrays[key], arrays[key].dtype
            wanted = [None if size is None else sizes[size] for size in learnt.shape]
            fits = len(wanted) == value.ndim and all(
                size in (None, actual) for size, actual in zip(wanted, value.shape, strict=True)
            )
            if not fits or dtype != np.float32:
                words = ", ".join("any" if size is None else str(size) for size in wanted)
                raise DataError(
                    f"{key} is {dtype} of shape {list(value.shape)}, the model needs float32 of "
                    f"[{words}]"
                )
            setattr(self, attribute, value)

    def _learnt(self) -> dict[str, FittedArray[Any]]:
        """Attributes declared as `FittedArray`; of two declarations that of the subclass."""
        declared = {k: v for cls in reversed(type(self).__mro__) for k, v in vars(cls).items()}
        return {name: value for name, value in declared.items() if isinstance(value, FittedArray)}

    def fit(
        self, split: Split, *, seed: int = 0, progress: bool | ProgressLike | None = None
    ) -> Self:
        """Fit on the training part; returns self. A second call starts afresh."""
        self._begin(split)
        self._fit(split, seed=seed, progress=make_progress(progress))
        self._known, self.fitting = split.train_valid, Fitting(seed=seed)
        return self

    def refit(self, data: Interactions | Split, **how: Any) -> Self:
        """A new model to deploy: these settings, as many steps, fitted on everything in `data`."""
        return refit(self, data, **how)

    def _begin(self, split: Split) -> None:
        """Check the split, and forget what was learnt before."""
        if not isinstance(split, Split):
            kind = type(split).__name__
            raise DataError(f"fit takes a Split, not {kind}: use leporid.temporal_split(data)")
        if len(split.train) == 0:
            raise DataError("the training part of the split is empty: nothing to fit on")
        ignores = not (self.uses_weights or self.combines or split.protocol == "everything")
        if ignores and split.train.has_weights:  # a final fit comes after one that has said so
            warnings.warn(
                f"{self.name} cannot use weights: every interaction counts the same (ease, ials, "
                f"itemknn and userknn use them)",
                LeporidWarning,
                stacklevel=4,
            )
        self._known, self._train = None, split.train

    @property
    def known(self) -> Interactions:
        """Train and validation interactions of the fit: seen items, and recent history."""
        return self._if_fitted(self._known)

    @property
    def nbytes(self) -> int:
        """Bytes of everything learnt."""
        return sum(array.nbytes for array in self._arrays().values())

    @property
    def train(self) -> Interactions:
        """The training part of the fit."""
        return self._if_fitted(self._train)

    def _if_fitted(self, value: T | None) -> T:
        if value is None:
            raise NotFittedError(f"{self.name} is not fitted yet: call fit(split) first")
        return value

    def save(self, path: str | Path) -> Path:
        """Write the directory `path`: `model.json`, and `weights.safetensors` with the ids.

        The directory is replaced as a whole; a crash leaves the one that was there.
        """
        about = {"model": self.name, "config": self.config.to_dict()}
        about["fitting"] = self.fitting.to_dict()
        return write_saved(path, Saved(about, self._arrays(), self.known, self.train))

    @classmethod
    def load(cls, path: str | Path, *, mapped: bool = False) -> Self:
        """Read what `save` wrote. Called on `Recommender`, it finds the class by name.

        With `mapped` the weights stay in the file and are paged in when used; processes that
        serve the same folder share them.
        """
        about, learnt, known, train = read_saved(path, mapped=mapped)
        actual: Any = catalogue.get(about["model"])
        if not issubclass(actual, cls):
            raise DataError(f"{path} holds a {about['model']} model, not a {cls.__name__}")
        model: Self = actual(actual.config_class.from_dict(about.get("config", {})))
        model.fitting = Fitting.from_dict(about.get("fitting", {}))
        model._known, model._train = known, train
        try:
            model._restore(learnt)
        except KeyError as error:
            raise DataError(f"the weights in {path} lack the array {error}") from None
        except DataError as error:
            raise DataError(f"{path} does not hold a sound {model.name}: {error}") from None
        return model

    def _check_users(self, users: Any) -> Indices:
        """User indices as int32; one that does not exist is an `UnknownIdError`."""
        rows = np.atleast_1d(np.asarray(users))
        if rows.size == 0:
            return np.empty(0, dtype=np.int32)
        if not np.issubdtype(rows.dtype, np.integer):
            raise UnknownIdError(f"user indices must be whole numbers, not {rows.dtype}")
        n_users = self.train.n_users
        wrong = rows[(rows < 0) | (rows >= n_users)]
        if len(wrong):
            raise UnknownIdError(f"no user has the index {wrong[0]}: the model knows {n_users}")
        return np.ascontiguousarray(rows, dtype=np.int32)
