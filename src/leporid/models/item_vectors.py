"""Vectors that say how alike items are, for rules about diversity."""

import contextlib
from typing import Any

import numpy as np
from scipy import sparse

from leporid.embeddings import truncated_svd
from leporid.machine import one_thread_pool
from leporid.ranking import Scores, VectorsUnsupportedError


def vectors_of(model: Any) -> Scores:
    """float32[n_items, d] whose cosines say how alike items are: a model's own, or from its log.

    Those of an SVD of the log follow how often two items share a user.
    """
    with contextlib.suppress(VectorsUnsupportedError):
        return np.asarray(model.item_vectors(), np.float32)
    matrix = model.known.csr()
    popularity = np.maximum(np.asarray(matrix.sum(axis=0)).ravel(), 1)
    scaled = matrix @ sparse.diags_array(1 / np.sqrt(popularity))
    with one_thread_pool(1):  # many would fight with those that answer requests
        _, value, items = truncated_svd(scaled, 32)
    return (items * value).astype(np.float32)
