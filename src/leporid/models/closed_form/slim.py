"""SLIM: a sparse linear item-to-item model by elastic net (Ning and Karypis, ICDM 2011).

For item j, minimise w'Gw / 2 - t'w + l1 |w|_1 + l2 |w|^2 / 2 with G = X'X, t = x_j'X, w_j = 0, by
coordinate descent on working sets: a small dense problem over the promising coordinates is solved
to convergence; then all others are checked, and those that would move join it. Nothing dense is
larger than that working set.
"""

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from numba import prange
from numpy.typing import NDArray
from scipy import sparse

from leporid.data import Split
from leporid.foundation import (
    Float,
    Int,
    NullProgress,
    ProgressLike,
    SearchSpace,
    kernel,
    one_thread_pool,
    setting,
)
from leporid.graph import Neighbours, canonical
from leporid.models.closed_form.history_window import WINDOW_SPACE
from leporid.models.closed_form.products import CSR, csr_parts
from leporid.models.closed_form.profiles import ItemWeights, ProfileConfig
from leporid.models.context import FitContext

_ITEMS_PER_STEP = 256
"""Columns solved between two steps of the progress bar."""
_FIRST = 64
"""Coordinates of the first working set."""

Problem: TypeAlias = tuple[float, float, bool, int, float]
"""Settings as kernels take them: l1, l2, positive, max_iterations, tolerance."""
Vector: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class SLIMConfig(ProfileConfig):
    """Settings of SLIM. Its penalties do not depend on the number of users."""

    l1: float = setting(0.5, at_least=0)
    """The L1 penalty: an item needs more users in common than this before it gets a weight."""
    l2: float = setting(100.0, at_least=0)
    """The L2 penalty, as in EASE."""
    positive: bool = True
    """Whether weights must not be negative, as in the original."""
    top_k: int = setting(400, at_least=1)
    """Largest weights kept for each target item."""
    max_iterations: int = setting(100, at_least=1)
    """Rounds of working sets, and sweeps over one, at most."""
    tolerance: float = setting(1e-3, above=0)
    """A column is solved when no weight changes by more than this share of the largest."""


class SLIM(ItemWeights):
    """Scores P W, w_j = argmin |x_j - X w|^2 / 2 + l1 |w| + l2 |w|^2 / 2 with w_jj = 0."""

    name = "slim"
    config_class = SLIMConfig
    config: SLIMConfig
    search_space: ClassVar[SearchSpace] = {
        "l1": Float(0.03, 10.0, log=True),
        "l2": Float(3.0, 3000.0, log=True),
        "top_k": Int(5, 1000, log=True),
        **WINDOW_SPACE,
    }

    def _fit(
        self,
        split: Split,
        seed: int,
        context: FitContext,
    ) -> None:
        profiles = self._remember(split.train)
        self.weights = slim_weights(profiles, self.config, context.progress)


def slim_weights(
    profiles: sparse.csr_array,
    config: SLIMConfig,
    progress: ProgressLike | None = None,
) -> sparse.csr_array:
    """Return float32[n_items, n_items]: W, column j the elastic net of item j on all others."""
    progress = progress or NullProgress()
    n_items = profiles.shape[1]
    gram = canonical(profiles.T @ profiles)
    parts = csr_parts(gram)
    diagonal = gram.diagonal().astype(np.float64)
    problem = (
        config.l1,
        config.l2,
        config.positive,
        config.max_iterations,
        config.tolerance,
    )
    k = max(1, min(config.top_k, n_items - 1))
    sources = np.full((n_items, k), -1, dtype=np.int32)
    values = np.zeros((n_items, k), dtype=np.float32)
    progress.start("slim", n_items)
    with one_thread_pool() as threads:
        for start in range(0, n_items, _ITEMS_PER_STEP):
            stop = min(start + _ITEMS_PER_STEP, n_items)
            _columns(
                parts,
                diagonal,
                (start, stop),
                problem,
                sources,
                values,
                threads * 4,
            )
            progress.advance(stop - start)
    return canonical(Neighbours(sources, values, n_items).csr().T)


@kernel
def _step(
    rho: float,
    curvature: float,
    l1: float,
    positive: bool,
) -> float:
    """Return the minimiser along one coordinate (soft threshold)."""
    if rho > l1:
        return (rho - l1) / curvature
    if rho < -l1 and not positive:
        return (rho + l1) / curvature
    return 0.0


