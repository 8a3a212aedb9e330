"""UserKNN: what the most similar users have, weighted by how similar they are."""

from __future__ import annotations

from typing import ClassVar

from scipy import sparse

from leporid.data import Sequences, Split
from leporid.models.shared.base import Indices, Learnt, Scores
from leporid.models.shared.neighbourhood import NEIGHBOUR_SPACE, KNNConfig, neighbour_weights
from leporid.models.shared.profiles import ProfileRecommender
from leporid.models.shared.sparse import rows_times
from leporid.progress import ProgressLike
from leporid.space import SearchSpace


class UserKNN(ProfileRecommender):
    """Scores S X: S_uv the similarity of v among the K nearest users of u."""

    name = "userknn"
    config_class = KNNConfig
    config: KNNConfig
    search_space: ClassVar[SearchSpace] = NEIGHBOUR_SPACE
    neighbours: Learnt[sparse.csr_array] = Learnt()
    """float32[n_users, n_users]: S, at most K entries per row."""

    def _fit(self, split: Split, *, seed: int, progress: ProgressLike) -> None:
        progress.start("userknn", 1)
        self.neighbours = neighbour_weights(self._remember(split.train), self.config)
        progress.advance(1)

    def score(self, users: Indices, history: Sequences | None = None) -> Scores:
        """float32[len(users), n_items], from the fitted neighbours of these users."""
        return rows_times(self.neighbours, self._check_users(users), self.profiles)

    def _score_rows(self, profiles: sparse.csr_array, rows: Indices) -> Scores:
        similar = neighbour_weights(profiles, self.config, against=self.profiles)
        return rows_times(similar, rows, self.profiles)
