"""`Recommender`: the one interface of every model, classical or neural.

A model implements `_fit` and `score`; optionally `score_histories` for people it has never
seen, and `_arrays` / `_restore` for what `save` writes. Ids, masking, ranking, saving and
errors live here, once.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.artifacts import read_arrays, read_json, write_arrays, write_json
from leporid.config import Config
from leporid.data.id_map import IdMap
from leporid.data.interactions import Interactions, Sequences
from leporid.data.split import Split
from leporid.errors import ConfigError, DataError, LeporidError, NotFittedError
from leporid.evaluation.topk import TopK
from leporid.progress import ProgressLike, make_progress

__all__ = ["HistoryUnsupportedError", "Recommender"]


class HistoryUnsupportedError(LeporidError, TypeError):
    """This model cannot score people who were not in its training data."""


class Recommender(abc.ABC):
    """Base class of all models. Scores are float32, higher is better."""

    name: ClassVar[str]
    """The registry name."""
    config_class: ClassVar[type[Config]]

    def __init__(self, config: Config | None = None, **settings: Any) -> None:
        if config is None:
            config = self.config_class.from_dict(settings)
        elif settings:
            config = config.replace(**settings)
        if not isinstance(config, self.config_class):
            raise ConfigError(f"{self.name} takes a {self.config_class.__name__}, not {config!r}")
        self.config = config
        self._known: Interactions | None = None

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
        if len(split.train) == 0:
            raise DataError("the training part of the split is empty: nothing to fit on")
        reporter = make_progress(progress)
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
        single = isinstance(users, str | int | np.integer)
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
        single = len(histories) > 0 and isinstance(histories[0], str | int | np.integer)
        rows = [self.items.indices(h) for h in ([histories] if single else histories)]
        for number, row in enumerate(rows):
            if len(row) == 0:
                raise DataError(f"history {number} is empty: give at least one item id")
        scores = self.score_histories(rows)
        seen = None
        if exclude_seen:
            indptr = np.concatenate([[0], np.cumsum([len(r) for r in rows])])
            seen = Sequences(indptr.astype(np.int64), np.concatenate(rows).astype(np.int32))
        return self._external(self._rank(scores, n, seen, candidates), single)

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
        seen = None
        if exclude_seen:
            sequences = self.known.sequences()
            lengths = np.diff(sequences.indptr)[users]
            indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
            flat = [sequences.of(int(u)) for u in users]
            seen = Sequences(indptr, np.concatenate(flat) if flat else np.empty(0, np.int32))
        return self._rank(self.score(users), n, seen, candidates)

    def save(self, path: str | Path) -> Path:
        """Write `weights.safetensors` and `model.json` into the directory `path`."""
        known = self.known
        path = Path(path)
        arrays = {f"model.{key}": value for key, value in self._arrays().items()}
        arrays["known.user"], arrays["known.item"] = known.user, known.item
        if known.time is not None:
            arrays["known.time"] = known.time
        write_arrays(path / "weights.safetensors", arrays)
        write_json(
            path / "model.json",
            {
                "model": self.name,
                "config": self.config.to_dict(),
                "users": known.users.ids.to_pylist(),
                "items": known.items.ids.to_pylist(),
            },
        )
        return path

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote. Called on `Recommender`, it finds the class by name."""
        from leporid import models

        meta = read_json(Path(path) / "model.json")
        found: Any = models.get(meta["model"])
        if not issubclass(found, cls):
            raise DataError(f"{path} holds a {meta['model']} model, not a {cls.name}")
        model: Self = found(found.config_class.from_dict(meta["config"]))
        arrays, _ = read_arrays(Path(path) / "weights.safetensors")
        model._known = Interactions(
            arrays["known.user"],
            arrays["known.item"],
            arrays.get("known.time"),
            IdMap.from_values(meta["users"], "user"),
            IdMap.from_values(meta["items"], "item"),
        )
        prefix = "model."
        model._restore({k[len(prefix) :]: v for k, v in arrays.items() if k.startswith(prefix)})
        return model

    # -- shared pieces ---------------------------------------------------------------------

    def _check_n(self, n: int) -> None:
        if n < 1:
            raise ConfigError(f"n must be at least 1, not {n}")

    def _rank(
        self,
        scores: NDArray[np.float32],
        n: int,
        seen: Sequences | None,
        candidates: Iterable[Any] | None,
    ) -> TopK:
        from leporid.evaluation.ranking import masked_top_k

        allowed = None
        if candidates is not None:
            allowed = np.zeros(self.known.n_items, dtype=np.bool_)
            allowed[self.items.indices(candidates)] = True
        return masked_top_k(scores, n, seen=seen, allowed=allowed)

    def _external(self, top: TopK, single: bool) -> tuple[NDArray[Any], NDArray[np.float32]]:
        items = self.items.externals(top.items)
        return (items[0], top.scores[0]) if single else (items, top.scores)


def histories_csr(histories: Sequence[NDArray[np.int32]], n_items: int) -> sparse.csr_array:
    """Binary float32 rows for people never seen, one a history."""
    lengths = [len(np.unique(h)) for h in histories]
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = np.concatenate([np.unique(h) for h in histories]) if histories else np.empty(0)
    data = np.ones(len(indices), dtype=np.float32)
    return sparse.csr_array((data, indices, indptr), shape=(len(histories), n_items))
