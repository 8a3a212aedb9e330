"""The matrix log max(1, L S L^T) without forming it, and its leading singular vectors."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leporid.progress import NullProgress, ProgressLike

__all__ = ["LogOperator", "Singular", "top_singular"]

_BLOCK = 2048
"""Rows and columns of one block: 16 MB of float32, made and dropped."""
_OVERSAMPLE = 16
_STEPS = 10
_TOLERANCE = 1e-4


@dataclass(frozen=True, eq=False)
class Singular:
    """Leading singular values and left vectors of a symmetric matrix."""

    values: NDArray[np.float64]
    """float64[d], descending."""
    vectors: NDArray[np.float32]
    """float32[n, d]; the entry of largest magnitude in a column is positive."""
    residual: float
    """The largest ||Y u - lambda u|| over the largest singular value."""


class LogOperator:
    """Y = log max(1, (L * signs) L^T), symmetric, float32, applied to blocks of vectors."""

    def __init__(self, left: NDArray[np.float32], signs: NDArray[np.float32]) -> None:
        self._left = left
        self._right = np.ascontiguousarray((left * signs).T)
        self.n = left.shape[0]

    def apply(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """float32[n, m]: Y times float32[n, m]. Blocks below the diagonal are not computed."""
        out = np.zeros_like(vectors)
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            for a in range(0, self.n, _BLOCK):
                rows = slice(a, min(a + _BLOCK, self.n))
                for b in range(a, self.n, _BLOCK):
                    columns = slice(b, min(b + _BLOCK, self.n))
                    block = self._left[rows] @ self._right[:, columns]
                    _log_in_place(block, pool)
                    out[rows] += block @ vectors[columns]
                    if b > a:
                        out[columns] += block.T @ vectors[rows]
        return out

    def dense(self) -> NDArray[np.float64]:
        """float64[n, n]: Y itself, for graphs below the caller's limit."""
        product = self._left.astype(np.float64) @ self._right.astype(np.float64)
        return np.asarray(np.log(np.maximum(product, 1.0)))


def _log_in_place(block: NDArray[np.float32], pool: ThreadPoolExecutor) -> None:
    """log max(1, x) of every entry; numpy lets go of the interpreter lock inside."""

    def work(part: NDArray[np.float32]) -> None:
        np.maximum(part, np.float32(1.0), out=part)
        np.log(part, out=part)

    list(pool.map(work, np.array_split(block, max(1, len(block) // 256))))


def top_singular(
    operator: LogOperator,
    dim: int,
    *,
    dense: bool,
    seed: int = 0,
    progress: ProgressLike | None = None,
) -> Singular:
    """The `dim` leading singular vectors of Y, by LAPACK or by a block Krylov space.

    The Krylov space grows by a block a step, fully reorthogonalised, until every wanted pair
    has a residual of at most 1e-4 of the largest singular value, or after 10 steps.
    """
    progress = progress or NullProgress()
    if dense or 3 * (dim + _OVERSAMPLE) >= operator.n:
        values, vectors = np.linalg.eigh(operator.dense())
        order = np.argsort(-np.abs(values), kind="stable")[:dim]
        return Singular(np.abs(values[order]), _signed(vectors[:, order].astype(np.float32)), 0.0)
    width = dim + _OVERSAMPLE
    rng = np.random.default_rng(seed)
    block, _ = np.linalg.qr(rng.standard_normal((operator.n, width), dtype=np.float32))
    basis = np.empty((operator.n, 0), dtype=np.float32)
    images = np.empty((operator.n, 0), dtype=np.float32)
    limit = min(_STEPS, operator.n // width)
    progress.start("singular vectors", limit)
    for step in range(limit):
        image = operator.apply(block)
        basis, images = np.hstack([basis, block]), np.hstack([images, image])
        small = (basis.T @ images).astype(np.float64)
        values, mixing = np.linalg.eigh((small + small.T) / 2)
        order = np.argsort(-np.abs(values), kind="stable")[:dim]
        values, chosen = values[order], mixing[:, order].astype(np.float32)
        vectors = basis @ chosen
        errors = np.linalg.norm(images @ chosen - vectors * values.astype(np.float32), axis=0)
        residual = float(errors.max() / max(abs(values[0]), 1e-30))
        progress.advance(1, residual=residual)
        if residual <= _TOLERANCE or step + 1 == limit:
            break
        for _ in range(2):
            image = image - basis @ (basis.T @ image)
        block, _ = np.linalg.qr(image)
    return Singular(np.abs(values), _signed(vectors), residual)


def _signed(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    peak = np.abs(vectors).argmax(axis=0)
    return vectors * np.where(vectors[peak, np.arange(vectors.shape[1])] < 0, -1, 1).astype(
        np.float32
    )
