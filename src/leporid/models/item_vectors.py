"""Vectors that say how alike items are, for rules about diversity."""

import contextlib
from typing import Protocol

import numpy as np
from scipy import sparse

from leporid.data import Interactions
from leporid.embeddings import truncated_svd
from leporid.foundation import one_thread_pool
from leporid.ranking import Scores, VectorsUnsupportedError

_DIMENSIONS = 32
"""Number of columns of the vectors of a model that has none of its own."""


class HasItems(Protocol):
    """A fitted model, as far as the vectors of its items are concerned."""

    @property
    def known(self) -> Interactions: ...

    def item_vectors(self) -> Scores: ...


def vectors_of(model: HasItems) -> Scores:
    """Return float32[n_items, d], whose cosines say how alike items are.

    Without vectors of its own, those of a model come from an SVD of its interactions: they follow
    how often two items share a user.
    """
    with contextlib.suppress(VectorsUnsupportedError):
        return np.asarray(model.item_vectors(), np.float32)
    matrix = model.known.csr()
    popularity = np.maximum(np.asarray(matrix.sum(axis=0)).ravel(), 1)
    scaled = matrix @ sparse.diags_array(1 / np.sqrt(popularity))
    with one_thread_pool(1):  # many would fight with those that answer requests
        _, values, items = truncated_svd(scaled, _DIMENSIONS)
    return (items * values).astype(np.float32)
