"""EASE: a linear item-to-item model with a closed form (Steck, WWW 2019)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from leporid.data import Split
from leporid.errors import DataError, warn
from leporid.foundation import (
    Float,
    ProgressLike,
    SearchSpace,
    format_bytes,
    free_memory,
    kernel,
    setting,
)
from leporid.graph import canonical
from leporid.models.closed_form.history_window import WINDOW_SPACE
from leporid.models.closed_form.products import (
    CSR,
    csr_parts,
    rows_times,
    top_k_products,
    unit_size,
)
from leporid.models.closed_form.profiles import ItemWeights, ProfileConfig
from leporid.models.context import FitContext
from leporid.models.fitted_arrays import FittedArray

_TOLERANCE = 1e-3
"""The largest relative residual of the inverse in float32; above it, float64 is taken."""
_TILE = 512
_SHARE = 0.05
"""The part of a block, nearest first, whose regressions are read off its inverse."""


@dataclass(frozen=True, kw_only=True)
class EASEConfig(ProfileConfig):
    """Settings of EASE; its inverse is dense, and takes n_items^3 operations."""

    max_items: int = setting(30_000, at_least=1)
    """Largest number of items for the dense inverse. With more, or with too little memory, each
    item is regressed on its nearest items only."""
    l2: float = setting(300.0, above=0)
    """The ridge lambda; with 0 the inverse need not exist."""
    neighbours: int = setting(500, at_least=1)
    """Number of nearest items that each item is regressed on when `max_items` is exceeded."""


class EASE(ItemWeights):
    """Scores P B for profiles P, B = argmin |X - X B|^2 + lambda |B|^2 with diag(B) = 0."""

    name = "ease"
    uses_weights = True
    config_class = EASEConfig
    config: EASEConfig
    search_space: ClassVar[SearchSpace] = {
        "l2": Float(1.0, 10_000.0, log=True),
        **WINDOW_SPACE,
    }
    weights: FittedArray[NDArray[np.float32] | sparse.csr_array] = FittedArray(
        shape=("items", "items")
    )
    """float32[n_items, n_items]: B; sparse where items are regressed on their nearest items."""

    def _fit(
        self,
        split: Split,
        seed: int,
        context: FitContext,
    ) -> None:
        profiles = self._remember(split.train)
        limit = self._limit(split.n_items)
        if limit is None:
            context.progress.start("ease", 1)
            self.weights = ease_weights(profiles, self.config.l2)
            context.progress.advance(1)
            return
        warn(
            f"{limit}: EASE regresses each of {split.n_items:,} items on its "
            f"{self.config.neighbours:,} nearest ones instead of all (neighbours, max_items)",
            3,
        )
        self.weights = neighbour_regressions(
            profiles, self.config.l2, self.config.neighbours, context.progress
        )

    def _limit(self, n_items: int) -> str | None:
        """Say why the matrix is too large to be dense; None if it is not."""
        if n_items > self.config.max_items:
            return f"more than {self.config.max_items:,} items"
        needed = 4 * n_items**2
        free = free_memory()
        if needed > free / 2:
            return f"a dense matrix of {format_bytes(needed)} in {format_bytes(free)} free memory"
        return None


def ease_weights(profiles: sparse.csr_array, l2: float) -> NDArray[np.float32]:
    """Return float32[n_items, n_items]: B = I - P diag(1 / diag(P)), P = (X'X + lambda I)^-1.

    It is computed in one float32 matrix, or in float64 if the residual of a probe vector is too
    large.
    """
    profiles, power = unit_size(profiles)
    l2 /= power**2
    by_item = canonical(profiles.T)
    for kind in (np.float32, np.float64):
        gram = rows_times(by_item, profiles)
        # The transpose of a symmetric matrix is the same one in Fortran order.
        matrix: NDArray[Any] = gram.astype(kind, copy=False).T
        del gram
        with np.errstate(over="ignore"):  # what float32 cannot hold is for float64
            matrix[np.diag_indices_from(matrix)] += l2
        factorise, invert = linalg.get_lapack_funcs(("potrf", "potri"), dtype=kind)
        # The upper triangle: OpenBLAS 0.3.31 crashes on the lower one for processors without AVX
        # (float32, an odd number of items).
        matrix, failed = factorise(matrix, lower=0, clean=0, overwrite_a=1)
        if not failed:
            matrix, failed = invert(matrix, lower=0, overwrite_c=1)
        if not failed and _residual(profiles, l2, matrix) <= _TOLERANCE:
            return _regressions(matrix.T).astype(np.float32, copy=False)
        del matrix
    raise DataError(f"the matrix X'X + {l2 * power**2} I cannot be inverted: raise l2")


def _residual(
    profiles: sparse.csr_array,
    l2: float,
    inverse: NDArray[np.floating],
) -> float:
    """Return |(X'X + lambda I) P v - v| / |v| for a vector v of random signs.

    `inverse` holds the upper triangle of P.
    """
    signs = np.random.default_rng(0).choice([-1.0, 1.0], len(inverse))
    product = linalg.get_blas_funcs("symv", dtype=inverse.dtype)
    image = product(1.0, inverse, signs.astype(inverse.dtype), lower=0)
    image = image.astype(np.float64)
    error = profiles.T @ (profiles @ image) + l2 * image - signs
    relative = np.linalg.norm(error) / np.linalg.norm(signs)
    return float(relative)


def _regressions(inverse: NDArray[np.floating]) -> NDArray[np.floating]:
    """Turn the lower triangle of P into B, in place and tile by tile."""
    for first in range(0, len(inverse), _TILE):
        tile = slice(first, first + _TILE)
        below = slice(first + _TILE, None)
        square = inverse[tile, tile]
        upper = np.triu_indices(len(square), 1)
        square[upper] = square.T[upper]
        inverse[tile, below] = inverse[below, tile].T
    inverse /= -np.diag(inverse)
    np.fill_diagonal(inverse, 0)
    return inverse


def neighbour_regressions(
    profiles: sparse.csr_array,
    l2: float,
    neighbours: int,
    progress: ProgressLike,
) -> sparse.csr_array:
    """Return float32[n_items, n_items]: B with at most `neighbours` entries in each column.

    This is the sparse approximation of Steck (NeurIPS 2019): the inverse of a small block of the
    Gram matrix, an item and those of largest cosine, gives the regressions of the item and of
    those nearest to it.
    """
    n_items = profiles.shape[1]
    profiles, power = unit_size(profiles)
    l2 /= power**2
    by_item = canonical(profiles.T)
    squares = by_item.multiply(by_item).sum(axis=1)
    norms = np.sqrt(np.maximum(squares, 1e-30))
    near = top_k_products(
        by_item,
        profiles,
        neighbours,
        rows=norms,
        columns=norms,
    )
    todo = np.ones(n_items, dtype=np.bool_)
    rows = []
    columns = []
    values = []
    progress.start("ease", n_items)
    for item in np.argsort(-np.diff(by_item.indptr), kind="stable"):
        if not todo[item]:
            continue
        first, stop = near.indptr[item : item + 2]
        by_weight = np.argsort(-near.data[first:stop], kind="stable")
        block = np.concatenate([[item], near.indices[first:stop][by_weight]])
        nearest = block[: 1 + int(_SHARE * len(block))]
        served = np.flatnonzero(todo[nearest])
        gram = l2 * np.eye(len(block))
        _add_gram(csr_parts(canonical(by_item[block].T)), gram)
        units = np.eye(len(block))[:, served]
        inverse = linalg.solve(
            gram,
            units,
            lower=True,
            assume_a="pos",
            check_finite=False,
        )
        diagonal = (served, np.arange(len(served)))
        weights = inverse / -inverse[diagonal]
        weights[diagonal] = 0
        rows.append(np.tile(block, len(served)))
        columns.append(np.repeat(block[served], len(block)))
        values.append(weights.T.ravel().astype(np.float32))
        todo[block[served]] = False
        progress.advance(len(served))
    places = (np.concatenate(rows), np.concatenate(columns))
    entries = (np.concatenate(values), places)
    regressions = sparse.csr_array(entries, shape=(n_items, n_items))
    regressions.eliminate_zeros()
    return canonical(regressions)


@kernel
def _add_gram(rows: CSR, out: NDArray[np.float64]) -> None:
    """Add X'X to `out` for the rows of a sorted CSR matrix X; only its lower triangle."""
    ptr, idx, val = rows
    for row in range(len(ptr) - 1):
        for a in range(ptr[row], ptr[row + 1]):
            for b in range(ptr[row], a + 1):
                out[idx[a], idx[b]] += val[a] * val[b]
