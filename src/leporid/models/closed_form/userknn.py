"""UserKNN: what the most similar users have, weighted by how similar they are."""

from typing import ClassVar

import numpy as np
from scipy import sparse

from leporid.data import Interactions, Split
from leporid.foundation import SearchSpace
from leporid.models.closed_form.itemknn import (
    NEIGHBOUR_SPACE,
    KNNConfig,
    neighbour_weights,
    weigh,
)
from leporid.models.closed_form.products import rows_times
from leporid.models.closed_form.profiles import ProfileRecommender
from leporid.models.context import FitContext
from leporid.ranking import Indices, Scores


class UserKNN(ProfileRecommender):
    """Scores S X: S_uv the similarity of the profile of u to the training row of v.

    The K most similar rows count; a user's own training row is not among them.
    """

    name = "userknn"
    uses_weights = True
    config_class = KNNConfig
    config: KNNConfig
    search_space: ClassVar[SearchSpace] = NEIGHBOUR_SPACE

    def _fit(
        self,
        split: Split,
        seed: int,
        context: FitContext,
    ) -> None:
        # Neighbours depend on the profile, and are found when it is scored.
        self._remember(split.train)

    def _remember(self, train: Interactions) -> sparse.csr_array:
        rows = super()._remember(train)
        self._voters = weigh(rows, rows, self.config.weighting)
        return rows

    def _score_profiles(
        self,
        profiles: sparse.csr_array,
        users: Indices | None,
    ) -> Scores:
        if profiles.shape[0] == 0:
            return np.empty(profiles.shape, np.float32)
        weighed = weigh(profiles, self.train_rows, self.config.weighting)
        similar = neighbour_weights(
            weighed,
            self.config,
            against=self._voters,
            own=users,
        )
        return rows_times(similar, self._voters)
