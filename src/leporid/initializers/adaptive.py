"""Row lengths of spectral embeddings, and the choice of `alpha` and `lengths` by a probe.

The probe never sees validation or test: the newest tenth of each user's training interactions is
held out, every candidate is fitted on the rest, and its item vectors predict what was held out.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.data import Interactions, Split, random_split, temporal_split
from leporid.evaluation import probe
from leporid.initializers.base import Embedding, InitialEmbeddings

Lengths = Literal["as-is", "unit", "popularity", "balanced"]
ALPHAS = (0.0, 0.5)
POWERS: tuple[tuple[Lengths, float], ...] = (
    *(("popularity", power) for power in (0.5, 0.6, 0.75)),
    *(("balanced", power) for power in (0.3, 0.5)),
)
"""Candidates of `lengths` and `popularity_power`."""


def with_lengths(
    both: InitialEmbeddings, matrix: Any, lengths: Lengths, power: float
) -> InitialEmbeddings:
    """`both` with rows of other lengths; `matrix` is csr[n_users, n_items] of the interactions.

    unit: every row of length one. popularity: items are the sum of their users' unit vectors, each
    over the square root of the user's interactions, divided by the item's interactions to `power`;
    popular items are longer, and inner products of users and items have a meaning. balanced: such
    sums without the square root, Z (Z^T Z)^-1/4; with singular vectors as users that would be SVD.
    """
    if lengths == "as-is":
        return both
    users = replace(both.users, vectors=_unit(both.users.vectors))
    if lengths == "unit":
        items = replace(both.items, vectors=_unit(both.items.vectors))
    else:
        per_user = 0.5 if lengths == "popularity" else 0.0
        summed = item_sums(users.vectors, matrix, power, per_user)
        summed = summed if lengths == "popularity" else half_whitened(summed)
        items = Embedding(summed, None, both.users.provenance)
    return replace(both, users=_ready(users), items=_ready(items))


def item_sums(
    users: NDArray[np.float32], matrix: Any, power: float, user_power: float
) -> NDArray[np.float32]:
    """float32[n_items, d]: D_i^-power X^T D_u^-user_power U for vectors U; zeros without users."""
    per_user = np.maximum(np.diff(matrix.indptr), 1)
    per_item = np.maximum(np.bincount(matrix.indices, minlength=matrix.shape[1]), 1)
    weights = np.repeat(per_user**-user_power, np.diff(matrix.indptr)).astype(np.float32)
    weighted = sparse.csr_array((weights, matrix.indices, matrix.indptr), shape=matrix.shape)
    return np.asarray((weighted.T @ users) / per_item[:, None] ** power, dtype=np.float32)


def half_whitened(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Z (Z^T Z)^-1/4: singular values become their square roots; directions of none stay zero."""
    values, axes = np.linalg.eigh(vectors.astype(np.float64).T @ vectors)
    known = values > 1e-9 * max(values[-1], 0.0)
    scale = np.where(known, np.maximum(values, 1e-300) ** -0.25, 0.0)
    return np.asarray(vectors @ ((axes * scale) @ axes.T), dtype=np.float32)


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled = np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0)
    return np.asarray(scaled)


def _ready(side: Embedding) -> Embedding:
    """Entries of a root mean square of one; z-scoring the columns would undo the lengths."""
    about = {**side.provenance, "standardized": True}
    return replace(side, vectors=side.vectors / np.float32(side.size or 1.0), provenance=about)


def choose_settings(
    fit: Callable[..., InitialEmbeddings], train: Interactions, fixed: dict[str, Any]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The candidate whose item vectors predict held-out training items best, and all candidates.

    `fit(train, **settings)` gives embeddings; `fixed` are the settings that are not chosen. The
    first of equal candidates is taken.
    """
    split = inner_split(train)
    matrix = split.train.csr()
    tried: list[dict[str, Any]] = []
    given = fixed["popularity_power"]
    shapes: list[tuple[Lengths, float]] = [("as-is", given), ("unit", given), *POWERS]
    if "lengths" in fixed:
        shapes = [(fixed["lengths"], given)]
    for alpha in [fixed["alpha"]] if "alpha" in fixed else ALPHAS:
        plain = fit(split.train, alpha=alpha, lengths="as-is")
        for lengths, power in shapes:
            both = with_lengths(plain, matrix, lengths, power)
            found = probe((None, both.items.vectors), split).value()["items"]
            settings = {"alpha": alpha, "lengths": lengths, "popularity_power": power}
            tried.append({**settings, "NDCG@10": found})
    best = max(tried, key=lambda row: row["NDCG@10"])
    return {name: value for name, value in best.items() if name != "NDCG@10"}, tried


def inner_split(train: Interactions) -> Split:
    """Training data with the newest tenth of each user held out for validation, and no test."""
    return (temporal_split if train.has_order else random_split)(train, 0.9, 0.1)
