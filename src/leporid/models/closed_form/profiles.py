"""What the classical models have in common: they score from profiles, the items of a user.

Below are the compiled products of sparse matrices they are made of, parallel over rows.
"""

import abc
import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from numba import prange
from numpy.typing import NDArray
from scipy import sparse

from leporid.config import Choice, Config, SearchSpace, setting
from leporid.data import Interactions, Sequences, Split, temporal_split
from leporid.errors import UnknownIdError
from leporid.evaluation import evaluate
from leporid.graph import Neighbours, canonical, top_k_neighbours
from leporid.kernel import kernel
from leporid.machine import one_thread_pool
from leporid.models.base import Recommender
from leporid.models.context import FitContext
from leporid.models.persistence import FittedArray
from leporid.ranking import Indices, Scores

K = TypeVar("K")


@dataclass(frozen=True, kw_only=True)
class ProfileConfig(Config):
    window: int | Literal["auto"] | None = setting("auto", at_least=1)
    """How many of a user's newest items are the profile: None for all, `auto` for the number that
    predicts the following items best inside the training part."""
    repeats: float | Literal["auto"] = setting("auto", at_least=0)
    """What a user's interactions with an item add to its score, where lists may show known items.
    `auto` finds it on validation by item neighbours; it is 0 without `include_seen`."""


WINDOWS = (None, 20, 10, 5)
WINDOW_SPACE: SearchSpace = {"window": Choice("auto", *WINDOWS)}
_REPEATS = (0.0, 0.125, 0.25, 0.5, 1.0, 2.0)
"""Weights of known items that are tried, in units of a user's mean largest score."""
_NEIGHBOURS, _USERS, SCORES = 100, 2000, 40_000_000
"""Item neighbours that find the window; users such choices are made on, and scores they hold."""


def some_users(split: Split, most: int | None = None) -> tuple[Indices, Split]:
    """Users of the validation part to choose a setting by, and the split with their part of it."""
    users, most = np.unique(split.valid.goals.user), most or _most_users(split)
    if len(users) > most:
        users = np.sort(np.random.default_rng(0).choice(users, most, replace=False))
    valid = split.valid.select(np.isin(split.valid.user, users))
    return users, dataclasses.replace(split, valid=valid)


