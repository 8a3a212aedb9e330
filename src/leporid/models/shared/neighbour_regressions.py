"""EASE where the catalogue is too large for its inverse: each item regressed on its nearest items.

After the sparse approximation of Steck (NeurIPS 2019): the inverse of a small block of the Gram
matrix, an item and its neighbours, gives the regression of that item, and of those nearest to it
as well, so that far fewer blocks are solved than there are items. Unlike there, an item's weights
come from one block, and are not averaged over several.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg, sparse

from leporid.kernel import kernel
from leporid.models.shared.sparse import canonical, csr_parts, top_k_products
from leporid.progress import ProgressLike

_SHARE = 0.05
"""The part of a block, nearest first, whose regressions are read off its inverse."""


def neighbour_regressions(
    profiles: sparse.csr_array, l2: float, neighbours: int, progress: ProgressLike
) -> sparse.csr_array:
    """float32[n_items, n_items]: B with at most `neighbours` entries in each column.

    Neighbours are the items of largest cosine. With all of them it is EASE's B.
    """
    n_items = profiles.shape[1]
    by_item = canonical(profiles.T)
    norms = np.sqrt(np.maximum(by_item.multiply(by_item).sum(axis=1), 1e-30))
    near = top_k_products(by_item, profiles, neighbours, rows=norms, columns=norms)
    todo = np.ones(n_items, dtype=np.bool_)
    rows, columns, values = [], [], []
    progress.start("ease", n_items)
    for item in np.argsort(-np.diff(by_item.indptr), kind="stable"):
        if not todo[item]:
            continue
        first, stop = near.indptr[item : item + 2]
        by_weight = np.argsort(-near.data[first:stop], kind="stable")
        block = np.concatenate([[item], near.indices[first:stop][by_weight]])
        served = np.flatnonzero(todo[block[: 1 + int(_SHARE * len(block))]])
        gram = l2 * np.eye(len(block))
        _add_gram(csr_parts(canonical(by_item[block].T)), gram)
        units = np.eye(len(block))[:, served]
        inverse = linalg.solve(gram, units, lower=True, assume_a="pos", check_finite=False)
        weights = inverse / -inverse[served, np.arange(len(served))]
        weights[served, np.arange(len(served))] = 0
        rows.append(np.tile(block, len(served)))
        columns.append(np.repeat(block[served], len(block)))
        values.append(weights.T.ravel().astype(np.float32))
        todo[block[served]] = False
        progress.advance(len(served))
    entries = [np.concatenate(parts) for parts in (values, rows, columns)]
    found = sparse.csr_array((entries[0], (entries[1], entries[2])), shape=(n_items, n_items))
    found.eliminate_zeros()
    return canonical(found)


@kernel
def _add_gram(rows: Any, out: Any) -> None:
    """out += X'X for the rows of a sorted CSR matrix X; only its lower triangle."""
    ptr, idx, val = rows
    for row in range(len(ptr) - 1):
        for a in range(ptr[row], ptr[row + 1]):
            for b in range(ptr[row], a + 1):
                out[idx[a], idx[b]] += val[a] * val[b]
