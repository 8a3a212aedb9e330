"""What the classical models have in common: they score from the training rows of their users."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.data.interactions import Interactions, Sequences
from leporid.models.shared.base import Recommender, histories_csr
from leporid.models.shared.sparse import canonical, rows_times

__all__ = ["ItemWeights", "ProfileRecommender", "csr_arrays", "csr_from"]


class ProfileRecommender(Recommender):
    """A model that reads the training rows X (binary users x items) when it scores.

    The profile of a known user is the training part, as fitted: neither `history` nor the
    validation part is read. `score_histories` takes any profile.
    """

    _rows: sparse.csr_array | None = None

    @property
    def profiles(self) -> sparse.csr_array:
        """float32[n_users, n_items]: X, the binary training rows."""
        self.known  # noqa: B018 (says "not fitted" where it is not)
        assert self._rows is not None
        return self._rows

    def _remember(self, train: Interactions) -> sparse.csr_array:
        self._rows = canonical(train.csr())
        return self._rows

    def score(
        self, users: NDArray[np.int32], history: Sequences | None = None
    ) -> NDArray[np.float32]:
        """float32[len(users), n_items], from the training rows of these users."""
        return self._score_rows(self.profiles, self._check_users(users))

    def score_histories(self, histories: Sequence[NDArray[np.int32]]) -> NDArray[np.float32]:
        """float32[len(histories), n_items], from the items of people never seen."""
        rows = canonical(histories_csr(histories, self.known.n_items))
        return self._score_rows(rows, np.arange(len(histories), dtype=np.int32))

    @abc.abstractmethod
    def _score_rows(
        self, profiles: sparse.csr_array, rows: NDArray[np.int32]
    ) -> NDArray[np.float32]:
        """float32[len(rows), n_items] for some rows of a binary users x items matrix."""

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"train_lengths": np.diff(self.profiles.indptr).astype(np.int32)}

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        # Within a user the training part comes first, then validation.
        known = self.known
        place = np.arange(len(known)) - known.sequences().indptr[:-1][known.user]
        self._remember(known.select(place < arrays["train_lengths"][known.user]))


class ItemWeights(ProfileRecommender):
    """Scores X W: every item of a profile votes for items by its row of W."""

    _weights: sparse.csr_array | None = None

    @property
    def weights(self) -> sparse.csr_array:
        """float32[n_items, n_items]: W_ij, what item i of a profile says for item j."""
        self.known  # noqa: B018
        assert self._weights is not None
        return self._weights

    def _score_rows(
        self, profiles: sparse.csr_array, rows: NDArray[np.int32]
    ) -> NDArray[np.float32]:
        return rows_times(profiles, rows, self.weights)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return super()._arrays() | csr_arrays("weights", self.weights)

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        super()._restore(arrays)
        n_items = self.known.n_items
        self._weights = csr_from(arrays, "weights", (n_items, n_items))


def csr_arrays(name: str, matrix: sparse.csr_array) -> dict[str, NDArray[Any]]:
    """A CSR matrix as three named arrays."""
    return {
        f"{name}.indptr": matrix.indptr,
        f"{name}.indices": matrix.indices,
        f"{name}.data": matrix.data,
    }


def csr_from(
    arrays: dict[str, NDArray[Any]], name: str, shape: tuple[int, int]
) -> sparse.csr_array:
    """The inverse of `csr_arrays`."""
    parts = (arrays[f"{name}.data"], arrays[f"{name}.indices"], arrays[f"{name}.indptr"])
    return canonical(sparse.csr_array(parts, shape=shape))
