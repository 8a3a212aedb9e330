"""`BoundRules`: rules as arrays over the items of one model, and the ranking under them."""

from dataclasses import dataclass

import numpy as np
from numba import prange
from numpy.typing import NDArray
from scipy import sparse

from leporid.data import IdMap, Sequences
from leporid.errors import ConfigError
from leporid.foundation import kernel
from leporid.ranking.top_k import Floats, Ints, Mask, TopK, masked_top_k

_POOL = 200
_POOL_PER_ITEM = 10
"""Lists of n items are chosen from the best max(200, 10 n) that are allowed."""


@dataclass(frozen=True, eq=False, kw_only=True)
class BoundRules:
    """Rules as arrays over the items of one model."""

    items: IdMap
    allowed: Mask
    """bool[n_items]."""
    boost: NDArray[np.float64]
    """float64[n_items]: factors times standardised columns."""
    labels: sparse.csr_array
    """float32[n_items, n_values]: the values that are capped."""
    caps: NDArray[np.int32]
    """int32[n_values]: how often each may occur in a list."""
    diversity: float
    """Weight d of maximal marginal relevance (`Rules.diversity`)."""
    vectors: Floats
    """float32[n_items, d] of length 1; empty without diversity."""
    slots: dict[int, int]
    """Rank to item index, ascending."""
    reorders: bool
    """Whether boosts, caps or diversity may change the order of the scores."""

    def work(self, n: int) -> int:
        """Return roughly how many operations a list of `n` items takes."""
        return self._pool_size(n) * (20 + n * (4 + int(self.vectors.shape[1])))

    def check_n(self, n: int) -> None:
        """Refuse lists too short for a slot."""
        if self.slots and max(self.slots) > n:
            raise ConfigError(
                f"slots.{max(self.slots)} is beyond the list of {n} items: raise n"
            )

    def top_k(
        self,
        scores: Floats,
        n: int,
        *,
        seen: Sequences | None = None,
        allowed: Mask | None = None,
    ) -> TopK:
        """Rank as `masked_top_k` does, under the rules: their order, the scores of the model.

        A list is shorter than n where the best max(200, 10 n) items have no more within `max_per`.
        """
        self.check_n(n)
        scores = np.ascontiguousarray(scores, np.float32)
        mask = self.allowed & (True if allowed is None else allowed)
        fixed = {rank: item for rank, item in self.slots.items() if mask[item]}
        mask[list(fixed.values())] = False
        if self.reorders:
            pool = masked_top_k(scores, self._pool_size(n), seen=seen, allowed=mask)
            top = self._choose_from(pool, n)
        else:
            top = masked_top_k(scores, n, seen=seen, allowed=mask)
        for rank, item in fixed.items():
            _insert(
                top,
                rank,
                item,
                scores[:, item],
                seen,
            )
        return top

    def _pool_size(self, n: int) -> int:
        return max(n, min(len(self.items), max(_POOL, _POOL_PER_ITEM * n)))

    def _choose_from(
        self,
        pool: TopK,
        n: int,
    ) -> TopK:
        """Choose the `n` best of each pool, one after the other."""
        value = np.ma.masked_array(pool.scores.astype(np.float64), pool.items < 0)
        value = value + value.std(axis=1, keepdims=True) * self.boost[pool.items]
        value = value - value.min(axis=1, keepdims=True)
        value = (value / np.maximum(value.max(axis=1, keepdims=True), 1e-30)).filled(0)
        top = TopK.empty(len(value), n)
        _choose(
            (pool.items, pool.scores),
            value,
            (self.labels.indptr, self.labels.indices, self.caps),
            self.vectors,
            self.diversity,
            (top.items, top.scores),
        )
        return top


@kernel(parallel=True)
def _choose(
    pools: tuple[Ints, Floats],
    value: NDArray[np.float64],
    labels: tuple[Ints, Ints, Ints],
    vectors: Floats,
    diversity: float,
    lists: tuple[Ints, Floats],
) -> None:
    """Fill the lists (items, scores) from the pools; value float64[m, p] is within [0, 1].

    `labels` are the index pointers and codes of each item's values, and the cap of each code.
    """
    pool_items, pool_scores = pools
    list_items, list_scores = lists
    indptr, codes, caps = labels
    for user in prange(len(value)):
        pool = pool_items[user]
        used = np.zeros(len(caps), np.int32)
        largest_cosine = np.zeros(len(pool))
        closed = pool < 0
        for rank in range(list_items.shape[1]):
            _close_full(closed, pool, labels, used)
            best = -1
            most = -np.inf
            for column in range(len(pool)):
                relevance = (1 - diversity) * value[user, column]
                worth = relevance - diversity * largest_cosine[column]
                if not closed[column] and worth > most:
                    best = column
                    most = worth
            if best < 0:
                break
            item = pool[best]
            closed[best] = True
            list_items[user, rank] = item
            list_scores[user, rank] = pool_scores[user, best]
            for code in codes[indptr[item] : indptr[item + 1]]:
                used[code] += 1
            if diversity > 0:
                for column in range(len(pool)):
                    if not closed[column]:
                        cosine = np.dot(vectors[item], vectors[pool[column]])
                        largest_cosine[column] = max(largest_cosine[column], cosine)


@kernel
def _close_full(
    closed: Mask,
    pool: Ints,
    labels: tuple[Ints, Ints, Ints],
    used: Ints,
) -> None:
    """Close the items of a pool with a value that the list has as often as it may."""
    indptr, codes, caps = labels
    for column in range(len(pool)):
        if closed[column]:
            continue
        for code in codes[indptr[pool[column]] : indptr[pool[column] + 1]]:
            closed[column] |= used[code] >= caps[code]


def _insert(
    top: TopK,
    rank: int,
    item: int,
    scores: Floats,
    seen: Sequences | None,
) -> None:
    """Put an item at a rank of every list whose user may get it; a short list has no gap."""
    may_get = np.isfinite(scores)
    if seen is not None:
        may_get &= [item not in seen.of(row) for row in range(len(seen))]
    lengths = (top.items >= 0).sum(axis=1)
    positions = np.minimum(rank - 1, lengths)
    for row in np.flatnonzero(may_get):
        position = positions[row]
        top.items[row, position + 1 :] = top.items[row, position:-1].copy()
        top.items[row, position] = item
        top.scores[row, position + 1 :] = top.scores[row, position:-1].copy()
        top.scores[row, position] = scores[row]
