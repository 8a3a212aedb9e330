"""ItemKNN: items whose users are most like those of the items in a profile."""

from __future__ import annotations

from typing import ClassVar

from scipy import sparse

from leporid.data import Split
from leporid.models.shared.base import Indices, Scores
from leporid.models.shared.neighbourhood import NEIGHBOUR_SPACE, KNNConfig, neighbour_weights, weigh
from leporid.models.shared.profiles import ItemWeights
from leporid.models.shared.sparse import canonical
from leporid.progress import ProgressLike
from leporid.space import SearchSpace


class ItemKNN(ItemWeights):
    """Scores X W: item j sums its similarity to those of its K nearest items in the profile."""

    name = "itemknn"
    uses_weights = True
    config_class = KNNConfig
    config: KNNConfig
    search_space: ClassVar[SearchSpace] = NEIGHBOUR_SPACE

    def _fit(self, split: Split, *, seed: int, progress: ProgressLike) -> None:
        progress.start("itemknn", 1)
        by_item = canonical(self._weighed(self._remember(split.train)).T)
        # Row j holds the neighbours of the target j, so the voting matrix is the transpose.
        self.weights = canonical(neighbour_weights(by_item, self.config).T)
        progress.advance(1)

    def _score_profiles(self, profiles: sparse.csr_array, users: Indices | None) -> Scores:
        return super()._score_profiles(self._weighed(profiles), users)

    def _weighed(self, profiles: sparse.csr_array) -> sparse.csr_array:
        return weigh(profiles, self._if_fitted(self._rows), self.config.weighting)
