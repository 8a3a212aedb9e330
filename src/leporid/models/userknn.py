"""UserKNN: what the most similar users have, weighted by how similar they are."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.data.interactions import Sequences
from leporid.data.split import Split
from leporid.models.shared.neighbourhood import NEIGHBOUR_SPACE, KNNConfig, neighbour_weights
from leporid.models.shared.profiles import ProfileRecommender, csr_arrays, csr_from
from leporid.models.shared.sparse import rows_times
from leporid.progress import ProgressLike
from leporid.space import SearchSpace

__all__ = ["UserKNN", "UserKNNConfig"]


class UserKNNConfig(KNNConfig):
    """Settings of UserKNN."""


class UserKNN(ProfileRecommender):
    """Scores S X: S_uv the similarity of v among the K nearest users of u."""

    name = "userknn"
    config_class = UserKNNConfig
    config: UserKNNConfig
    search_space: ClassVar[SearchSpace] = NEIGHBOUR_SPACE
    _neighbours: sparse.csr_array | None = None

    @property
    def neighbours(self) -> sparse.csr_array:
        """float32[n_users, n_users]: S, K entries a row at most."""
        self.known  # noqa: B018
        assert self._neighbours is not None
        return self._neighbours

    def _fit(self, split: Split, *, seed: int, progress: ProgressLike) -> None:
        progress.start("userknn", 1)
        self._neighbours = neighbour_weights(self._remember(split.train), self.config)
        progress.advance(1)

    def score(
        self, users: NDArray[np.int32], history: Sequences | None = None
    ) -> NDArray[np.float32]:
        """float32[len(users), n_items], from the fitted neighbours of these users."""
        return rows_times(self.neighbours, self._check_users(users), self.profiles)

    def _score_rows(
        self, profiles: sparse.csr_array, rows: NDArray[np.int32]
    ) -> NDArray[np.float32]:
        found = neighbour_weights(profiles, self.config, against=self.profiles)
        return rows_times(found, rows, self.profiles)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return super()._arrays() | csr_arrays("neighbours", self.neighbours)

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        super()._restore(arrays)
        n_users = self.known.n_users
        self._neighbours = csr_from(arrays, "neighbours", (n_users, n_users))
