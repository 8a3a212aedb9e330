"""iALS: implicit-feedback matrix factorisation by alternating least squares.

Hu et al. (ICDM 2008), with the penalty scaled by frequency as in Rendle et al. (RecSys 2022).
The normal equations are solved by conjugate gradients (Takács et al., RecSys 2011). In the basis
of the eigenvectors of Q'Q the part that all rows share is diagonal, so that a step costs only the
seen columns; with their mean added, that diagonal is the preconditioner. The first sweep begins
near the users' largest singular vectors.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.data import Sequences, Split
from leporid.foundation import (
    INNER,
    Float,
    Int,
    SearchSpace,
    kernel,
    on_each_thread,
    one_thread_pool,
    setting,
)
from leporid.graph import canonical
from leporid.models.closed_form.history_window import WINDOW_SPACE
from leporid.models.closed_form.products import CSR, csr_parts, unit_size
from leporid.models.closed_form.profiles import ProfileConfig, ProfileRecommender
from leporid.models.context import FitContext
from leporid.models.fitted_arrays import FittedArray
from leporid.ranking import Indices, Scores

_STEPS = 2
"""Conjugate gradient steps from the factors of the sweep before."""
_CONVERGED = 1e-12
"""The part of the first squared residual at which a system counts as solved."""
_NOTHING = 1e-30
"""A squared residual that is no residual: a penalty that is too strong makes all factors vanish."""
_ROUNDS = 2
"""Products with X X' that turn random vectors towards the largest singular vectors of X."""
_BLOCKS = 64
"""Interleaved shares of the rows, taken by the threads one after the other."""

Factors: TypeAlias = NDArray[np.float32]
"""float32[n, D]: a row of factors for each user or item."""
Vector: TypeAlias = NDArray[np.float32]
"""float32[D], or a number for each column that a row has seen."""


@dataclass(frozen=True, kw_only=True)
class IALSConfig(ProfileConfig):
    dim: int | Literal["auto"] = setting("auto", at_least=1)
    """Number of factors D; `auto`: one for 32 items, from 16 to 256."""
    iterations: int = setting(10, at_least=1)
    """Each solves all items, then all users."""
    unobserved_weight: float | Literal["auto"] = setting("auto", at_least=0)
    """alpha_0: the weight of every pair towards 0; an observed pair has 1, or its own. `auto`: 2
    times the square root of the share of pairs that are observed."""
    l2: float | Literal["auto"] = setting("auto", above=0)
    """The penalty lambda; with 0 the solution need not be unique. `auto`: a tenth of the square
    root of the share of pairs that are observed, at most 0.01."""
    frequency_exponent: float = 1.0
    """nu: lambda is multiplied by (a row's weights in all + alpha_0 x columns)^nu."""


@dataclass(frozen=True, eq=False)
class FixedSide:
    """The fixed side of a least-squares problem, ready to solve for any rows of the other."""

    factors: Factors
    """float32[m, D]: q."""
    basis: NDArray[np.float32]
    """float32[D, D]: the eigenvectors of Q'Q."""
    turned: Factors
    """float32[m, D]: q in that basis."""
    gram: Vector
    """float32[D]: the eigenvalues of Q'Q."""
    config: IALSConfig
    """Settings with no "auto" in them."""

    @classmethod
    def of(
        cls,
        factors: Factors,
        config: IALSConfig,
    ) -> Self:
        """Prepare the factors of one side."""
        basis, turned, gram = _in_eigenbasis(factors)
        return cls(factors, basis, turned, gram, config)

    def solve(
        self,
        matrix: sparse.csr_array,
        initial: Factors | None = None,
        threads: int = 1,
    ) -> Factors:
        """Return float32[n, D]: factors of every row of a matrix [n, m] of weights.

        Each row p minimises sum_seen w (p.q - 1)^2 + alpha_0 sum_all (p.q)^2 + lambda_p |p|^2.
        From `initial` float32[n, D] a few steps are taken towards the solution, else all.
        """
        n = matrix.shape[0]
        dim = self.turned.shape[1]
        if initial is None:
            factors = np.zeros((n, dim), np.float32)
            most_steps = 2 * dim + 10
        else:
            factors = initial @ self.basis
            most_steps = _STEPS
        matrix, power = unit_size(matrix)
        config = self.config
        assert config.unobserved_weight != "auto"  # a fit has found both
        assert config.l2 != "auto"
        settings = (
            config.unobserved_weight,
            config.l2,
            config.frequency_exponent,
            power,
        )
        blocks = iter(range(min(_BLOCKS, n)))

        def work(_thread: int) -> None:
            for block in blocks:
                _descend(
                    csr_parts(matrix),
                    self.turned,
                    self.gram,
                    settings,
                    factors,
                    most_steps,
                    block,
                )

        on_each_thread(work, max(1, min(threads, n)))
        return np.asarray(factors @ self.basis.T)