@kernel
def _descend(
    gram: NDArray[np.float64],
    target: Vector,
    problem: Problem,
    w: Vector,
    gw: Vector,
) -> None:
    """Descend along one coordinate after the other; `w` and `gw` = G w are updated."""
    l1, l2, positive, limit, tolerance = problem
    size = len(w)
    for _ in range(limit):
        largest_change = 0.0
        largest = 0.0
        for i in range(size):
            old = w[i]
            bend = gram[i, i]
            new = _step(target[i] - gw[i] + bend * old, bend + l2, l1, positive)
            if new != old:
                change = new - old
                for q in range(size):
                    gw[q] += change * gram[i, q]
                w[i] = new
                largest_change = max(largest_change, abs(change))
            largest = max(largest, abs(new))
        if largest_change <= tolerance * largest:
            break


@kernel
def _dense_part(
    gram: CSR,
    members: NDArray[np.int32],
    position: NDArray[np.int32],
) -> NDArray[np.float64]:
    """Return float64[size, size]: G between the members."""
    ptr, idx, val = gram
    size = len(members)
    part = np.zeros((size, size))
    for c in range(size):
        position[members[c]] = c
    for c in range(size):
        for p in range(ptr[members[c]], ptr[members[c] + 1]):
            column = position[idx[p]]
            if column >= 0:
                part[c, column] = val[p]
    for c in range(size):
        position[members[c]] = -1
    return part


@kernel
def _gains(
    candidates: NDArray[np.int32],
    diagonal: Vector,
    target: Vector,
    problem: Problem,
    w: Vector,
    gw: Vector,
    gain: Vector,
) -> None:
    """Write how far each coordinate outside the working set would move."""
    l1, l2, positive, _, _ = problem
    for c in range(len(candidates)):
        i = candidates[c]
        gain[c] = 0.0
        if w[i] == 0.0:
            gain[c] = abs(_step(target[i] - gw[i], diagonal[i] + l2, l1, positive))


@kernel
def _solve(
    gram: CSR,
    diagonal: Vector,
    target: Vector,
    candidates: NDArray[np.int32],
    problem: Problem,
    w: Vector,
    gw: Vector,
    position: NDArray[np.int32],
) -> None:
    """Fill `w` for one column; `w` and `gw` come as zeros and are left at the solution."""
    ptr, idx, val = gram
    _, _, _, limit, tolerance = problem
    gain = np.zeros(len(candidates))
    members = np.empty(len(candidates), dtype=np.int32)
    n_members = 0
    largest = 0.0
    for _ in range(limit):
        # Everything outside that would move by more than the tolerance joins, the largest first.
        _gains(candidates, diagonal, target, problem, w, gw, gain)
        size = n_members
        for c in np.argsort(-gain, kind="mergesort")[: max(_FIRST, n_members)]:
            if gain[c] <= tolerance * largest:
                break
            members[size] = candidates[c]
            size += 1
        if size == n_members:
            break
        inside = members[:size]
        part = _dense_part(gram, inside, position)
        local_w = w[inside]
        local_gw = gw[inside]
        _descend(part, target[inside], problem, local_w, local_gw)
        n_members = 0
        largest = 0.0
        for c in range(size):
            i = inside[c]
            change = local_w[c] - w[i]
            largest = max(largest, abs(local_w[c]))
            if change != 0.0:
                for p in range(ptr[i], ptr[i + 1]):
                    gw[idx[p]] += change * val[p]
                w[i] = local_w[c]
            if w[i] != 0.0:
                members[n_members] = i
                n_members += 1


@kernel(parallel=True)
def _columns(
    gram: CSR,
    diagonal: Vector,
    part: tuple[int, int],
    problem: Problem,
    sources: NDArray[np.int32],
    values: NDArray[np.float32],
    blocks: int,
) -> None:
    """Solve the items of `part` (start, stop) in parallel; write each one's largest weights."""
    start, stop = part
    ptr, idx, val = gram
    l1, _, positive, _, _ = problem
    n, k = sources.shape
    for block in prange(blocks):
        w = np.zeros(n)
        gw = np.zeros(n)
        target = np.zeros(n)
        coordinates = np.empty(n, dtype=np.int32)
        position = np.full(n, -1, dtype=np.int32)
        for j in range(start + block, stop, blocks):
            size = 0
            for p in range(ptr[j], ptr[j + 1]):
                i = idx[p]
                target[i] = val[p]
                # G and w are not negative, so rho <= G_ij: smaller ones stay zero for good.
                if positive and i != j and val[p] > l1:
                    coordinates[size] = i
                    size += 1
            if not positive:
                for i in range(n):
                    if i != j and diagonal[i] > 0.0:
                        coordinates[size] = i
                        size += 1
            free = coordinates[:size]
            _solve(gram, diagonal, target, free, problem, w, gw, position)
            for p, c in enumerate(np.argsort(-np.abs(w[free]), kind="mergesort")[:k]):
                if w[free[c]] == 0.0:
                    break
                sources[j, p] = free[c]
                values[j, p] = w[free[c]]
            w[:] = 0.0
            gw[:] = 0.0
            target[:] = 0.0
