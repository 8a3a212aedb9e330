"""What the classical models have in common: they score from profiles, the items of a user."""

import abc
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.config import Config, setting
from leporid.data import Interactions, Sequences, Split, temporal_split
from leporid.errors import UnknownIdError
from leporid.evaluation import evaluate
from leporid.graph import top_k_neighbours
from leporid.models.shared.lists import Indices, Scores
from leporid.models.shared.recommender import Recommender
from leporid.models.shared.saved import FittedArray
from leporid.models.shared.sparse import canonical, history_rows, rows_times
from leporid.space import Choice, SearchSpace

K = TypeVar("K")


@dataclass(frozen=True, kw_only=True)
class ProfileConfig(Config):
    window: int | Literal["auto"] | None = setting("auto", at_least=1)
    """How many of a user's newest items are the profile: None for all, `auto` for the number that
    predicts the following items best inside the training part."""


WINDOWS = (None, 20, 10, 5)
WINDOW_SPACE: SearchSpace = {"window": Choice("auto", *WINDOWS)}
_NEIGHBOURS, _USERS = 100, 2000
"""Of the item neighbours that find the window, and how many users they are asked for."""


def some_users(split: Split, most: int) -> tuple[Indices, Split]:
    """At most so many users of the validation part, and the split with their part of it."""
    users = np.unique(split.valid.goals.user)
    if len(users) > most:
        users = np.sort(np.random.default_rng(0).choice(users, most, replace=False))
    valid = split.valid.select(np.isin(split.valid.user, users))
    return users, dataclasses.replace(split, valid=valid)


def first_level(quality: dict[K, NDArray[np.float64]]) -> K:
    """The first whose values per user are within one standard error of the best."""
    best = max(quality.values(), key=np.mean)
    lost = {key: best - value for key, value in quality.items()}
    return next(key for key, x in lost.items() if x.mean() <= x.std() / np.sqrt(len(x)))


def best_window(train: Interactions) -> int | None:
    """The longest window within a standard error of the best; None without an order.

    Item neighbours from the first 80% of each user's interactions rank the rest, by NDCG@10. The
    window belongs to the log, not to one model: linear, neighbour and factor models agree on it.
    """
    if not train.has_order:
        return None
    users, split = some_users(temporal_split(train, train=0.8, valid=0.2), _USERS)
    if not len(users):
        return None
    repeats = train.repeats > 0
    by_item = canonical(split.train.csr().T)
    neighbours = top_k_neighbours(by_item, min(_NEIGHBOURS, train.n_items - 1), shrink=20.0)
    weights = canonical(neighbours.csr().T)
    quality: dict[int | None, NDArray[np.float64]] = {}
    for window in WINDOWS:

        def score(users: Indices, known: Sequences, window: int | None = window) -> Scores:
            histories = known.take(users)
            newest = histories if window is None else histories.last(window)
            return rows_times(history_rows(newest, train.n_items), weights)

        table = evaluate(
            score, split, at=(10,), part="valid", metrics=("NDCG",), exclude_seen=not repeats
        )
        quality[window] = table.per_user("NDCG@10")
    return first_level(quality)


class ProfileRecommender(Recommender):
    """A model that learns from the training rows X (users x items) and scores profiles.

    Rows are binary, or hold weights where the log has them and the model `uses_weights`. A profile
    is what is known when the user is scored, or the newest `window` items of it. A user without
    history gets the items by their popularity in X.
    """

    reads_history = True
    config: ProfileConfig
    _rows: sparse.csr_array | None = None

    @property
    def train_rows(self) -> sparse.csr_array:
        """float32[n_users, n_items]: X, the training rows."""
        self.known  # noqa: B018 (says "not fitted" where it is not)
        return self._if_fitted(self._rows)

    def _remember(self, train: Interactions) -> sparse.csr_array:
        if self.config.window == "auto":
            self.config = self.config.replace(window=best_window(train))
        self._rows = canonical(train.csr(weighted=self.uses_weights and train.has_weights))
        return self._rows

    def score(self, users: Indices, history: Sequences | None = None) -> Scores:
        users = self._check_users(users)
        known = self.known.sequences() if history is None else history
        return self._score_sequences(known.take(users), users)

    def score_histories(self, histories: Sequence[Indices]) -> Scores:
        n_items, rows = self.known.n_items, Sequences.from_rows(histories)
        if len(rows.items) and (rows.items.min() < 0 or rows.items.max() >= n_items):
            raise UnknownIdError(f"a history has an item index outside 0 .. {n_items - 1}")
        return self._score_sequences(rows, None)

    def _score_sequences(self, histories: Sequences, users: Indices | None) -> Scores:
        """`_score_profiles`, and popularity for users without history."""
        scores = self._score_profiles(self._profiles(histories), users)
        blank = np.diff(histories.indptr) == 0
        if blank.any():
            scores[blank] = self.train.goals.popularity
        return scores

    def _profiles(self, histories: Sequences) -> sparse.csr_array:
        """float32[len(histories), n_items]: a row for the items of each window, as in X."""
        window = self.config.window
        if isinstance(window, int):
            histories = histories.last(window)
        weighted = self.uses_weights and self.train.has_weights
        weights = histories.weights if weighted else None
        rows = history_rows(histories, self.known.n_items, weights)
        rows.sum_duplicates()  # a new user may have an item twice
        if weights is None:
            rows.data.fill(1.0)
        return canonical(rows)

    @abc.abstractmethod
    def _score_profiles(self, profiles: sparse.csr_array, users: Indices | None) -> Scores:
        """float32[m, n_items] for rows such as those of X; `users` is None for new users."""

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        super()._restore(arrays)
        self._remember(self.train)


class ItemWeights(ProfileRecommender):
    """Scores P W: every item of a profile votes for items by its row of W, sparse or dense."""

    weights: FittedArray[Any] = FittedArray(shape=("items", "items"), sparse=True)
    """float32[n_items, n_items]: W_ij, what item i of a profile says for item j."""

    reason_kind, reason_value = "the model's own weights", "contribution"

    def _score_profiles(self, profiles: sparse.csr_array, users: Indices | None) -> Scores:
        votes = self._votes(profiles)
        if sparse.issparse(self.weights):
            return rows_times(votes, self.weights)
        return np.asarray(votes @ self.weights, dtype=np.float32)

    def _votes(self, profiles: sparse.csr_array) -> sparse.csr_array:
        """float32[m, n_items]: P, as it is multiplied with W."""
        return profiles

    def reasons(
        self, history: Sequences, items: Indices, n: int = 3, near: Any = None
    ) -> list[list[tuple[int, float]]]:
        """The items i of a profile with the largest P_i W_ij above 0: they sum to the score."""
        votes = self._votes(self._profiles(history))
        parts = self.weights[votes.indices][:, items] * votes.data[:, None]
        shares = np.asarray(parts.todense() if sparse.issparse(parts) else parts)
        best = np.argsort(-shares, axis=0, kind="stable")[:n]
        return [
            [(int(votes.indices[row]), float(shares[row, j])) for row in rows if shares[row, j] > 0]
            for j, rows in enumerate(best.T)
        ]