class IALS(ProfileRecommender):
    """Scores p . q_i; p is solved from the items of the profile (fold-in), of any user."""

    name = "ials"
    uses_weights = True
    config_class = IALSConfig
    config: IALSConfig
    search_space: ClassVar[SearchSpace] = {
        "dim": Int(16, 512, log=True),
        "unobserved_weight": Float(0.005, 5.0, log=True),
        "l2": Float(1e-4, 3.0, log=True),
        "frequency_exponent": Float(0.5, 1.0),
        **WINDOW_SPACE,
    }
    user_factors: FittedArray[Factors] = FittedArray(
        "users",
        shape=("users", "dim"),
    )
    """float32[n_users, D]: p of the training rows."""
    item_factors: FittedArray[Factors] = FittedArray(
        "items",
        shape=("items", "dim"),
    )
    """float32[n_items, D]: q."""
    _columns: FixedSide | None = None

    def _fit(
        self,
        split: Split,
        seed: int,
        context: FitContext,
    ) -> None:
        profiles = self._remember(split.train)
        by_item = canonical(profiles.T)
        dim = self._resolve_settings(profiles)
        context.progress.start("ials", self.config.iterations)
        with one_thread_pool() as threads:
            users = first_factors(profiles, by_item, dim, seed)
            items = np.zeros((split.n_items, users.shape[1]), dtype=np.float32)
            for sweep in range(self.config.iterations):
                items = FixedSide.of(users, self.config).solve(by_item, items, threads)
                is_last = sweep == self.config.iterations - 1
                initial = None if is_last else users
                users = FixedSide.of(items, self.config).solve(
                    profiles, initial, threads
                )
                context.progress.advance(1)
        self.user_factors = users
        self.item_factors = items

    def _resolve_settings(self, profiles: sparse.csr_array) -> int:
        """Replace "auto" in the settings, and return the number of factors."""
        n_users, n_items = profiles.shape
        root = float(np.sqrt(profiles.nnz / (n_users * n_items)))
        dim = min(max(16, n_items // 32), 256)
        if self.config.dim != "auto":
            dim = self.config.dim
        unobserved_weight = self.config.unobserved_weight
        if unobserved_weight == "auto":
            unobserved_weight = 2 * root
        l2 = self.config.l2
        if l2 == "auto":
            l2 = min(root / 10, 0.01)
        self.config = self.config.replace(
            dim=dim,
            unobserved_weight=unobserved_weight,
            l2=l2,
        )
        return int(dim)

    def _fold_in(self, profiles: sparse.csr_array) -> Factors:
        """Return float32[m, D]: p, solved from the items of each profile."""
        with one_thread_pool() as threads:
            if self._columns is None or self._columns.factors is not self.item_factors:
                self._columns = FixedSide.of(self.item_factors, self.config)
            return self._columns.solve(profiles, threads=threads)

    def _score_profiles(
        self,
        profiles: sparse.csr_array,
        users: Indices | None,
    ) -> Scores:
        factors = self._fold_in(profiles)
        return np.asarray(factors @ self.item_factors.T, dtype=np.float32)

    def item_vectors(self) -> Scores:
        return self.item_factors

    def user_vectors(
        self,
        histories: Sequences,
        users: Indices | None = None,
    ) -> Scores:
        """Return p, folded in; zeros for a user without history."""
        return self._fold_in(self._profiles(histories))


def first_factors(
    profiles: sparse.csr_array,
    by_item: sparse.csr_array,
    dim: int,
    seed: int,
) -> Factors:
    """Return float32[n_users, dim]: orthogonal, near the largest left singular vectors of X."""
    profiles, _ = unit_size(profiles)
    by_item, _ = unit_size(by_item)
    n_users = profiles.shape[0]
    random = np.random.default_rng(seed)
    users = random.standard_normal((n_users, dim), np.float32)
    for _ in range(_ROUNDS):
        _, turned, _ = _in_eigenbasis(profiles @ (by_item @ users))
        lengths = np.linalg.norm(turned, axis=0)
        # Shorter ones are rounding: X has no more directions.
        is_direction = lengths > 1e-5 * lengths.max()
        unit = turned / np.where(is_direction, lengths, 1)
        users = np.where(is_direction, unit, 0)
    return users * np.float32(np.sqrt(n_users / dim))


def _in_eigenbasis(
    factors: Factors,
) -> tuple[NDArray[np.float32], Factors, Vector]:
    """Return the eigenvectors of Q'Q [D, D], Q in their basis [m, D], and the eigenvalues [D]."""
    exact = factors.astype(np.float64)
    values, vectors = np.linalg.eigh(exact.T @ exact)
    basis = vectors.astype(np.float32)
    return basis, factors @ basis, np.maximum(values, 0).astype(np.float32)


@kernel(fastmath=True, **INNER)
def _products(
    columns: NDArray[np.integer],
    other: Factors,
    vector: Vector,
    out: Vector,
) -> None:
    """Set out = q.vector for the columns seen, four at a time."""
    n = len(columns)
    for e in range(0, n - 3, 4):
        q = other[columns[e]]
        r = other[columns[e + 1]]
        s = other[columns[e + 2]]
        t = other[columns[e + 3]]
        a = np.float32(0)
        b = np.float32(0)
        c = np.float32(0)
        d = np.float32(0)
        for k in range(len(vector)):
            a += q[k] * vector[k]
            b += r[k] * vector[k]
            c += s[k] * vector[k]
            d += t[k] * vector[k]
        out[e] = a
        out[e + 1] = b
        out[e + 2] = c
        out[e + 3] = d
    for e in range(n - n % 4, n):
        q = other[columns[e]]
        a = np.float32(0)
        for k in range(len(vector)):
            a += q[k] * vector[k]
        out[e] = a


@kernel(fastmath=True, **INNER)
def _add_columns(
    columns: NDArray[np.integer],
    other: Factors,
    times: Vector,
    out: Vector,
) -> None:
    """Add sum_seen times q to `out`, four columns at a time."""
    n = len(columns)
    for e in range(0, n - 3, 4):
        q = other[columns[e]]
        r = other[columns[e + 1]]
        s = other[columns[e + 2]]
        t = other[columns[e + 3]]
        a = times[e]
        b = times[e + 1]
        c = times[e + 2]
        d = times[e + 3]
        for k in range(len(out)):
            out[k] += a * q[k] + b * r[k] + c * s[k] + d * t[k]
    for e in range(n - n % 4, n):
        q = other[columns[e]]
        a = times[e]
        for k in range(len(out)):
            out[k] += a * q[k]


@kernel(fastmath=True)
def _descend(
    entries: CSR,
    other: Factors,
    gram: Vector,
    settings: tuple[float, float, float, float],
    factors: Factors,
    most_steps: int,
    block: int,
) -> None:
    """Solve the rows of a block, each in `most_steps` steps or to the end."""
    ptr, idx, val = entries
    unobserved, l2, exponent, power = settings  # entries are weights over `power`
    n, dim = factors.shape
    shared = np.empty(dim, np.float32)  # the diagonal without what was seen
    scale = np.empty(dim, np.float32)  # the whole diagonal, about
    residual = np.empty(dim, np.float32)
    direction = np.empty(dim, np.float32)
    image = np.empty(dim, np.float32)  # minus the system times the direction
    longest = 0
    for row in range(block, n, _BLOCKS):
        longest = max(longest, ptr[row + 1] - ptr[row])
    terms = np.empty(longest, np.float32)  # one per column seen
    for row in range(block, n, _BLOCKS):
        p = factors[row]
        seen = slice(ptr[row], ptr[row + 1])
        columns = idx[seen]
        weights = val[seen]
        total = weights.sum()
        if total == 0:
            p[:] = 0
            continue
        penalty = l2 * (power * total + unobserved * len(other)) ** exponent / power
        for d in range(dim):
            shared[d] = unobserved / power * gram[d] + penalty
            scale[d] = shared[d] + total / len(other) * gram[d]
            residual[d] = -shared[d] * p[d]
            direction[d] = 0
        _products(columns, other, p, terms)
        for e in range(len(columns)):
            terms[e] = weights[e] * (1 - terms[e])
        _add_columns(columns, other, terms, residual)
        state = (p, residual, direction, image, terms)
        _solve_row(columns, weights, other, shared, scale, state, most_steps)


# Inlined by numba, since sums that are compiled apart are rounded differently.
@kernel(fastmath=True, inline="always", **INNER)
def _solve_row(
    columns: NDArray[np.integer],
    weights: Vector,
    other: Factors,
    shared: Vector,
    scale: Vector,
    state: tuple[Vector, Vector, Vector, Vector, Vector],
    most_steps: int,
) -> None:
    """Take preconditioned conjugate gradient steps from the factors p and their residual."""
    p, residual, direction, image, terms = state
    dim = len(p)
    before = np.float32(0)
    enough = np.float32(0)
    for step in range(most_steps):
        size = np.float32(0)
        for d in range(dim):
            size += residual[d] * residual[d] / scale[d]
        if step == 0:
            before = size
            enough = max(np.float32(_CONVERGED) * size, np.float32(_NOTHING))
        if size <= enough:
            break
        turn = size / before
        slope = np.float32(0)
        for d in range(dim):
            direction[d] = residual[d] / scale[d] + turn * direction[d]
            image[d] = -shared[d] * direction[d]
            slope -= image[d] * direction[d]
        _products(columns, other, direction, terms)
        for e in range(len(columns)):
            slope += weights[e] * terms[e] * terms[e]
            terms[e] *= -weights[e]
        length = size / slope
        for d in range(dim):
            p[d] += length * direction[d]
        if step == most_steps - 1:
            break
        _add_columns(columns, other, terms, image)
        for d in range(dim):
            residual[d] += length * image[d]
        before = size
