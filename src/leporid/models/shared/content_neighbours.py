"""`ContentNeighbours`: items like those a person had, by content alone; what cold starts must beat.

The score of an item is the sum of its cosines with the items of the history. There is nothing to
fit, so items nobody has touched are scored like all others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leporid.data import IdMap, Sequences, item_features


class ContentNeighbours:
    """A scorer for `leporid.evaluate`, over the items of an id map and a table about them."""

    def __init__(self, items: IdMap, source: Any, columns: tuple[str, ...] = ()) -> None:
        self._features = item_features(items, source, columns=columns).matrix

    def score(self, users: NDArray[np.int32], history: Sequences) -> NDArray[np.float32]:
        """float32[len(users), n_items]."""
        taken = history.take(users)
        first, last = taken.indptr[0], taken.indptr[-1]
        profiles = sparse.csr_array(
            (np.ones(last - first, np.float32), taken.items[first:last], taken.indptr - first),
            shape=(len(users), self._features.shape[0]),
        )
        scores = profiles @ self._features @ self._features.T
        return np.asarray(scores.toarray(), dtype=np.float32)
