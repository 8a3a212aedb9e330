"""`Recommender`: the one interface of every model, classical or neural.

A model implements `_fit` and `score`; optionally `score_histories` for people it has never
seen, and `_arrays` / `_restore` for what `save` writes. Ids, masking, ranking, saving and
errors live here, once.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.artifacts import (
    atomic_folder,
    map_arrays,
    read_arrays,
    read_json,
    write_arrays,
    write_json,
)
from leporid.config import Config
from leporid.data.id_map import IdMap
from leporid.data.interactions import Interactions, Sequences
from leporid.data.split import Split
from leporid.errors import (
    ConfigError,
    DataError,
    LeporidError,
    NotFittedError,
    UnknownIdError,
    UnknownNameError,
)
from leporid.models.shared.files import read_ids, write_ids
from leporid.progress import ProgressLike, make_progress
from leporid.ranking.topk import TopK
from leporid.space import SearchSpace

__all__ = ["HistoryUnsupportedError", "Recommender", "histories_csr"]

_SCORE_CHUNK_BYTES = 128 * 2**20
"""Scores held at once while recommending; users beyond that wait for the next chunk."""


class HistoryUnsupportedError(LeporidError, TypeError):
    """This model cannot score people who were not in its training data."""


class Recommender(abc.ABC):
    """Base class of all models. Scores are float32, higher is better."""

    name: ClassVar[str]
    """The registry name."""
    config_class: ClassVar[type[Config]]
    takes_initial_vectors: ClassVar[bool] = False
    """Whether the model has embedding tables that an initialiser can fill."""
    search_space: ClassVar[SearchSpace] = {}
    """What `leporid.tune` may try, by setting."""
    recipes: ClassVar[dict[str, dict[str, Any]]] = {}
    """Named settings, chosen with `recipe=`."""

    def __init__(self, config: Config | None = None, **settings: Any) -> None:
        if config is None:
            config = self.config_class.from_dict(settings)
        elif settings:
            config = config.replace(**settings)
        if not isinstance(config, self.config_class):
            raise ConfigError(f"{self.name} takes a {self.config_class.__name__}, not {config!r}")
        self.config = config
        self._known: Interactions | None = None

    @classmethod
    def recipe_settings(cls, recipe: str | None) -> dict[str, Any]:
        """The settings of a named recipe; none for None."""
        if recipe is not None and not cls.recipes:
            raise ConfigError(f"{cls.name} has no recipes: leave `recipe` out")
        if recipe is not None and recipe not in cls.recipes:
            raise UnknownNameError(f"recipe of {cls.name}", recipe, cls.recipes)
        return {} if recipe is None else cls.recipes[recipe]

    # -- what a model implements ---------------------------------------------------------

    @abc.abstractmethod
    def _fit(self, split: Split, *, seed: int, progress: ProgressLike) -> None:
        """Learn from `split.train` (and select on `split.valid`, never on `split.test`)."""

    @abc.abstractmethod
    def score(
        self, users: NDArray[np.int32], history: Sequences | None = None
    ) -> NDArray[np.float32]:
        """float32[len(users), n_items] scores of every item for user indices.

        `history` is what is known of all users at that moment, in time order; None means
        everything the model was fitted with (train and validation). Only sequential models
        read it. Nothing is masked here.
        """

    def score_histories(self, histories: Sequence[NDArray[np.int32]]) -> NDArray[np.float32]:
        """float32[len(histories), n_items] scores for unseen people, from item indices."""
        raise HistoryUnsupportedError(
            f"{self.name} cannot recommend from a history alone; "
            f"refit it with these people, or choose a model that can (dlr2, sasrec, itemknn)"
        )

    def retrieve(
        self,
        users: NDArray[np.int32] | None,
        n: int,
        candidates: int,
        *,
        histories: Sequences | None = None,
        hidden: Sequences,
    ) -> TopK | None:
        """The best `n` items by a cheap first stage that keeps `candidates`; None without one.

        `users` are int32 indices, or None where `histories` of people never seen are ranked;
        `hidden` has one row per person, items not to return.
        """
        return None

    @abc.abstractmethod
    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Everything learnt, as named arrays."""

    @abc.abstractmethod
    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """The inverse of `_arrays`; `self._known` is set already."""

    # -- what every model gets -------------------------------------------------------------

    def fit(
        self,
        split: Split,
        *,
        seed: int = 0,
        progress: bool | ProgressLike | None = None,
    ) -> Self:
        """Fit on the training part; returns self. A second call starts afresh."""
        if not isinstance(split, Split):
            raise DataError(
                f"fit takes a Split, not {type(split).__name__}: "
                f"make one with leporid.temporal_split(data)"
            )
        if len(split.train) == 0:
            raise DataError("the training part of the split is empty: nothing to fit on")
        reporter = make_progress(progress)
        self._known = None
        self._fit(split, seed=seed, progress=reporter)
        self._known = split.train_valid
        return self

    @property
    def known(self) -> Interactions:
        """Train and validation interactions of the fit: seen items, and recent history."""
        if self._known is None:
            raise NotFittedError(f"{self.name} is not fitted yet: call fit(split) first")
        return self._known

    @property
    def users(self) -> IdMap:
        """External user ids of the fit."""
        return self.known.users

    @property
    def items(self) -> IdMap:
        """External item ids of the fit."""
        return self.known.items

    def recommend(
        self,
        users: Any,
        n: int = 10,
        exclude_seen: bool = True,
        candidates: Iterable[Any] | None = None,
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """The best `n` items for known users, by external id.

        `users` is one id or several. Returns `(items, scores)`, of shape [n] for one id and
        [m, n] for several; where fewer than n items remain, None and -inf fill the row.
        `candidates` restricts the ranking to those item ids.
        """
        single = _is_id(users)
        if not single and not isinstance(users, Iterable):
            raise DataError(f"users must be one id or a list of ids, not {users!r}")
        index = self.users.indices([users] if single else users)
        top = self.top_k(index, n, exclude_seen=exclude_seen, candidates=candidates)
        return self._external(top, single)

    def recommend_history(
        self,
        histories: Sequence[Any],
        n: int = 10,
        exclude_seen: bool = True,
        candidates: Iterable[Any] | None = None,
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """The best `n` items for people the model has never seen, from their items in time order.

        `histories` is a list of lists of external item ids, or one such list.
        """
        self._check_n(n)
        if isinstance(histories, str):
            raise DataError(f"a history is a list of item ids, not the text {histories!r}")
        single = len(histories) > 0 and _is_id(histories[0])
        rows = [self.items.indices(h) for h in ([histories] if single else histories)]
        for number, row in enumerate(rows):
            if len(row) == 0:
                raise DataError(f"history {number} is empty: give at least one item id")
        allowed = self._allowed(candidates)
        parts = []
        for start, stop in self._chunks(len(rows)):
            chunk = rows[start:stop]
            seen = Sequences.from_rows(chunk) if exclude_seen else None
            parts.append(_rank(self.score_histories(chunk), n, seen, allowed))
        return self._external(_stack(parts, n), single)

    def top_k(
        self,
        users: NDArray[np.int32],
        n: int,
        *,
        exclude_seen: bool = True,
        candidates: Iterable[Any] | None = None,
    ) -> TopK:
        """`recommend` on user indices, returning item indices."""
        self._check_n(n)
        users = self._check_users(users)
        allowed = self._allowed(candidates)
        sequences = self.known.sequences()
        parts = []
        for start, stop in self._chunks(len(users)):
            chunk = users[start:stop]
            seen = sequences.take(chunk) if exclude_seen else None
            parts.append(_rank(self.score(chunk), n, seen, allowed))
        return _stack(parts, n)

    def save(self, path: str | Path) -> Path:
        """Write the directory `path`: `model.json`, `weights.safetensors` and the ids.

        The directory is replaced as a whole; a crash leaves the one that was there.
        """
        known = self.known
        path = Path(path)
        arrays = {f"model.{key}": value for key, value in self._arrays().items()}
        arrays["known.user"], arrays["known.item"] = known.user, known.item
        if known.time is not None:
            arrays["known.time"] = known.time
        with atomic_folder(path) as folder:
            write_arrays(folder / "weights.safetensors", arrays)
            write_ids(folder / "users.parquet", known.users)
            write_ids(folder / "items.parquet", known.items)
            meta = {"format": 1, "model": self.name, "config": self.config.to_dict()}
            write_json(folder / "model.json", meta)
        return path

    @classmethod
    def load(cls, path: str | Path, *, mapped: bool = False) -> Self:
        """Read what `save` wrote. Called on `Recommender`, it finds the class by name.

        With `mapped` the weights stay in the file and are paged in when used; processes that
        serve the same folder share them.
        """
        from leporid import models

        path = Path(path)
        meta = read_json(path / "model.json")
        if not isinstance(meta, dict) or not {"model", "config"} <= set(meta):
            raise DataError(f"{path / 'model.json'} does not describe a model")
        found: Any = models.get(meta["model"])
        if not issubclass(found, cls):
            raise DataError(f"{path} holds a {meta['model']} model, not a {cls.__name__}")
        model: Self = found(found.config_class.from_dict(meta["config"]))
        arrays, _ = (map_arrays if mapped else read_arrays)(path / "weights.safetensors")
        try:
            model._known = Interactions(
                arrays["known.user"],
                arrays["known.item"],
                arrays.get("known.time"),
                read_ids(path / "users.parquet", "user"),
                read_ids(path / "items.parquet", "item"),
            )
            prefix = "model."
            model._restore({k[len(prefix) :]: v for k, v in arrays.items() if k.startswith(prefix)})
        except KeyError as error:
            raise DataError(f"{path / 'weights.safetensors'} lacks the array {error}") from None
        return model

    # -- shared pieces ---------------------------------------------------------------------

    def _check_n(self, n: int) -> None:
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
            raise ConfigError(f"n must be a whole number of at least 1, not {n!r}")

    def _check_users(self, users: Any) -> NDArray[np.int32]:
        """User indices as int32; one that does not exist is an `UnknownIdError`."""
        rows = np.atleast_1d(np.asarray(users))
        if rows.size == 0:
            return np.empty(0, dtype=np.int32)
        if not np.issubdtype(rows.dtype, np.integer):
            raise UnknownIdError(f"user indices must be whole numbers, not {rows.dtype}")
        wrong = rows[(rows < 0) | (rows >= self.known.n_users)]
        if len(wrong):
            raise UnknownIdError(
                f"no user has the index {wrong[0]}: the model knows {self.known.n_users} users"
            )
        return np.ascontiguousarray(rows, dtype=np.int32)

    def _chunks(self, rows: int) -> Iterator[tuple[int, int]]:
        """Row ranges whose scores fit into the memory set aside for them."""
        size = max(1, _SCORE_CHUNK_BYTES // (4 * max(self.known.n_items, 1)))
        for start in range(0, rows, size):
            yield start, min(start + size, rows)

    def _allowed(self, candidates: Iterable[Any] | None) -> NDArray[np.bool_] | None:
        """bool[n_items], or None where every item may be recommended."""
        if candidates is None:
            return None
        allowed = np.zeros(self.known.n_items, dtype=np.bool_)
        allowed[self.items.indices([candidates] if _is_id(candidates) else candidates)] = True
        return allowed

    def _external(self, top: TopK, single: bool) -> tuple[NDArray[Any], NDArray[np.float32]]:
        items = self.items.externals(top.items)
        return (items[0], top.scores[0]) if single else (items, top.scores)


def histories_csr(histories: Sequence[NDArray[np.int32]], n_items: int) -> sparse.csr_array:
    """Binary float32 rows [len(histories), n_items] for people never seen, one a history."""
    rows = [np.unique(np.asarray(history, dtype=np.int32)) for history in histories]
    flat = Sequences.from_rows(rows)
    if len(flat.items) and (flat.items.min() < 0 or flat.items.max() >= n_items):
        raise UnknownIdError(f"a history has an item index outside 0 .. {n_items - 1}")
    data = np.ones(len(flat.items), dtype=np.float32)
    return sparse.csr_array((data, flat.items, flat.indptr), shape=(len(rows), n_items))


def _is_id(value: Any) -> bool:
    return isinstance(value, str | int | np.integer)


def _rank(
    scores: NDArray[np.float32],
    n: int,
    seen: Sequences | None,
    allowed: NDArray[np.bool_] | None,
) -> TopK:
    from leporid.ranking.masked import masked_top_k

    return masked_top_k(scores, n, seen=seen, allowed=allowed)


def _stack(parts: Sequence[TopK], n: int) -> TopK:
    if not parts:
        return TopK(np.empty((0, n), dtype=np.int32), np.empty((0, n), dtype=np.float32))
    if len(parts) == 1:
        return parts[0]
    items = np.concatenate([part.items for part in parts])
    return TopK(items, np.concatenate([part.scores for part in parts]))
