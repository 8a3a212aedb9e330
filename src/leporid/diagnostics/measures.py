"""Spectrum, norms and neighbours of embeddings, and how far training moved them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from leporid.errors import DataError
from leporid.spectral import Embedding, standardize


@dataclass(frozen=True, eq=False)
class SideSummary:
    """The users' or the items' vectors in a few numbers."""

    rows: int
    dim: int
    isolated: int
    """Rows that are zero throughout."""
    spectrum: NDArray[np.float64]
    """Eigenvalues of A where the method has them, else singular values of the vectors."""
    spectrum_name: str
    effective_rank: float
    """(sum s^2)^2 / sum s^4 of the centred vectors' singular values s."""
    norm_quantiles: list[float]
    """Smallest, quartiles and largest of the rows' norms."""
    degree_correlation: float | None
    """Spearman's rank correlation of norm and degree; None without degrees."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "dim": self.dim,
            "isolated": self.isolated,
            self.spectrum_name: self.spectrum.tolist(),
            "effective rank": self.effective_rank,
            "norm quantiles": self.norm_quantiles,
            "norm-degree correlation": self.degree_correlation,
        }


def summarize(embedding: Embedding, degrees: NDArray[Any] | None = None) -> SideSummary:
    """The summary of one side; `degrees` int[n] adds the correlation of norm and degree."""
    vectors = embedding.vectors
    lengths = np.linalg.norm(vectors, axis=1)
    centred = vectors.astype(np.float64) - vectors.mean(axis=0, dtype=np.float64)
    # The d x d second moments have the squares of the singular values: cheap for tall matrices.
    squares = np.maximum(np.linalg.eigvalsh(centred.T @ centred)[::-1], 0.0)
    total = squares.sum()
    values, name = np.sqrt(squares), "singular values"
    if embedding.eigenvalues is not None:
        values, name = np.asarray(embedding.eigenvalues, dtype=np.float64), "eigenvalues"
    correlation = None
    if degrees is not None and len(lengths) > 2 and np.ptp(lengths) and np.ptp(degrees):
        correlation = float(spearmanr(lengths, degrees).statistic)
    return SideSummary(
        rows=embedding.n,
        dim=embedding.dim,
        isolated=int(np.count_nonzero(lengths == 0)),
        spectrum=values,
        spectrum_name=name,
        effective_rank=float(total**2 / (squares**2).sum()) if total > 0 else 0.0,
        norm_quantiles=np.quantile(lengths, [0.0, 0.25, 0.5, 0.75, 1.0]).tolist(),
        degree_correlation=correlation,
    )


def norms_by_degree(
    vectors: NDArray[np.float32], degrees: NDArray[Any], groups: int = 10
) -> list[dict[str, Any]]:
    """Mean norm of the rows in groups of equal size, from the lowest degrees up."""
    lengths = np.linalg.norm(vectors, axis=1)
    order = np.argsort(degrees, kind="stable")
    return [
        {
            "degrees": f"{int(degrees[part].min())}-{int(degrees[part].max())}",
            "rows": len(part),
            "mean norm": float(lengths[part].mean()),
        }
        for part in np.array_split(order, min(groups, len(order)))
    ]


def nearest(vectors: NDArray[np.float32], row: int, n: int = 10) -> list[tuple[int, float]]:
    """The `n` rows nearest to `row` by the cosine of standardised vectors, best first."""
    ready = standardize(vectors)
    ready /= np.maximum(np.linalg.norm(ready, axis=1, keepdims=True), 1e-12)
    cosine = ready @ ready[row]
    cosine[row] = -np.inf
    best = np.argsort(-cosine, kind="stable")[: min(n, len(vectors) - 1)]
    return [(int(i), float(cosine[i])) for i in best]


@dataclass(frozen=True, eq=False)
class Movement:
    """How far training moved each row from its initial embedding."""

    distance: NDArray[np.float64]
    """float64[n]: ||after - factor x initial|| over the mean norm of factor x initial."""
    factor: float
    """What the initial embeddings were multiplied by: the given scale, or the least-squares fit."""
    groups: list[dict[str, Any]]
    """Mean distance by degree, tail first (quarters); one group without degrees."""


def movement(
    initial: Embedding,
    after: Embedding,
    degrees: NDArray[Any] | None = None,
    scale: float | None = None,
) -> Movement:
    """Compare the trained vectors with the standardised initial ones, row by row.

    Models multiply initial embeddings by a scale of their own. Without `scale` it is estimated by
    least squares.
    """
    if initial.vectors.shape != after.vectors.shape:
        raise DataError(
            f"the initial embeddings have shape {list(initial.vectors.shape)} and the trained ones "
            f"{list(after.vectors.shape)}: they are not of one model"
        )
    ready = initial.provenance.get("standardized") or initial.provenance.get("method") == "random"
    first = (initial.vectors if ready else standardize(initial.vectors)).astype(np.float64)
    last = after.vectors.astype(np.float64)
    best = float((first * last).sum() / max((first * first).sum(), 1e-300))
    factor = best if scale is None else scale
    unit = float(np.linalg.norm(first * factor, axis=1).mean())
    distance = np.linalg.norm(last - factor * first, axis=1) / max(unit, 1e-12)
    if degrees is None:
        groups = [{"group": "all", "rows": len(distance), "moved": float(distance.mean())}]
    else:
        order = np.argsort(degrees, kind="stable")
        names = ("tail (fewest 25%)", "second quarter", "third quarter", "head (most 25%)")
        groups = [
            {"group": name, "rows": len(part), "moved": float(distance[part].mean())}
            for name, part in zip(names, np.array_split(order, 4), strict=True)
            if len(part)
        ]
    return Movement(distance, factor, groups)