def _most_users(split: Split) -> int:
    return max(1, min(_USERS, SCORES // split.n_items))


def first_level(values: dict[K, NDArray[np.float64]]) -> K:
    """The first whose values per user are within one standard error of the best."""
    best = max(values.values(), key=np.mean)
    lost = {key: best - value for key, value in values.items()}
    return next(key for key, x in lost.items() if x.mean() <= x.std() / np.sqrt(len(x)))


def quality(scores: Scores, users: Indices, part: Split) -> NDArray[np.float64]:
    """NDCG@10 on validation of each of the users, who have a row of the scores each."""

    def score(some: Indices, _: Sequences) -> Scores:
        return scores[np.searchsorted(users, some)]

    return evaluate(score, part, at=(10,), part="valid", metrics=("NDCG",)).per_user(
        "NDCG@10"
    )


def best_window(train: Interactions) -> int | None:
    """The longest window within a standard error of the best; None without an order.

    Item neighbours from the first 80% of each user's interactions rank the rest, by NDCG@10. The
    window belongs to the log, not to one model: linear, neighbour and factor models agree on it.
    """
    if not train.has_order:
        return None
    users, split, score = _by_neighbours(_inner_split(train, train.repeats > 0))
    if not len(users):
        return None
    return first_level(
        {window: quality(score(window), users, split) for window in WINDOWS}
    )


def best_repeats(split: Split, window: int | None) -> float:
    """What having an item once adds, in units of a user's largest score, by NDCG@10 of neighbours.

    On validation; without one, found as the window is. It belongs to the log, too.
    """
    if not len(split.valid.goals) and split.train.has_order:
        split = _inner_split(split.train, include_seen=True)
    users, split, score = _by_neighbours(split)
    if not len(users):
        return 1.0
    scores, histories = score(window), split.train.sequences().take(users)
    unit = float(scores.max(axis=1).mean())
    values = {}
    for tried in _REPEATS:
        more = add_repeats(scores.copy(), histories, tried * unit)
        values[tried] = quality(more, users, split).mean()
    return max(values, key=values.__getitem__)


def add_repeats(scores: Scores, histories: Sequences, weight: float) -> Scores:
    """Add `weight` for each interaction of a history to the score of its item, in place."""
    if weight:
        own = histories.decayed_counts(scores.shape[1])
        rows = np.repeat(np.arange(len(histories)), np.diff(own.indptr))
        scores[rows, own.indices] += np.float32(weight) * own.data
    return scores


def _inner_split(train: Interactions, include_seen: bool) -> Split:
    split = temporal_split(train, train=0.8, valid=0.2)
    return dataclasses.replace(split, include_seen=include_seen)


def _by_neighbours(
    split: Split,
) -> tuple[Indices, Split, Callable[[int | None], Scores]]:
    """Some users, the split with their validation, and their scores by a window of neighbours."""
    users, part = some_users(split)
    k = min(_NEIGHBOURS, split.n_items - 1)
    neighbours = top_k_neighbours(canonical(split.train.csr().T), k, shrink=20.0)
    weights, histories = (
        canonical(neighbours.csr().T),
        split.train.sequences().take(users),
    )

    def score(window: int | None) -> Scores:
        newest = histories if window is None else histories.last(window)
        return rows_times(newest.csr(split.n_items), weights)

    return users, part, score


class ProfileRecommender(Recommender):
    """A model that learns from the training rows X (users x items) and scores profiles.

    Rows are binary, or hold weights where the log has them and the model `uses_weights`. A profile
    is what is known when the user is scored, or the newest `window` items of it. A user without
    history gets the items by their popularity in X. Where lists may show known items, those score
    `repeats` more for each interaction, less for older ones.
    """

    reads_history = True
    config: ProfileConfig
    _rows: sparse.csr_array | None = None

    @property
    def train_rows(self) -> sparse.csr_array:
        """float32[n_users, n_items]: X, the training rows."""
        self.known  # noqa: B018 (says "not fitted" where it is not)
        return self._if_fitted(self._rows)

    @property
    def vectors_rank(self) -> Literal["everything", "first stage"]:
        return "first stage" if self._repeats else "everything"

    @property
    def _repeats(self) -> float:
        return 0.0 if self.config.repeats == "auto" else self.config.repeats

    def _finish(self, split: Split, seed: int, context: FitContext) -> None:
        if self.config.repeats == "auto":
            repeats = self._best_repeats(split) if split.include_seen else 0.0
            self.config = self.config.replace(repeats=repeats)

    def _best_repeats(self, split: Split) -> float:
        assert self.config.window != "auto"  # it is known after a fit
        some = np.arange(
            0, split.n_users, 1 + split.n_users // _most_users(split), dtype=np.int32
        )
        largest = self.score_profile(self.known.sequences().take(some), some).max(
            axis=1
        )
        return best_repeats(split, self.config.window) * float(largest.mean())

    def _remember(self, train: Interactions) -> sparse.csr_array:
        if self.config.window == "auto":
            self.config = self.config.replace(window=best_window(train))
        self._rows = canonical(
            train.csr(weighted=self.uses_weights and train.has_weights)
        )
        return self._rows

    def score(self, users: Indices, history: Sequences | None = None) -> Scores:
        users = self._check_users(users)
        known = self.known.sequences() if history is None else history
        return self._score_sequences(known.take(users), users)

    def score_histories(self, histories: Sequence[Indices]) -> Scores:
        n_items, rows = self.known.n_items, Sequences.from_rows(histories)
        if len(rows.items) and (rows.items.min() < 0 or rows.items.max() >= n_items):
            raise UnknownIdError(
                f"a history has an item index outside 0 .. {n_items - 1}"
            )
        return self._score_sequences(rows, None)

    def _score_sequences(self, histories: Sequences, users: Indices | None) -> Scores:
        """`score_profile`, and popularity for users without history."""
        scores = self.score_profile(histories, users)
        blank = np.diff(histories.indptr) == 0
        if blank.any():
            scores[blank] = self.train.goals.popularity
        return scores

    def score_profile(
        self, histories: Sequences, users: Indices | None = None
    ) -> Scores:
        """float32[len(histories), n_items]: zero without a history."""
        scores = self._score_profiles(self._profiles(histories), users)
        return add_repeats(scores, histories, self._repeats)

    def _profiles(self, histories: Sequences) -> sparse.csr_array:
        """float32[len(histories), n_items]: a row for the items of each window, as in X."""
        window = self.config.window
        if isinstance(window, int):
            histories = histories.last(window)
        weighted = self.uses_weights and self.train.has_weights
        weights = histories.weights if weighted else None
        rows = histories.csr(self.known.n_items, weights)
        rows.sum_duplicates()  # a new user may have an item twice
        if weights is None:
            rows.data.fill(1.0)
        return canonical(rows)

    @abc.abstractmethod
    def _score_profiles(
        self, profiles: sparse.csr_array, users: Indices | None
    ) -> Scores:
        """float32[m, n_items] for rows such as those of X; `users` is None for new users."""

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        super()._restore(arrays)
        self._remember(self.train)


class ItemWeights(ProfileRecommender):
    """Scores P W: every item of a profile votes for items by its row of W, sparse or dense."""

    weights: FittedArray[Any] = FittedArray(shape=("items", "items"), sparse=True)
    """float32[n_items, n_items]: W_ij, what item i of a profile says for item j."""

    reason_kind, reason_value = "the model's own weights", "contribution"

    def _score_profiles(
        self, profiles: sparse.csr_array, users: Indices | None
    ) -> Scores:
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
        """The items i of a profile with the largest P_i W_ij above 0: they sum to the score.

        An item that is bought again is a reason of its own, by `repeats`.
        """
        votes = self._votes(self._profiles(history))
        parts = self.weights[votes.indices][:, items] * votes.data[:, None]
        shares = np.asarray(parts.todense() if sparse.issparse(parts) else parts)
        nothing = np.zeros((1, self.known.n_items), np.float32)
        again = add_repeats(nothing, history, self._repeats)[0]
        found = []
        for item, share in zip(items.tolist(), shares.T, strict=True):
            by_item = dict(zip(votes.indices.tolist(), share.tolist(), strict=True))
            by_item[item] = by_item.get(item, 0.0) + float(again[item])
            best = sorted(by_item.items(), key=lambda one: -one[1])[:n]
            found.append([one for one in best if one[1] > 0])
        return found


def unit_size(matrix: sparse.csr_array) -> tuple[sparse.csr_array, float]:
    """The matrix over a power of two, by which its largest entry is about 1, and that power."""
    power = float(np.ldexp(1.0, int(np.frexp(matrix.data.max(initial=0.0))[1]) - 1))
    if power in (0.5, 1.0):  # no entries, or 1 already
        return matrix, 1.0
    out = sparse.csr_array(matrix.shape, dtype=np.float32)
    out.data = (matrix.data / power).astype(np.float32)
    out.indices, out.indptr = matrix.indices, matrix.indptr
    return out, power


def csr_parts(
    matrix: sparse.csr_array,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """A CSR matrix as kernels take it: row pointers, columns, values."""
    return matrix.indptr, matrix.indices, matrix.data


def normalised(profiles: sparse.csr_array, alpha: float = 0.5) -> sparse.csr_array:
    """float32[n_users, n_items]: D_U^-alpha X D_I^(alpha - 1), D the counts of users and items."""
    lengths = np.diff(profiles.indptr)
    users = np.maximum(lengths, 1.0) ** -alpha
    items = item_counts(profiles) ** (alpha - 1.0)
    data = np.repeat(users, lengths) * items[profiles.indices]
    return canonical(
        sparse.csr_array(
            (data, profiles.indices, profiles.indptr), shape=profiles.shape
        )
    )


def item_counts(profiles: sparse.csr_array) -> NDArray[np.float64]:
    """float64[n_items]: the users of each item (items without any: 1, so that it may divide)."""
    return np.maximum(np.bincount(profiles.indices, minlength=profiles.shape[1]), 1.0)


def rows_times(left: sparse.csr_array, right: sparse.csr_array) -> NDArray[np.float32]:
    """float32[left.shape[0], right.shape[1]]: `left @ right`, both sparse, the result dense."""
    out = np.zeros((left.shape[0], right.shape[1]), dtype=np.float32)
    with one_thread_pool():
        _rows_times(csr_parts(left), csr_parts(right), out)
    return out


def top_k_products(
    left: sparse.csr_array,
    right: sparse.csr_array,
    k: int,
    *,
    rows: NDArray[np.float64],
    columns: NDArray[np.float64],
    shrink: float = 0.0,
    own: NDArray[np.int32] | None = None,
) -> sparse.csr_array:
    """The `k` largest entries of each row of `left @ right / (rows x columns + shrink)`.

    Products must be positive. Entry own[i] of row i is left out (-1: none; by default the
    diagonal). Equal entries go to the smaller column.
    """
    n, width = left.shape[0], right.shape[1]
    own = np.arange(n, dtype=np.int32) if own is None else own
    k = max(1, min(k, width))
    found = np.full((n, k), -1, dtype=np.int32)
    values = np.zeros((n, k), dtype=np.float32)
    a, b = csr_parts(left), csr_parts(right)
    with one_thread_pool() as threads:
        below = rows, columns, shrink
        _top_k_products(a, b, below, own, found, values, threads * 8)
    return canonical(Neighbours(found, values, width).csr())


def top_k_of_columns(matrix: sparse.csr_array, k: int) -> sparse.csr_array:
    """The `k` largest entries of each column; of equal ones those in the first rows."""
    turned = canonical(matrix.T)
    column = np.repeat(np.arange(turned.shape[0]), np.diff(turned.indptr))
    order = np.lexsort((-turned.data, column))
    kept = order[np.arange(len(order)) - turned.indptr[column] < k]
    entries = turned.data[kept], (turned.indices[kept], column[kept])
    return canonical(sparse.csr_array(entries, shape=matrix.shape))


@kernel(parallel=True)
def _rows_times(a: Any, b: Any, out: Any) -> None:
    a_ptr, a_idx, a_val = a
    b_ptr, b_idx, b_val = b
    for row in prange(len(out)):
        for p in range(a_ptr[row], a_ptr[row + 1]):
            weight = a_val[p]
            middle = a_idx[p]
            for q in range(b_ptr[middle], b_ptr[middle + 1]):
                out[row, b_idx[q]] += weight * b_val[q]


@kernel(parallel=True)
def _top_k_products(
    a: Any, b: Any, below: Any, own: Any, columns: Any, values: Any, blocks: int
) -> None:
    a_ptr, a_idx, a_val = a
    b_ptr, b_idx, b_val = b
    row_scale, column_scale, shrink = below
    n, k = columns.shape
    for block in prange(blocks):
        sums = np.zeros(len(column_scale))
        touched = np.empty(len(column_scale), dtype=np.int32)
        for row in range(block, n, blocks):
            count = 0
            for p in range(a_ptr[row], a_ptr[row + 1]):
                middle = a_idx[p]
                weight = np.float64(a_val[p])
                for q in range(b_ptr[middle], b_ptr[middle + 1]):
                    column = b_idx[q]
                    if column == own[row]:
                        continue
                    if sums[column] == 0.0:
                        touched[count] = column
                        count += 1
                    sums[column] += weight * b_val[q]
            reached = np.sort(touched[:count])
            entries = sums[reached] / (row_scale[row] * column_scale[reached] + shrink)
            sums[reached] = 0.0
            order = np.argsort(-entries, kind="mergesort")[:k]
            for rank, p in enumerate(order):
                columns[row, rank] = reached[p]
                values[row, rank] = entries[p]
