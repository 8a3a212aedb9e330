"""Models that score a user from their profile: the items of their history, as a row of weights."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from scipy import sparse

from leporid.data import Interactions, Sequences, Split
from leporid.errors import UnknownIdError
from leporid.foundation import Config, setting
from leporid.graph import canonical
from leporid.models.base import Recommender
from leporid.models.closed_form.history_window import (
    add_repeats,
    choose_history_window,
    choose_repeat_weight,
    most_validation_users,
)
from leporid.models.closed_form.products import rows_times
from leporid.models.context import FitContext
from leporid.models.fitted_arrays import Arrays, FittedArray
from leporid.ranking import Indices, ItemNeighbours, Scores, item_list_frames


@dataclass(frozen=True, kw_only=True)
class ProfileConfig(Config):
    """Settings of every model that scores from profiles."""

    window: int | Literal["auto"] | None = setting("auto", at_least=1)
    """How many of a user's newest items are the profile: None for all, `auto` for the number that
    predicts the following items best inside the training part."""
    repeats: float | Literal["auto"] = setting("auto", at_least=0)
    """What a user's interactions with an item add to its score, where lists may show known items.
    `auto` finds it on validation by item neighbours; it is 0 without `include_seen`."""


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
        """X, the training rows: float32[n_users, n_items]."""
        self.known  # noqa: B018 (says "not fitted" where it is not)
        return self._if_fitted(self._rows)

    @property
    def vectors_rank(self) -> Literal["everything", "first stage"]:
        return "first stage" if self._repeats else "everything"

    @property
    def _repeats(self) -> float:
        return 0.0 if self.config.repeats == "auto" else self.config.repeats

    def _finish(
        self,
        split: Split,
        seed: int,
        context: FitContext,
    ) -> None:
        if self.config.repeats == "auto":
            repeats = 0.0
            if split.include_seen:
                repeats = self._best_repeats(split)
            self.config = replace(self.config, repeats=repeats)

    def _best_repeats(self, split: Split) -> float:
        assert self.config.window != "auto"  # it is known after a fit
        step = 1 + split.n_users // most_validation_users(split)
        users = np.arange(0, split.n_users, step, dtype=np.int32)
        histories = self.known.sequences().take(users)
        scores = self.score_profile(histories, users)
        unit = float(scores.max(axis=1).mean())
        return choose_repeat_weight(split, self.config.window) * unit

    def _remember(self, train: Interactions) -> sparse.csr_array:
        """Keep the training rows, and return them; find the window if it is "auto"."""
        if self.config.window == "auto":
            window = choose_history_window(train)
            self.config = replace(self.config, window=window)
        is_weighted = self.uses_weights and train.has_weights
        self._rows = canonical(train.csr(weighted=is_weighted))
        return self._rows

    def score(
        self,
        users: Indices,
        history: Sequences | None = None,
    ) -> Scores:
        users = self._check_users(users)
        if history is None:
            history = self.known.sequences()
        return self._score_sequences(history.take(users), users)

    def score_histories(self, histories: Sequence[Indices]) -> Scores:
        n_items = self.known.n_items
        sequences = Sequences.from_rows(histories)
        items = sequences.items
        if len(items) and (items.min() < 0 or items.max() >= n_items):
            raise UnknownIdError(
                f"a history has an item index outside 0 .. {n_items - 1}"
            )
        return self._score_sequences(sequences, None)

    def _score_sequences(
        self,
        histories: Sequences,
        users: Indices | None,
    ) -> Scores:
        """Return the scores of profiles, and popularity for users without history."""
        scores = self.score_profile(histories, users)
        has_no_history = np.diff(histories.indptr) == 0
        if has_no_history.any():
            scores[has_no_history] = self.train.target_events.popularity
        return scores

    def score_profile(
        self,
        histories: Sequences,
        users: Indices | None = None,
    ) -> Scores:
        """Return float32[len(histories), n_items]: scores, zero without a history."""
        scores = self._score_profiles(self._profiles(histories), users)
        return add_repeats(scores, histories, self._repeats)

    def _profiles(self, histories: Sequences) -> sparse.csr_array:
        """Return float32[len(histories), n_items]: a row as in X for the items of each window."""
        window = self.config.window
        if isinstance(window, int):
            histories = histories.last(window)
        is_weighted = self.uses_weights and self.train.has_weights
        weights = histories.weights if is_weighted else None
        rows = histories.csr(self.known.n_items, weights)
        rows.sum_duplicates()  # a new user may have an item twice
        if weights is None:
            rows.data.fill(1.0)
        return canonical(rows)

    @abc.abstractmethod
    def _score_profiles(
        self,
        profiles: sparse.csr_array,
        users: Indices | None,
    ) -> Scores:
        """Return float32[m, n_items] for rows as those of X; `users` is None for new users."""

    def _restore(self, arrays: Arrays) -> None:
        super()._restore(arrays)
        self._remember(self.train)


class ItemWeights(ProfileRecommender):
    """Scores P W: every item of a profile votes for items by its row of W, sparse or dense."""

    weights: FittedArray[Any] = FittedArray(shape=("items", "items"), sparse=True)
    """float32[n_items, n_items]: W_ij, what item i of a profile says for item j."""

    reason_kind = "the model's own weights"
    reason_value = "contribution"

    def _score_profiles(
        self,
        profiles: sparse.csr_array,
        users: Indices | None,
    ) -> Scores:
        votes = self._votes(profiles)
        if sparse.issparse(self.weights):
            return rows_times(votes, self.weights)
        return np.asarray(votes @ self.weights, dtype=np.float32)

    def item_list_frames(self, n: int) -> Iterator[pa.Table]:
        return item_list_frames(self.weights, self.items, n)

    def _votes(self, profiles: sparse.csr_array) -> sparse.csr_array:
        """Return float32[m, n_items]: P, as it is multiplied with W."""
        return profiles

    def reasons(
        self,
        history: Sequences,
        items: Indices,
        n: int = 3,
        near: ItemNeighbours | None = None,
    ) -> list[list[tuple[int, float]]]:
        """Return the items i of a profile with the largest P_i W_ij above 0.

        They sum to the score. An item that is bought again is a reason of its own, by `repeats`.
        """
        votes = self._votes(self._profiles(history))
        parts = self.weights[votes.indices][:, items] * votes.data[:, None]
        if sparse.issparse(parts):
            parts = parts.todense()
        shares = np.asarray(parts)
        nothing = np.zeros((1, self.known.n_items), np.float32)
        repeats = add_repeats(nothing, history, self._repeats)[0]
        reasons = []
        for item, share in zip(items.tolist(), shares.T, strict=True):
            pairs = zip(votes.indices.tolist(), share.tolist(), strict=True)
            by_item = dict(pairs)
            by_item[item] = by_item.get(item, 0.0) + float(repeats[item])
            strongest = sorted(by_item.items(), key=lambda pair: -pair[1])[:n]
            reasons.append([pair for pair in strongest if pair[1] > 0])
        return reasons
