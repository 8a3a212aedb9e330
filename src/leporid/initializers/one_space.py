"""User and item vectors of separate graphs brought into one space, over the interactions.

Eigenvectors of the user graph and of the item graph have nothing in common but their order: before
training the dot product of a user and an item means nothing. What users had says where among the
items they belong.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from leporid.initializers.base import InitialEmbeddings
from leporid.spectral import Embedding, procrustes

Align = Literal["none", "items", "procrustes"]


def item_means(items: Embedding, matrix: Any, provenance: dict[str, Any]) -> Embedding:
    """Users as the mean of their items' z-scored vectors; zeros for those without items."""
    summed = matrix @ _weighted(items, 0).vectors
    mean = np.asarray(summed / np.maximum(np.diff(matrix.indptr), 1)[:, None], dtype=np.float32)
    return Embedding(mean, items.eigenvalues, provenance)


def in_one_space(
    start: InitialEmbeddings, matrix: Any, align: Align, power: float
) -> InitialEmbeddings:
    """`start` with its users in the space of its items, and its columns weighted.

    `matrix` is the CSR of the interactions, [n_users, n_items]; for `items` the users of `start`
    are `item_means`.
    """
    if align == "none" and not power:
        return start
    users, items = _weighted(start.users, power), _weighted(start.items, power)
    if align == "procrustes":
        # The R with the largest sum of <u R, i> over all interactions (u, i).
        turn = procrustes(users.vectors, matrix @ items.vectors)
        users = replace(users, vectors=users.vectors @ turn.astype(np.float32))
    if align != "none":
        # Columns of the users are no eigenvectors of their graph then.
        users = replace(users, eigenvalues=None)
    return replace(start, users=users, items=items if power else start.items)


def _weighted(side: Embedding, power: float) -> Embedding:
    """Z-scored columns times their eigenvalue to `power`; isolated rows stay zero.

    With a power they have a root mean square of one, and are not to be z-scored again: that would
    undo the weights.
    """
    vectors = np.where(side.isolated[:, None], np.float32(0), side.standardized().vectors)
    if not power or side.eigenvalues is None:
        return replace(side, vectors=vectors)
    weights = np.zeros(side.dim, np.float32)
    weights[: len(side.eigenvalues)] = np.maximum(side.eigenvalues, 0) ** power
    about = {**side.provenance, "standardized": True}
    weighted = Embedding(vectors * weights, side.eigenvalues, about)
    return replace(weighted, vectors=weighted.vectors / np.float32(weighted.size or 1.0))
