"""What UserKNN and ItemKNN share: their settings, and the search for neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import sparse

from leporid.config import setting
from leporid.errors import ConfigError
from leporid.graph import top_k_neighbours
from leporid.models.shared.base import Indices
from leporid.models.shared.profiles import WINDOW_SPACE, ProfileConfig
from leporid.models.shared.sparse import canonical
from leporid.space import Choice, Float, Int, SearchSpace

_COSINES = ("cosine", "asymmetric_cosine")
_COUNTS_SHRINK = 1e9
"""Shrinkage so large that only the number of shared entries matters."""


@dataclass(frozen=True, kw_only=True)
class KNNConfig(ProfileConfig):
    """Settings of the neighbourhood models, as in the RecSys'19 evaluation study."""

    k: int = setting(400, at_least=1)
    """Neighbours of each row."""
    similarity: Literal["jaccard", "cosine", "asymmetric_cosine", "tversky"] = "jaccard"
    shrink: float = setting(0.0, at_least=0)
    """Added to the denominator: similarities that rest on few shared entries get smaller."""
    normalize: bool = True
    """Whether a cosine is divided by the lengths of the rows; False counts shared entries."""
    asymmetric_alpha: float = setting(0.5, at_least=0, at_most=1)
    """Share of a row's own length in the asymmetric cosine; 0.5 is the cosine."""
    tversky_alpha: float = setting(1.0, at_least=0)
    """Tversky: weight of what only the row itself has."""
    tversky_beta: float = setting(1.0, at_least=0)
    """Tversky: weight of what only the neighbour has; both 1 is Jaccard, both 0.5 is Dice."""

    def validate(self) -> None:
        """Refuse a combination that has no meaning."""
        if not self.normalize and self.similarity not in _COSINES:
            raise ConfigError(f"normalize=False is defined for cosines, not for {self.similarity}")


NEIGHBOUR_SPACE: SearchSpace = {
    "similarity": Choice("jaccard", "cosine", "asymmetric_cosine", "tversky"),
    "k": Int(10, 1000, log=True),
    "shrink": Float(0.0, 200.0),
    "asymmetric_alpha": Float(0.0, 1.0, when={"similarity": ("asymmetric_cosine",)}),
    "tversky_alpha": Float(0.0, 2.0, when={"similarity": ("tversky",)}),
    "tversky_beta": Float(0.0, 2.0, when={"similarity": ("tversky",)}),
    **WINDOW_SPACE,
}


def neighbour_weights(
    rows: sparse.csr_array,
    config: KNNConfig,
    against: sparse.csr_array | None = None,
    own: Indices | None = None,
) -> sparse.csr_array:
    """float32[len(rows), n]: the k largest similarities of each row to the rows of `against`.

    Without `against` the rows are compared with each other, and never with themselves; `own` names
    the row of `against` that each row is not to be compared with.
    """
    weights = top_k_neighbours(
        rows,
        config.k,
        against=against,
        own=own,
        similarity=config.similarity,
        shrink=config.shrink if config.normalize else _COUNTS_SHRINK,
        asymmetric_alpha=config.asymmetric_alpha,
        tversky_alpha=config.tversky_alpha,
        tversky_beta=config.tversky_beta,
    ).csr()
    if not config.normalize:
        weights.data = np.round(weights.data * np.float32(_COUNTS_SHRINK))
    return canonical(weights)
