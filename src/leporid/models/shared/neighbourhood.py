"""What UserKNN and ItemKNN share: their settings, and the search for neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import sparse

from leporid.config import Config
from leporid.errors import ConfigError
from leporid.graph.neighbours import top_k_neighbours
from leporid.models.shared.sparse import canonical
from leporid.space import Choice, Float, Int, SearchSpace

__all__ = ["NEIGHBOUR_SPACE", "KNNConfig", "neighbour_weights"]

_COSINES = ("cosine", "asymmetric_cosine")
_COUNTS_SHRINK = 1e9
"""Shrinkage so large that only the number of shared entries matters."""


@dataclass(frozen=True, kw_only=True)
class KNNConfig(Config):
    """Settings of the neighbourhood models, as in the RecSys'19 evaluation study."""

    k: int = 400
    """Neighbours of each row."""
    similarity: Literal["jaccard", "cosine", "asymmetric_cosine", "tversky"] = "jaccard"
    shrink: float = 0.0
    """Added to the denominator: similarities that rest on few shared entries get smaller."""
    normalize: bool = True
    """Whether a cosine is divided by the lengths of the rows; False counts shared entries."""
    asymmetric_alpha: float = 0.5
    """Share of a row's own length in the asymmetric cosine; 0.5 is the cosine."""
    tversky_alpha: float = 1.0
    """Tversky: weight of what only the row itself has."""
    tversky_beta: float = 1.0
    """Tversky: weight of what only the neighbour has; both 1 is Jaccard, both 0.5 is Dice."""

    def validate(self) -> None:
        """Refuse settings that have no meaning."""
        if self.k < 1:
            raise ConfigError(f"k must be at least 1, not {self.k}")
        for name in ("shrink", "tversky_alpha", "tversky_beta"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must not be negative, but is {getattr(self, name)}")
        if not 0 <= self.asymmetric_alpha <= 1:
            raise ConfigError(f"asymmetric_alpha must lie in [0, 1], not {self.asymmetric_alpha}")
        if not self.normalize and self.similarity not in _COSINES:
            raise ConfigError(f"normalize=False is defined for cosines, not for {self.similarity}")


NEIGHBOUR_SPACE: SearchSpace = {
    "similarity": Choice("jaccard", "cosine", "asymmetric_cosine", "tversky"),
    "k": Int(10, 1000, log=True),
    "shrink": Float(0.0, 200.0),
    "asymmetric_alpha": Float(0.0, 1.0, when={"similarity": ("asymmetric_cosine",)}),
    "tversky_alpha": Float(0.0, 2.0, when={"similarity": ("tversky",)}),
    "tversky_beta": Float(0.0, 2.0, when={"similarity": ("tversky",)}),
}


def neighbour_weights(
    rows: sparse.csr_array, config: KNNConfig, against: sparse.csr_array | None = None
) -> sparse.csr_array:
    """float32[len(rows), n]: the k largest similarities of each row to the rows of `against`.

    Without `against` the rows are compared with each other, and never with themselves.
    """
    found = top_k_neighbours(
        rows,
        config.k,
        against=against,
        similarity=config.similarity,
        shrink=config.shrink if config.normalize else _COUNTS_SHRINK,
        asymmetric_alpha=config.asymmetric_alpha,
        tversky_alpha=config.tversky_alpha,
        tversky_beta=config.tversky_beta,
    ).csr()
    if not config.normalize:
        found.data = np.round(found.data * np.float32(_COUNTS_SHRINK))
    return canonical(found)
