"""EASE: a linear item-to-item model with a closed form (Steck, WWW 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from leporid.config import setting
from leporid.data import Split
from leporid.errors import DataError
from leporid.models.shared.base import Indices, Learnt, Scores
from leporid.models.shared.dense import DenseConfig
from leporid.models.shared.profiles import WINDOW_SPACE, ProfileRecommender
from leporid.progress import ProgressLike
from leporid.space import Float, SearchSpace


@dataclass(frozen=True, kw_only=True)
class EASEConfig(DenseConfig):
    """Settings of EASE; its inverse is dense, and takes n_items^3 operations."""

    l2: float = setting(1000.0, above=0)
    """The ridge lambda; with 0 the inverse need not exist."""


class EASE(ProfileRecommender):
    """Scores P B, P the profiles, with B = argmin |X - X B|^2 + lambda |B|^2, diag(B) = 0.

    The entries of X and P are 1, or the weights of the interactions.
    """

    name = "ease"
    uses_weights = True
    config_class = EASEConfig
    config: EASEConfig
    search_space: ClassVar[SearchSpace] = {"l2": Float(1.0, 10_000.0, log=True), **WINDOW_SPACE}
    weights: Learnt[NDArray[np.float32]] = Learnt(shape=("items", "items"))
    """float32[n_items, n_items]: B."""

    def _fit(self, split: Split, *, seed: int, progress: ProgressLike) -> None:
        self.config.check_size("EASE", split.n_items**2, split.n_items)
        progress.start("ease", 1)
        self.weights = ease_weights(self._remember(split.train), self.config.l2)
        progress.advance(1)

    def _score_profiles(self, profiles: sparse.csr_array, users: Indices | None) -> Scores:
        return np.asarray(profiles @ self.weights, dtype=np.float32)


def ease_weights(profiles: sparse.csr_array, l2: float) -> NDArray[np.float32]:
    """float32[n_items, n_items]: B = I - P diag(1 / diag(P)), P = (X'X + lambda I)^-1.

    In float64 and in place: one dense matrix at a time besides the result.
    """
    gram = (profiles.T @ profiles).astype(np.float64).toarray(order="F")
    gram[np.diag_indices_from(gram)] += l2
    factor, failed = linalg.lapack.dpotrf(gram, lower=1, overwrite_a=1)
    inverse, singular = linalg.lapack.dpotri(factor, lower=1, overwrite_c=1)
    if failed or singular:
        raise DataError(f"the matrix X'X + {l2} I cannot be inverted: raise l2")
    diagonal = np.diag(inverse).copy()
    weights = inverse.astype(np.float32)  # only the lower triangle is filled
    lower = np.tril(weights, -1)
    weights = lower + lower.T
    weights /= -diagonal.astype(np.float32)[None, :]
    return np.ascontiguousarray(weights)
