"""iALS: implicit-feedback matrix factorisation by alternating least squares.

Hu et al. (ICDM 2008), with the penalty scaled by frequency as in Rendle et al. (RecSys 2022).
The normal equations are solved by conjugate gradients (Takács et al., RecSys 2011). In the basis
of the eigenvectors of Q'Q the part that all rows share is diagonal, so that a step costs only the
seen columns, and the diagonal of the whole system preconditions it well: two steps from the
factors of the sweep before do as much for a sweep as an exact solution.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

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

_STEPS = 2
"""Conjugate gradient steps from the factors of the sweep before."""
_CONVERGED = 1e-12
"""The part of the first squared residual at which a system counts as solved."""


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
    _columns: Columns | None = None

    def _fit(self, split: Split, *, seed: int, progress: ProgressLike) -> None:
        profiles = self._remember(split.train)
        by_item = canonical(profiles.T)
        rng = np.random.default_rng(seed)
        scale = 0.1 / np.sqrt(self.config.dim)
        users = rng.normal(0.0, scale, (split.n_users, self.config.dim)).astype(np.float32)
        items = np.zeros((split.n_items, self.config.dim), dtype=np.float32)
        progress.start("ials", self.config.iterations)
        for sweep in range(self.config.iterations):
            items = Columns.of(users, self.config).solve(by_item, items)
            last = sweep == self.config.iterations - 1
            users = Columns.of(items, self.config).solve(profiles, None if last else users)
            progress.advance(1)
        self.user_factors, self.item_factors = users, items

    def _fold_in(self, profiles: sparse.csr_array) -> NDArray[np.float32]:
        if self._columns is None or self._columns.factors is not self.item_factors:
            self._columns = Columns.of(self.item_factors, self.config)
        return self._columns.solve(profiles)

    def _score_profiles(self, profiles: sparse.csr_array, users: Indices | None) -> Scores:
        return np.asarray(self._fold_in(profiles) @ self.item_factors.T, dtype=np.float32)

    def item_vectors(self) -> Scores:
        """q."""
        return self.item_factors

    def person_vectors(self, histories: Sequences, users: Indices | None = None) -> Scores:
        """p, folded in; zeros for someone of whom nothing is known."""
        return self._fold_in(self._profiles(histories))


@dataclass(frozen=True, eq=False)
class Columns:
    """The fixed side of a least-squares problem, ready to solve for any rows of the other."""

    factors: NDArray[np.float32]
    """float32[m, D]: q."""
    basis: NDArray[np.float32]
    """float32[D, D]: the eigenvectors of Q'Q."""
    turned: NDArray[np.float32]
    """float32[m, D]: q in that basis."""
    gram: NDArray[np.float32]
    """float32[D]: the eigenvalues of alpha_0 Q'Q."""
    config: IALSConfig

    @classmethod
    def of(cls, factors: NDArray[np.float32], config: IALSConfig) -> Self:
        """Find the basis, in float64."""
        wide = factors.astype(np.float64)
        values, vectors = np.linalg.eigh(config.unobserved_weight * (wide.T @ wide))
        basis = vectors.astype(np.float32)
        gram = np.maximum(values, 0).astype(np.float32)
        return cls(factors, basis, factors @ basis, gram, config)

    def solve(
        self, matrix: sparse.csr_array, start: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """float32[n, D]: factors of every row of a matrix [n, m], whose entries are weights.

        Each row p minimises sum_seen w (p.q - 1)^2 + alpha_0 sum_all (p.q)^2 + lambda_p |p|^2.
        From a `start` float32[n, D] a few steps are taken towards the solution, else all.
        """
        n, dim = matrix.shape[0], self.turned.shape[1]
        found = np.zeros((n, dim), np.float32) if start is None else start @ self.basis
        entries = matrix.indptr, matrix.indices, matrix.data
        frequency = matrix.sum(axis=1) + self.config.unobserved_weight * matrix.shape[1]
        penalty = self.config.l2 * frequency**self.config.frequency_exponent
        most = 2 * dim + 10 if start is None else _STEPS
        with one_thread_pool() as threads:
            _descend(
                entries,
                self.turned,
                self.gram,
                penalty.astype(np.float32),
                found,
                most,
                8 * threads,
            )
        return np.asarray(found @ self.basis.T)


@kernel(fastmath=True)
def _add_seen(columns: Any, weights: Any, other: Any, vector: Any, target: float, out: Any) -> None:
    """out += sum_seen w (target - q.vector) q, two columns at a time."""
    dim, n = len(vector), len(columns)
    for e in range(0, n - 1, 2):
        q, r = other[columns[e]], other[columns[e + 1]]
        a = b = np.float32(target)
        for d in range(dim):
            a -= q[d] * vector[d]
            b -= r[d] * vector[d]
        a *= weights[e]
        b *= weights[e + 1]
        for d in range(dim):
            out[d] += a * q[d] + b * r[d]
    if n % 2:
        q = other[columns[n - 1]]
        a = np.float32(target)
        for d in range(dim):
            a -= q[d] * vector[d]
        a *= weights[n - 1]
        for d in range(dim):
            out[d] += a * q[d]


@kernel(parallel=True, fastmath=True)
def _descend(
    entries: Any, other: Any, gram: Any, penalty: Any, found: Any, most: int, blocks: int
) -> None:
    """Preconditioned conjugate gradients on every row of `found`, `most` steps or to the end."""
    ptr, idx, val = entries
    n, dim = found.shape
    for block in prange(blocks):
        shared = np.empty(dim, np.float32)  # the diagonal without what was seen
        scale = np.empty(dim, np.float32)  # the whole diagonal
        residual, direction = np.empty(dim, np.float32), np.empty(dim, np.float32)
        image = np.empty(dim, np.float32)  # minus the system times the direction
        for row in range(block, n, blocks):
            p, seen = found[row], slice(ptr[row], ptr[row + 1])
            columns, weights = idx[seen], val[seen]
            for d in range(dim):
                shared[d] = scale[d] = gram[d] + penalty[row]
                residual[d] = -shared[d] * p[d]
                direction[d] = 0
            for e in range(len(columns)):
                q = other[columns[e]]
                for d in range(dim):
                    scale[d] += weights[e] * q[d] * q[d]
            _add_seen(columns, weights, other, p, 1.0, residual)
            before = enough = np.float32(0)
            for step in range(most):
                size = np.float32(0)
                for d in range(dim):
                    size += residual[d] * residual[d] / scale[d]
                if step == 0:
                    before, enough = size, np.float32(_CONVERGED) * size
                if size <= enough:
                    break
                turn = size / before
                for d in range(dim):
                    direction[d] = residual[d] / scale[d] + turn * direction[d]
                    image[d] = -shared[d] * direction[d]
                _add_seen(columns, weights, other, direction, 0.0, image)
                slope = np.float32(0)
                for d in range(dim):
                    slope -= direction[d] * image[d]
                length = size / slope
                for d in range(dim):
                    p[d] += length * direction[d]
                    residual[d] += length * image[d]
                before = size
