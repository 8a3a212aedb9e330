"""iALS: implicit-feedback matrix factorisation by exact alternating least squares.

Hu et al. (ICDM 2008), with the penalty scaled by frequency as in Rendle et al. (RecSys 2022).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numba import prange
from numpy.typing import NDArray
from scipy import sparse

from leporid.config import setting
from leporid.data import Sequences, Split
from leporid.kernel import kernel
from leporid.models.shared.base import Indices, Learnt, Scores
from leporid.models.shared.profiles import WINDOW_SPACE, ProfileConfig, ProfileRecommender
from leporid.models.shared.sparse import canonical
from leporid.progress import ProgressLike
from leporid.space import Float, Int, SearchSpace
from leporid.threads import one_thread_pool


@dataclass(frozen=True, kw_only=True)
class IALSConfig(ProfileConfig):
    """Settings of iALS."""

    dim: int = setting(64, at_least=1)
    """Number of factors D."""
    iterations: int = setting(10, at_least=1)
    """Each solves all items, then all users."""
    unobserved_weight: float = setting(0.1, at_least=0)
    """alpha_0: the weight of every pair towards 0; an observed pair has weight 1, or that of its
    interactions, towards 1. In the words of Hu et al., the confidence is 1 + weight / alpha_0."""
    l2: float = setting(0.01, above=0)
    """The penalty lambda; with 0 the solution need not be unique."""
    frequency_exponent: float = 1.0
    """nu: lambda is multiplied by (a row's weights in all + alpha_0 x columns)^nu."""


class IALS(ProfileRecommender):
    """Scores p . q_i; whoever is scored, p is solved from the items of the profile (fold-in)."""

    name = "ials"
    uses_weights = True
    config_class = IALSConfig
    config: IALSConfig
    search_space: ClassVar[SearchSpace] = {
        "dim": Int(16, 512, log=True),
        "unobserved_weight": Float(0.005, 1.0, log=True),
        "l2": Float(1e-4, 0.1, log=True),
        **WINDOW_SPACE,
    }
    user_factors: Learnt[NDArray[np.float32]] = Learnt("users", shape=("users", "dim"))
    """float32[n_users, D]: p of the training rows."""
    item_factors: Learnt[NDArray[np.float32]] = Learnt("items", shape=("items", "dim"))
    """float32[n_items, D]: q."""

    def _fit(self, split: Split, *, seed: int, progress: ProgressLike) -> None:
        profiles = self._remember(split.train)
        by_item = canonical(profiles.T)
        rng = np.random.default_rng(seed)
        scale = 0.1 / np.sqrt(self.config.dim)
        users = rng.normal(0.0, scale, (split.n_users, self.config.dim)).astype(np.float32)
        progress.start("ials", self.config.iterations)
        for _ in range(self.config.iterations):
            items = solve_factors(by_item, users, self.config)
            users = solve_factors(profiles, items, self.config)
            progress.advance(1)
        self.user_factors, self.item_factors = users, items

    def _score_profiles(self, profiles: sparse.csr_array, users: Indices | None) -> Scores:
        folded = solve_factors(profiles, self.item_factors, self.config)
        return np.asarray(folded @ self.item_factors.T, dtype=np.float32)

    def item_vectors(self) -> Scores:
        """q."""
        return self.item_factors

    def person_vectors(self, histories: Sequences, users: Indices | None = None) -> Scores:
        """p, folded in; zeros for someone of whom nothing is known."""
        return solve_factors(self._profiles(histories), self.item_factors, self.config)


def solve_factors(
    matrix: sparse.csr_array, fixed: NDArray[np.float32], config: IALSConfig
) -> NDArray[np.float32]:
    """float32[n, D]: the best factors of every row of weights [n, m], given those of the columns.

    Each row p minimises sum_seen w (p.q - 1)^2 + alpha_0 sum_all (p.q)^2 + lambda_p |p|^2, whose
    normal equations are solved in float64 (their sums over seen columns come in float32).
    """
    other = np.ascontiguousarray(fixed, dtype=np.float32)
    out = np.empty((matrix.shape[0], other.shape[1]), dtype=np.float32)
    with one_thread_pool() as threads:
        wide = other.astype(np.float64)
        gram = config.unobserved_weight * (wide.T @ wide)
        sums = matrix.astype(np.float64).sum(axis=1)
        frequency = sums + config.unobserved_weight * matrix.shape[1]
        penalty = config.l2 * frequency**config.frequency_exponent
        weights = matrix.data if (matrix.data != 1).any() else matrix.data[:0]
        rows = matrix.indptr, matrix.indices, weights
        _solve_rows(rows, other, gram, penalty, out, threads * 8)
    return out


@kernel(parallel=True)
def _solve_rows(rows: Any, other: Any, gram: Any, penalty: Any, out: Any, blocks: int) -> None:
    """`rows` is (indptr, columns, weights); none are all 1."""
    ptr, idx, val = rows
    n, dim = out.shape
    for block in prange(blocks):
        for row in range(block, n, blocks):
            if ptr[row] == ptr[row + 1]:
                out[row] = 0.0
                continue
            seen = other[idx[ptr[row] : ptr[row + 1]]]
            weighed = seen
            if len(val):
                weighed = seen * val[ptr[row] : ptr[row + 1]].reshape(-1, 1)
            system = gram + seen.T @ weighed
            for d in range(dim):
                system[d, d] += penalty[row]
            out[row] = np.linalg.solve(system, weighed.sum(axis=0).astype(np.float64))
